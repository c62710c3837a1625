"""Git repositories as this server sees them: a bare mirror of each below the data directory, and questions to `git`.

A mirror is fetched before it is asked for anything that may have changed; a commit named by its whole hash is taken
from the mirror when it is there. Everyone who waits for one mirror while it is fetched shares the next fetch, and who
asks for the same again while it is sought shares the search; what nobody waited for is there for the next. `git`
runs in a thread, without a terminal, hooks or the configuration of the machine, over the transports listed below, and
with its children is killed when its time is over. Answers are read by `core.gittree`.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lading.core import gittree
from lading.core.errors import Invalid, Unavailable
from lading.core.gittree import Found, Reference

TRANSPORTS: Final = "file:git:http:https:ssh"
_MOST: Final = 100
_FULL: Final = re.compile(r"[0-9a-f]{40}")
_SAFE: Final = (
    "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "safe.directory=*", "-c", "credential.helper=",
    "-c", "fetch.fsckObjects=true", "-c", "http.followRedirects=false",
)  # fmt: skip
_REFS: Final = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


@dataclass(slots=True)
class _Mirror:
    path: Path
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: int = 0
    fetched: int = 0


class GitCache:
    """Mirrors below one directory. `timeout` is the longest that one run of `git` may take, in seconds."""

    def __init__(self, directory: Path, *, timeout: float, program: str = "git") -> None:
        self._directory = directory
        self._timeout = timeout
        self._program = program
        self._mirrors: dict[str, _Mirror] = {}
        self._processes: set[subprocess.Popen[str]] = set()
        self._searches: dict[tuple[str, ...], asyncio.Task[tuple[Found, ...]]] = {}

    async def find(self, url: str, wanted: Reference, *, patience: float) -> tuple[Found, ...] | None:
        """The trees or blobs that a mount may be, newest first, at least one; None while that takes longer.

        Raises Invalid when the repository has no such commit or path, Unavailable when it cannot be reached.
        """
        key = (url, wanted.target, wanted.selector, wanted.revision, wanted.path)
        search = self._searches.get(key)
        if search is None:
            for old in [one for one, task in self._searches.items() if task.done() and len(self._searches) >= _MOST]:
                self._searches.pop(old).exception()
            if len(self._searches) >= _MOST:
                raise Unavailable("too many repositories are being fetched; try again later")
            search = self._searches[key] = asyncio.create_task(self._find(url, wanted), name=f"git {url}")
        await asyncio.wait((search,), timeout=patience)
        if not search.done():
            return None
        self._searches.pop(key, None)
        return search.result()

    async def close(self) -> None:
        """Give up all searches, and end what runs for them."""
        searches = tuple(self._searches.values())
        self._searches.clear()
        for process in tuple(self._processes):
            _kill(process)
        for one in searches:
            one.cancel()
        await asyncio.gather(*searches, return_exceptions=True)

    async def _find(self, url: str, wanted: Reference) -> tuple[Found, ...]:
        name = hashlib.sha256(url.encode()).hexdigest()[:40]
        mirror = self._mirrors.setdefault(name, _Mirror(self._directory / name))
        if _FULL.fullmatch(wanted.revision):
            found = await asyncio.to_thread(self._look, mirror.path, wanted)
            if found:
                return found
        await self._fetch(mirror, url)
        found = await asyncio.to_thread(self._look, mirror.path, wanted)
        if not found:
            path = f" with the path {wanted.path!r}" if wanted.path else ""
            raise Invalid(f"Mounts [{wanted.target}][{wanted.selector}]: {url} has no commit {wanted.revision!r}{path}")
        return found

    async def _fetch(self, mirror: _Mirror, url: str) -> None:
        mirror.asked += 1
        mine = mirror.asked
        async with mirror.lock:
            if mirror.fetched >= mine:
                return
            until = mirror.asked
            await asyncio.to_thread(self._bring_up_to_date, mirror.path, url)
            mirror.fetched = until

    def _bring_up_to_date(self, path: Path, url: str) -> None:
        with _alone(path):
            if not (path / "HEAD").exists():
                self._git(path, ("init", "--quiet", "--bare", "."))
            self._git(path, ("fetch", "--quiet", "--prune", "--force", "--no-tags", "--", url, *_REFS), what=url)

    def _look(self, path: Path, wanted: Reference) -> tuple[Found, ...]:
        if not (path / "HEAD").exists():
            return ()
        commits = self._commits(path, wanted)
        if not commits:
            return ()
        asked = gittree.lookup_lines(commits, wanted.path)
        return gittree.read_lookup(commits, self._git(path, ("cat-file", "--batch-check"), text=asked))

    def _commits(self, path: Path, wanted: Reference) -> Sequence[str]:
        words = wanted.revision.split()
        if wanted.selector == "commit":
            command = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{words[0]}^{{commit}}"]
        else:
            command = ["rev-list", f"--max-count={gittree.MAX_COMMITS}", "--end-of-options", *words, "--"]
        answer = self._git(path, command, unknown_is_empty=True)
        return [line for line in answer.split() if _FULL.fullmatch(line)]

    def _git(
        self, path: Path, command: Sequence[str], *, text: str = "", what: str = "", unknown_is_empty: bool = False
    ) -> str:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._directory),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": TRANSPORTS,
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            "GIT_DIR": ".",
        }
        try:
            process = subprocess.Popen(
                [self._program, *_SAFE, *command], cwd=path, env=environment, text=True, errors="replace",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Unavailable(f"git: cannot be run here: {error}; install git on the server") from None
        self._processes.add(process)
        with process:
            try:
                out, err = process.communicate(text, timeout=self._timeout)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise Unavailable(f"git {command[0]} {what}: took longer than {self._timeout:g} s; try again") from None
            finally:
                self._processes.discard(process)
        if process.returncode == 0:
            return out
        if unknown_is_empty:
            return ""
        fault = " ".join(err.split())[-300:]
        raise Unavailable(f"git {command[0]} {what}: failed with code {process.returncode}: {fault}")


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process that has not been waited for, with its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a mirror against other processes of this server."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path / "lading.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
