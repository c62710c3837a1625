"""Git repositories: a bare mirror of each below the data directory, and queries to `git`.

A mirror is fetched before any query whose answer may have changed; a commit with its whole hash is
taken from the mirror if it is there. All callers that wait for a mirror during a fetch share the
next fetch, and equal searches share one search; results that nobody waited for are kept for the
next caller. `git` runs in a thread, without a terminal, hooks or the configuration of the machine,
with the transports listed below, and is killed with its children after its time limit.
`core.containers.mounting.git_trees` parses its output.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from lading.api.server.features import FeatureKey
from lading.client.caches.disk_cache import DiskCache
from lading.client.caches.entry_files import CacheLayout
from lading.core.containers.mounting import git_trees
from lading.core.containers.mounting.git_trees import GitReference, ResolvedGitTree
from lading.core.errors import Invalid, Unavailable
from lading.process.concurrency import cancel_all
from lading.process.confined import ConfinedTree

TRANSPORTS: Final = "file:git:http:https:ssh"
# Searches that are remembered at a time; a search is kept until its caller asks again.
_MOST: Final = 100
_LAYOUT: Final = CacheLayout(pattern="*/", lock="{}/lading.lock")
# Seconds since its last use for which a mirror is not removed, even if all mirrors are too large.
_LATELY: Final = 600.0
# Bytes of an archive that are read, and sent, at a time.
_PIECE: Final = 1 << 20
# Characters kept of each output of a command: more than the answers about `MAX_COMMITS` commits.
_MOST_OUTPUT: Final = 1 << 20
_OUTPUT_PIECE: Final = 1 << 16
# A complete commit hash, which needs no lookup.
_FULL: Final = re.compile(r"[0-9a-f]{40}")
_SAFE: Final = (
    "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "safe.directory=*",
    "-c", "credential.helper=", "-c", "fetch.fsckObjects=true", "-c", "http.followRedirects=false",
    # One file for each fetch, whose size is limited; large objects are not held in memory.
    "-c", "fetch.unpackLimit=1", "-c", "core.bigFileThreshold=32m",
)  # fmt: skip
# Limits of a file and of the memory, in blocks of 512 bytes and in KiB, for git and its helpers.
_LIMITED: Final = 'ulimit -f "$1" && ulimit -d "$2" && shift 2 && exec "$@"'
# Bytes of memory of each process: an object may have any size, and `git archive` holds a list of
# all files of a tree, which some kilobytes of objects make billions of.
_MEMORY: Final = 1 << 30
_FETCH_MEMORY: Final = 4 << 30
_REFS: Final = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


@dataclass(slots=True)
class _Mirror:
    path: Path
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: int = 0
    fetched: int = 0


class GitCache:
    """Mirrors below one directory. `timeout` is the longest run of `git`, in seconds; `size` the
    bytes of mirrors to keep.
    """

    def __init__(
        self,
        directory: Path,
        *,
        timeout: float,
        size: int = 10 << 30,
        program: str = "git",
        most: int = _MOST,
    ) -> None:
        """`timeout`: seconds for each command; `size`: bytes of all mirrors; `most`: searches at a
        time.
        """
        self._most = most
        self.directory = directory
        self.timeout = timeout
        self._cache = DiskCache(directory, size, layout=_LAYOUT, weigh=_size_of)
        self._size = size
        self._program = program
        self._mirrors: dict[str, _Mirror] = {}
        self._processes: set[subprocess.Popen[str] | subprocess.Popen[bytes]] = set()
        self._searches: dict[tuple[str, ...], asyncio.Task[tuple[ResolvedGitTree, ...]]] = {}

    async def find(
        self, url: str, reference: GitReference, *, patience: float, addresses: Sequence[str] = ()
    ) -> tuple[ResolvedGitTree, ...] | None:
        """The trees or blobs that a mount may name, newest first, at least one; None if that takes
        longer than `patience`. `addresses`: those of the host, which were checked, and to which
        alone `git` connects; without them it looks the name up.

        Raises Invalid when the repository has no such commit or path, Unavailable when it cannot be
        reached.
        """
        key = (url, reference.target, reference.selector, reference.revision, reference.path)
        search = self._searches.get(key)
        if search is None:
            for old in [
                search_key
                for search_key, task in self._searches.items()
                if task.done() and len(self._searches) >= self._most
            ]:
                # Finished searches that nobody collected make room; `exception` keeps asyncio from
                # reporting them as never retrieved.
                self._searches.pop(old).exception()
            if len(self._searches) >= self._most:
                raise Unavailable("too many repositories are being fetched; try again later")
            search = self._searches[key] = asyncio.create_task(
                self._find(url, reference, addresses), name=f"git {url}"
            )
        # Not cancelled when the patience is over: the next call finds the search, or its result.
        await asyncio.wait((search,), timeout=patience)
        if not search.done():
            return None
        self._searches.pop(key, None)
        return search.result()

    async def archive(self, kind: str, object_hash: str) -> AsyncGenerator[bytes] | None:
        """A tree as a tar archive, or a blob, by its hash and in pieces; None when no mirror has
        it.

        The caller closes the generator. Raises Unavailable when `git` cannot be run; an archive
        that breaks off is shorter.
        """
        mirror = await asyncio.to_thread(self._mirror_with, object_hash)
        if mirror is None:
            return None
        command = (
            ("archive", "--format=tar", object_hash)
            if kind == "tree"
            else ("cat-file", "blob", object_hash)
        )
        return self._pieces(await asyncio.to_thread(self._start, mirror, command))

    async def shrink(self, now: float) -> int:
        """Remove the mirrors that were unused longest until the rest fits; the number of removed
        ones. `now` is in seconds since 1970.
        """
        return await asyncio.to_thread(self._cache.evict, spare_since=now - _LATELY)

    async def close(self) -> None:
        """Cancel all searches, and end their processes."""
        searches = tuple(self._searches.values())
        self._searches.clear()
        for process in tuple(self._processes):
            _kill(process)
        await cancel_all(*searches)

    async def _find(
        self, url: str, reference: GitReference, addresses: Sequence[str]
    ) -> tuple[ResolvedGitTree, ...]:
        # The name of a directory must not be made of a client's address.
        name = hashlib.sha256(url.encode()).hexdigest()[:40]
        mirror = self._mirrors.setdefault(name, _Mirror(self.directory / name))
        await asyncio.to_thread(self._cache.touch, name)
        # A whole hash means the same for ever: without a fetch it is as good.
        if _FULL.fullmatch(reference.revision):
            trees = await asyncio.to_thread(self._look, mirror.path, reference)
            if trees:
                return trees
        await self._fetch(mirror, url, addresses)
        trees = await asyncio.to_thread(self._look, mirror.path, reference)
        if not trees:
            path = f" with the path {reference.path!r}" if reference.path else ""
            raise Invalid(
                f"Mounts [{reference.target}][{reference.selector}]: "
                f"{url} has no commit {reference.revision!r}{path}"
            )
        return trees

    async def _fetch(self, mirror: _Mirror, url: str, addresses: Sequence[str]) -> None:
        mirror.asked += 1
        mine = mirror.asked
        async with mirror.lock:
            # A fetch that began after this call was made serves it too.
            if mirror.fetched >= mine:
                return
            # Taken before the fetch: calls that come during it may need later commits.
            until = mirror.asked
            await asyncio.to_thread(self._bring_up_to_date, mirror.path, url, addresses)
            mirror.fetched = until

    def _bring_up_to_date(self, path: Path, url: str, addresses: Sequence[str]) -> None:
        # Other processes of the server share the mirrors.
        lock = self._cache.lock(path.name, wait=True)
        assert lock is not None
        try:
            if not (path / "HEAD").exists():
                self._git(path, ("init", "--quiet", "--bare", "."))
            pinned = git_trees.pinned(url, addresses)
            self._git(
                path,
                # "--": an address that begins with a dash is no option.
                (
                    *(word for setting in pinned.settings for word in ("-c", setting)),
                    *("fetch", "--quiet", "--prune", "--force", "--no-tags", "--", pinned.url),
                    *_REFS,
                ),
                action=f"fetch {url}",
                environment=pinned.environment,
            )
        except BaseException:
            # git leaves the pack that it could not finish.
            for left in (path / "objects").glob("pack/tmp_*"):
                left.unlink(missing_ok=True)
            raise
        finally:
            os.close(lock)

    def _look(self, path: Path, reference: GitReference) -> tuple[ResolvedGitTree, ...]:
        if not (path / "HEAD").exists():
            return ()
        commits = self._commits(path, reference)
        if not commits:
            return ()
        asked = git_trees.lookup_lines(commits, reference.path)
        return git_trees.read_lookup(
            commits, self._git(path, ("cat-file", "--batch-check"), stdin_text=asked)
        )

    def _commits(self, path: Path, reference: GitReference) -> Sequence[str]:
        words = reference.revision.split()
        if reference.selector == "commit":
            command = [
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                f"{words[0]}^{{commit}}",
            ]
        else:
            command = [
                "rev-list",
                f"--max-count={git_trees.MAX_COMMITS}",
                "--end-of-options",
                *words,
                "--",
            ]
        answer = self._git(path, command, unknown_is_empty=True)
        return [line for line in answer.split() if _FULL.fullmatch(line)]

    def _mirror_with(self, object_hash: str) -> Path | None:
        """The mirror that has an object, the last used first."""
        mirrors = self.directory.glob("*/HEAD")
        for head in sorted(mirrors, key=lambda path: path.stat().st_mtime_ns, reverse=True):
            if self._git(head.parent, ("cat-file", "-t", object_hash), unknown_is_empty=True):
                head.touch()
                return head.parent
        return None

    async def _pieces(self, process: subprocess.Popen[bytes]) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.timeout
        try:
            assert process.stdout is not None
            while True:
                reading = asyncio.ensure_future(asyncio.to_thread(process.stdout.read, _PIECE))
                # Before its first byte `git archive` lists all files of the tree.
                await asyncio.wait({reading}, timeout=max(until - loop.time(), 0))
                if not reading.done():
                    _kill(process)
                piece = await reading
                if loop.time() > until:
                    raise Unavailable(
                        f"git: sending took longer than {self.timeout:g} s; "
                        "raise Containers.GitTimeout"
                    )
                if not piece:
                    break
                yield piece
        finally:
            _kill(process)
            self._processes.discard(process)
            await asyncio.to_thread(process.communicate)

    def _start(self, path: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                self._words(command), cwd=path, env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                # A session of its own, so that `_kill` reaches the helpers of git, such as ssh, as
                # well.
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise _no_git(error) from None
        self._processes.add(process)
        return process

    def _words(self, command: Sequence[str]) -> list[str]:
        """The command line of git with its limits. Raises OSError without git."""
        program = shutil.which(self._program)
        if program is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._program)
        memory = _FETCH_MEMORY if "fetch" in command else _MEMORY
        size = _at_most(resource.RLIMIT_FSIZE, self._size) // 512
        limits = (str(max(size, 1)), str(_at_most(resource.RLIMIT_DATA, memory) // 1024))
        return ["/bin/sh", "-c", _LIMITED, "git", *limits, program, *_SAFE, *command]

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            # The user's own configuration would be found by HOME; it may name helpers and hooks.
            "HOME": str(self.directory),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            # A password prompt would wait for ever.
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": TRANSPORTS,
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            "GIT_DIR": ".",
        }

    def _git(
        self,
        path: Path,
        command: Sequence[str],
        *,
        stdin_text: str = "",
        action: str = "",
        environment: Mapping[str, str] | None = None,
        unknown_is_empty: bool = False,
    ) -> str:
        try:
            process = subprocess.Popen(
                self._words(command), cwd=path, env=self._environment() | dict(environment or {}),
                text=True, errors="replace", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise _no_git(error) from None
        self._processes.add(process)
        with process, _BoundedOutput(process) as output:
            try:
                # Only commands without a network read a text, and it is small.
                output.feed(stdin_text)
                output.wait(self.timeout)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise Unavailable(
                    f"git {action or command[0]}: took longer than {self.timeout:g} s; try again"
                ) from None
            finally:
                self._processes.discard(process)
        out, err = output.texts
        if process.returncode == 0:
            return out
        if unknown_is_empty:
            return ""
        fault = " ".join(err.split())[-300:]
        raise Unavailable(
            f"git {action or command[0]}: failed with code {process.returncode}: {fault}"
        )


class _BoundedOutput:
    """The ends of what a process writes: a server's messages, which git passes on, have no end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._ends = ["", ""]
        self._threads = [
            threading.Thread(target=self._read, args=(number,), name="git output")
            for number in range(2)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The process and its helpers have ended, or were killed.
        for thread in self._threads:
            thread.join()

    def wait(self, timeout: float) -> None:
        """Wait until the process, and all helpers that have its pipes, have ended. Raises
        subprocess.TimeoutExpired, and leaves the process as it is.
        """
        until = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0))
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self._process.args, timeout)
        self._process.wait(max(until - time.monotonic(), 0.1))

    @property
    def texts(self) -> tuple[str, str]:
        """Output and errors, the last `_MOST_OUTPUT` characters of each, after the end."""
        return self._ends[0], self._ends[1]

    def feed(self, stdin_text: str) -> None:
        """Give the process its input."""
        assert self._process.stdin is not None
        # It ended without reading.
        with suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(stdin_text)

    def _read(self, number: int) -> None:
        stream = (self._process.stdout, self._process.stderr)[number]
        assert stream is not None
        while piece := stream.read(_OUTPUT_PIECE):
            self._ends[number] = (self._ends[number] + piece)[-_MOST_OUTPUT:]


def _at_most(kind: int, limit: int) -> int:
    """The limit, or that of this process where it is lower: it cannot be raised."""
    _, hard = resource.getrlimit(kind)
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def _no_git(error: OSError) -> Unavailable:
    return Unavailable(f"git: cannot be run here: {error}; install git on the server")


def _kill(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Kill a process that has not been waited for, and its children."""
    # The process has ended already.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _size_of(path: Path) -> int:
    """The bytes of the objects of a mirror. Only its directory of objects is walked: the
    directories of its branches may have any depth.
    """
    total = 0
    # A mirror that is being removed.
    with suppress(OSError), ConfinedTree.open(path / "objects") as tree:
        for directory in list(tree.scan()):
            # git packs or removes objects meanwhile.
            with suppress(FileNotFoundError, NotADirectoryError):
                total += sum(
                    entry.stat(follow_symlinks=False).st_size for entry in tree.scan(directory.name)
                )
    return total


GIT: Final = FeatureKey[GitCache]("git repositories")
