"""Subordinate ids: those that root has given to an ordinary user for containers (subuid(5)).

Only newuidmap and newgidmap, which have root's rights, may put them into the map of a user
namespace, and only from outside of it. `IdMapper` starts them from a shell that waits until the
namespace is there.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from lading.core.user_ids import Extent, count_ids, first_ids, inherited, subordinate

PROGRAMS = ("newuidmap", "newgidmap")
# Seconds for both programs, which take some 10 ms.
_PATIENCE = 10.0


class IdMap(msgspec.Struct, frozen=True):
    """The ids of a user namespace beyond its root; as many users as groups."""

    users: tuple[Extent, ...] = ()
    groups: tuple[Extent, ...] = ()

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The map of a container, which has all of them and root."""
        return inherited(self.users, self.groups)

    @property
    def count(self) -> int:
        """Number of ids, that of root included."""
        return 1 + count_ids(self.users)


class FoundIds(msgspec.Struct, frozen=True):
    """The subordinate ids of a user, or the reason why there are none."""

    ids: IdMap = IdMap()
    fault: str = ""
    mend: str = ""
    """The command that removes the fault."""


def find_ids(
    user: int,
    *,
    which: Callable[[str], str | None] = shutil.which,
    read: Callable[[str], str] = lambda path: _read(path),
    name_of: Callable[[int], str] = lambda user: _name(user),
) -> FoundIds:
    """The ids that the files of this machine give to a user."""
    name = name_of(user)
    if not all(which(program) for program in PROGRAMS):
        return FoundIds(
            fault="newuidmap and newgidmap are not installed", mend="sudo apt install uidmap"
        )
    if not name:
        return FoundIds(fault=f"user id {user} has no account")
    names = (name, str(user))
    users, groups = (subordinate(read(path), names) for path in ("/etc/subuid", "/etc/subgid"))
    count = min(count_ids(users), count_ids(groups))
    if not count:
        return FoundIds(
            fault=f"/etc/subuid or /etc/subgid has no range for {name}",
            mend=f"sudo usermod --add-subuids 524288-589823 --add-subgids 524288-589823 {name}",
        )
    return FoundIds(IdMap(first_ids(users, count), first_ids(groups, count)))


class IdMapper:
    """Maps ids in the user namespace that this process is about to make. A context manager."""

    def __init__(self, ids: IdMap) -> None:
        """Start the shell. Raises OSError."""
        process = str(os.getpid())
        tables = ((os.geteuid(), ids.users), (os.getegid(), ids.groups))
        commands = [
            shlex.join([program, process, *_fields((Extent(0, own, 1), *rows))])
            for program, (own, rows) in zip(PROGRAMS, tables, strict=True)
        ]
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", " && ".join(["read -r line", *commands])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Without a line the shell ends.
        self._shell.kill()
        self._shell.communicate()

    def map(self) -> None:
        """Map them now. Raises OSError."""
        try:
            _, said = self._shell.communicate(b"\n", timeout=_PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise OSError(f"{PROGRAMS[0]} does not end in {_PATIENCE:g} s") from error
        if self._shell.returncode:
            words = " ".join(said.decode(errors="replace").split())[:200]
            raise OSError(words or f"{PROGRAMS[0]} ended with {self._shell.returncode}")


def _fields(rows: tuple[Extent, ...]) -> list[str]:
    return [str(number) for row in rows for number in (row.inside, row.outside, row.size)]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        # The machine gives such ids to nobody.
        return ""


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return ""
