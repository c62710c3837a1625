"""An ordinary user for tests that run as root: an id without an account, and its own directories.

A test that runs as an ordinary user is this user itself.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

FIRST_ID = 61_000
"""The id of the first user; distributions give none of this size to accounts by themselves."""
# Above the ranges that distributions give to accounts, below those of root's containers.
_FIRST_SUBORDINATE = 1_500_000_000
_RANGES = ("subuid", "subgid")
_ACCOUNTS = ("passwd", *_RANGES)


@dataclass(frozen=True, slots=True)
class OrdinaryUser:
    """A user, its home, and a directory for its temporary files. `preparation` are commands of
    root for a shell, which change the machine that its processes see, in a mount namespace.
    """

    number: int
    home: Path
    temporary: Path
    preparation: str = ""

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of its processes."""
        kept = {name: os.environ[name] for name in ("PATH", "CI", "LANG") if name in os.environ}
        own = {"HOME": str(self.home), "TMPDIR": str(self.temporary)}
        return {**kept, **own, **(more or {})}

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: int | None = subprocess.PIPE,
        stderr: int | None = subprocess.STDOUT,
    ) -> subprocess.Popen[bytes]:
        """Start a command as this user, without further groups. Raises OSError."""
        is_root = os.geteuid() == 0
        if self.preparation:
            command = self._prepared(command)
            is_root = False
        return subprocess.Popen(
            command,
            env=self.environment(environment),
            cwd=cwd or self.home,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            user=self.number if is_root else None,
            group=self.number if is_root else None,
            extra_groups=[] if is_root else None,
        )

    def _prepared(self, command: Sequence[str]) -> list[str]:
        """The command of root that starts a command as this user after the preparation, in a mount
        namespace of its own.
        """
        change = f"exec setpriv --reuid {self.number} --regid {self.number} --clear-groups"
        script = f'{self.preparation} && {change} -- "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", *command]


@contextmanager
def user_with_ids() -> Iterator[OrdinaryUser]:
    """A user with an account and subordinate ids, made for the test if the caller is root."""
    with ordinary_user(offset=9) as user:
        if os.geteuid():
            yield user
            return
        accounts = user.temporary.parent / "accounts"
        accounts.mkdir()
        account = f"lading-test:x:{user.number}:{user.number}::{user.home}:/bin/sh\n"
        passwd = Path("/etc/passwd").read_text()
        (accounts / "passwd").write_text(f"{passwd.rstrip()}\n{account}")
        for name in _RANGES:
            # A mount needs a file below it; an empty one gives ids to nobody.
            Path("/etc", name).touch(mode=0o644)
            (accounts / name).write_text(f"{user.number}:{_FIRST_SUBORDINATE}:65536\n")
        binds = (
            f"mount --bind {shlex.quote(f'{accounts}/{name}')} /etc/{name}" for name in _ACCOUNTS
        )
        yield replace(user, preparation=" && ".join(binds))


@contextmanager
def user_with_tun() -> Iterator[OrdinaryUser]:
    """A user for whom the device of network interfaces is there, as distributions have it; made so
    for the test if the caller is root.
    """
    with ordinary_user(offset=8) as user:
        device = "mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200"
        yield user if os.geteuid() else replace(user, preparation=device)


@contextmanager
def ordinary_user(offset: int = 0) -> Iterator[OrdinaryUser]:
    """A user with empty directories, which are removed afterwards. Users with different offsets are
    different ones, if the caller is root.
    """
    root = Path(tempfile.mkdtemp(prefix="lading-user-", dir=_world_readable()))
    number = FIRST_ID + offset if os.geteuid() == 0 else os.geteuid()
    try:
        root.chmod(0o755)
        user = OrdinaryUser(number, root / "home", root / "tmp")
        for directory in (user.home, user.temporary):
            directory.mkdir(mode=0o700)
            os.chown(directory, number, -1)
        yield user
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _world_readable() -> str:
    """A directory for temporary files that every user may pass."""
    here = Path(tempfile.gettempdir())
    is_open = all(path.stat().st_mode & 0o001 for path in (here, *here.parents))
    return str(here) if is_open else "/var/tmp"  # noqa: S108 - every machine has it
