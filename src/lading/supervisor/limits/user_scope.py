"""A scope of an ordinary user's systemd in which Lading serves: systemd delegates its control group
of version 2 to the user, so that the kernel enforces the limits of containers (`delegation`).

The scope lives as long as the user's manager. Without lingering (loginctl(1), `enable-linger`) that
manager ends with the last login of the user, and containers with it; a process outside the scope
goes on. So a user who does not linger gets no scope.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lading.supervisor.limits.cgroup import read_text
from lading.supervisor.limits.delegation import find_delegated, of_user_manager, user_environment

_RUN = "systemd-run"
_SCOPE = (_RUN, "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--")
# A process that has it is in the scope, whatever systemd says of its group.
_ENTERED = "LADING_IN_SCOPE"
_TIMEOUT = 10.0


def _can_start(environ: Mapping[str, str]) -> bool:
    try:
        run = subprocess.run(
            [*_SCOPE, "true"],
            env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        # A user of a directory service that does not answer, or of none.
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScope:
    """The scope that a user can have. Every part can be replaced by a test."""

    user: int = field(default_factory=os.geteuid)
    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    name_of: Callable[[int], str] = _name_of
    which: Callable[[str], str | None] = shutil.which
    can_start: Callable[[Mapping[str, str]], bool] = _can_start
    is_delegated: Callable[[Path], bool] | None = None

    def is_lingering(self) -> bool:
        """Whether systemd runs the user's manager without a login."""
        name = self.name_of(self.user)
        return bool(name) and (self.root / "var/lib/systemd/linger" / name).exists()

    def controllers(self) -> tuple[str, ...]:
        """Controllers that the scope would have; none where the user cannot have it."""
        if not self._is_possible():
            return ()
        group = of_user_manager(self.root / "sys/fs/cgroup", self.user)
        return tuple(read_text(group / "cgroup.controllers").split())

    def command(self, program: Sequence[str]) -> list[str]:
        """The command that runs a program in a new scope; none if this process has a delegated
        group already, belongs to a service, or cannot have a scope.
        """
        own = read_text(self.root / "proc/self/cgroup")
        is_in_scope = any(line.endswith(".scope") for line in own.splitlines())
        if _ENTERED in self.environ or not is_in_scope or not self._is_possible():
            return []
        mounts = read_text(self.root / "proc/mounts")
        if find_delegated(mounts, own, is_delegated=self.is_delegated):
            return []
        return [*_SCOPE, *program]

    def _is_possible(self) -> bool:
        return (
            self.user != 0
            and (self.root / "sys/fs/cgroup/cgroup.controllers").exists()
            and (self.root / f"run/user/{self.user}/systemd").is_dir()
            and self.is_lingering()
            and self.which(_RUN) is not None
            and self.can_start(user_environment(self.environ, self.user))
        )


def enter_scope(program: Sequence[str], environ: MutableMapping[str, str]) -> None:
    """Run a program, which is this process begun anew, in a scope of the user in place of this
    process; return where there is no need of a scope, or no way to one.

    Call it before the process has opened anything: its process id and its standard streams are all
    that stays.
    """
    command = UserScope(environ=environ).command(program)
    environ.pop(_ENTERED, None)
    if command:
        within = user_environment(environ, os.geteuid()) | {_ENTERED: "1"}
        os.execvpe(command[0], command, within)  # noqa: S606
