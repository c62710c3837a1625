"""An ordinary user for tests that run as root: an id without an account, and its own directories.

A test that runs as an ordinary user is this user itself.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lading.supervisor.subordinate_ids import find_ids

FIRST_ID = 61_000
"""The id of the first user; distributions give none of this size to accounts by themselves."""


@dataclass(frozen=True, slots=True)
class OrdinaryUser:
    """A user, its home, and a directory for its temporary files."""

    number: int
    home: Path
    temporary: Path

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


def account_with_ids() -> int:
    """The id of an account of this machine with subordinate ids that may use them, 0 for none. That
    of the caller, unless it is root.
    """
    own = os.geteuid()
    users = [user.pw_uid for user in pwd.getpwall() if user.pw_uid] if own == 0 else [own]
    return next((user for user in users if not find_ids(user).fault), 0)


@contextmanager
def ordinary_user(offset: int = 0, *, account: int = 0) -> Iterator[OrdinaryUser]:
    """A user with empty directories, which are removed afterwards. Users with different offsets are
    different ones, if the caller is root; `account` is the id of one that the machine has.
    """
    place = Path(tempfile.mkdtemp(prefix="lading-user-", dir=_world_readable()))
    number = account or FIRST_ID + offset if os.geteuid() == 0 else os.geteuid()
    try:
        place.chmod(0o755)
        user = OrdinaryUser(number, place / "home", place / "tmp")
        for directory in (user.home, user.temporary):
            directory.mkdir(mode=0o700)
            os.chown(directory, number, -1)
        yield user
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _world_readable() -> str:
    """A directory for temporary files that every user may pass."""
    here = Path(tempfile.gettempdir())
    is_open = all(path.stat().st_mode & 0o001 for path in (here, *here.parents))
    return str(here) if is_open else "/var/tmp"  # noqa: S108 - every machine has it
