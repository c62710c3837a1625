"""The engine of this machine: native where it can run, else a Docker or podman that answers.

Root of an unprivileged container has no right to make namespaces, so native is not chosen there. An
ordinary user has native where the machine allows user namespaces, which is found by trying
(`rootless_trial`). Else the services of the user are found by themselves: rootless Docker, and
rootless podman (`$XDG_RUNTIME_DIR`, or the directory that podman makes without one). Where there is
none, the command that brings an engine is named.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lading.supervisor.engines import AUTOMATIC, CRUN, NATIVE
from lading.supervisor.limits.cgroup import find_hierarchy, read_text, usable_controllers
from lading.supervisor.limits.delegation import find_delegated, mend_delegation
from lading.supervisor.limits.limit_ways import OF_ROOT, describe, kernel_can_count, lacking
from lading.supervisor.limits.user_scope import UserScope
from lading.supervisor.machine import mount_table
from lading.supervisor.rootless_trial import RootlessTrial, try_for_user
from lading.supervisor.starter import starter

# Seconds for a connection to a socket of this machine: a service answers at once or not at all.
_ANSWER_TIME = 1.0
# An engine without root is given controllers of version 2 alone, and ignores limits elsewhere.
_NO_LIMITS = (
    "--ram and --vcpus limit no container here: without root that takes cgroup version 2 "
    "(boot with systemd.unified_cgroup_hierarchy=1), or 'sudo lading up'"
)
# CAP_SYS_ADMIN (capabilities(7)): the right to make namespaces and to mount.
_SYS_ADMIN = 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """An engine, or what brings one."""

    name: str = ""
    """Of the entry point group `lading.engines`; "" if there is none."""
    socket: str = ""
    """Socket of a service that was found."""
    is_rootless: bool = False
    mend: str = ""
    """The command that brings an engine, if there is none."""
    warning: str = ""
    """A promise of Lading that the engine does not keep here."""

    def __str__(self) -> str:
        return f"{self.name or 'none'}{' rootless' if self.is_rootless else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSearch:
    """Places to look for engines. Every part can be replaced by a test."""

    docker_socket: str
    podman_socket: str
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    user: int = field(default_factory=os.geteuid)
    which: Callable[[str], str | None] = shutil.which
    answers: Callable[[str], bool] = lambda path: answers(path)
    has_systemd: Callable[[], bool] = lambda: Path("/run/systemd/system").is_dir()
    is_confined: Callable[[], bool] = lambda: is_confined(Path("/proc/self/status").read_text())
    is_private: Callable[[str, int], bool] = lambda path, user: is_private(path, user)
    owner_of: Callable[[str], int] = lambda path: owner_of(path)
    """The user id of the owner of a socket, which tells a daemon of root from one without root."""
    has_cgroup2: Callable[[], bool] = lambda: Path("/sys/fs/cgroup/cgroup.controllers").exists()
    directory: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    """The data directory, or one of a file system like it."""
    has_starter: Callable[[], bool] = lambda: starter.is_available()
    """Whether the program of this package that starts containers can be used."""
    try_native: Callable[[Path], RootlessTrial] = lambda directory: try_for_user(directory)
    """Tries the native engine for an ordinary user."""
    delegated: Callable[[], Sequence[str]] = lambda: delegated_controllers()
    """The controllers of control groups that this user may use."""
    controllers: Callable[[], Sequence[str]] = lambda: root_controllers()
    """The controllers of control groups that root may use."""
    is_lingering: Callable[[], bool] = lambda: UserScope().is_lingering()
    """Whether systemd runs the manager of this user without a login."""

    def choose(self, configured: str = AUTOMATIC) -> EngineChoice:
        """The configured engine; for `auto` the first that can be used."""
        if configured != AUTOMATIC:
            return EngineChoice(name=configured)
        if self.which(CRUN) or self.has_starter():
            if self.user == 0 and not self.is_confined():
                return EngineChoice(name=NATIVE, warning=self.root_limits())
            if self.user and not self.try_native(self.directory).fault:
                return EngineChoice(name=NATIVE, is_rootless=True, warning=self.user_limits())
        for name, path, is_rootless in self.services():
            if self.answers(path):
                warning = _NO_LIMITS if is_rootless and not self.has_cgroup2() else ""
                return EngineChoice(
                    name=name, socket=path, is_rootless=is_rootless, warning=warning
                )
        return EngineChoice(mend=self._mend())

    def user_limits(self) -> str:
        """How the limits of this user's containers are enforced, and the command that lets the
        kernel enforce all.
        """
        controllers = self.delegated()
        text = describe(controllers, can_count=kernel_can_count())
        mend = self.mend_limits(controllers)
        return f"limits of containers: {text}" + (f"; for the kernel's: {mend}" if mend else "")

    def root_limits(self) -> str:
        """How the limits of root's containers are enforced; "" where the kernel enforces all."""
        controllers = self.controllers()
        if not lacking(controllers):
            return ""
        text = describe(controllers, can_count=kernel_can_count(), group=OF_ROOT)
        return f"limits of containers: {text}; lading doctor has the mend"

    def mend_limits(self, controllers: Sequence[str]) -> str:
        """See `delegation.mend_delegation`."""
        return mend_delegation(
            controllers,
            user=self.user,
            is_unified=self.has_cgroup2(),
            has_systemd=self.has_systemd(),
            is_lingering=self.is_lingering(),
        )

    def services(self) -> list[tuple[str, str, bool]]:
        """Name, socket, and whether it is one without root, of each service that may be there; in
        the order of preference.
        """
        services = [("docker", self.docker_socket, False)]
        host = self.environ.get("DOCKER_HOST", "")
        if host.startswith("unix://"):
            path = host.removeprefix("unix://")
            name = "podman" if "podman" in path else "docker"
            services.insert(0, (name, path, self.user != 0 and self.owner_of(path) != 0))
        runtime = self.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{self.user}"
        if self.user:
            services.append(("docker", f"{runtime}/docker.sock", True))
        services.append(("podman", self.podman_socket, False))
        if self.user:
            services.append(("podman", f"{runtime}/podman/podman.sock", True))
            directory = podman_directory(self.user, self.environ)
            # Everyone may make a directory of that name.
            if self.is_private(directory, self.user):
                services.append(("podman", f"{directory}/podman/podman.sock", True))
        return services

    def _mend(self) -> str:
        if self.user == 0 and self.is_confined():
            return (
                "this container may not make namespaces: start it with --privileged, "
                f"or with a Docker of the machine at {self.docker_socket}"
            )
        if self.user == 0:
            return f"apt install {CRUN}"
        trial = self.try_native(self.directory)
        has_program = self.has_starter() or self.which(CRUN) is not None
        if not has_program and not trial.fault:
            return f"sudo apt install {CRUN}"
        if has_program and trial.mend:
            return trial.mend
        start = (
            "systemctl --user enable --now podman.socket"
            if self.has_systemd()
            else "podman system service --time=0 &"
        )
        # newuidmap gives podman of a user its range of user ids; some packages of podman lack it.
        needed = {"podman": "podman", "newuidmap": "uidmap"}
        lacking = [package for program, package in needed.items() if not self.which(program)]
        return f"sudo apt install {' '.join(lacking)}; {start}" if lacking else start


def delegated_controllers() -> tuple[str, ...]:
    """The controllers that systemd has delegated to this process."""
    return find_delegated(mount_table(), read_text(Path("/proc/self/cgroup")))


def root_controllers() -> tuple[str, ...]:
    """The controllers of which root may make control groups."""
    return usable_controllers(find_hierarchy(mount_table()))


def podman_directory(user: int, environ: Mapping[str, str]) -> str:
    """The directory that podman makes for its socket where `$XDG_RUNTIME_DIR` is not set and
    /run/user has none of the user, as after `su` (podman-system-service(1)).
    """
    return f"{environ.get('TMPDIR') or '/tmp'}/podman-run-{user}"  # noqa: S108


def is_private(path: str, user: int) -> bool:
    """Whether a directory, and no link to one, belongs to the user, and nobody else may write to
    it.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o022


def owner_of(path: str) -> int:
    """The user id of the owner of a file, -1 without one. A socket of root that a group may use
    belongs to root.
    """
    try:
        return os.stat(path).st_uid  # noqa: PTH116 - a name, as in `is_private`
    except OSError:
        return -1


def is_confined(status: str) -> bool:
    """Whether a process, by its /proc/PID/status, has no right to make namespaces."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is not None and not int(found[1], 16) & _SYS_ADMIN


def answers(path: str) -> bool:
    """Whether a service listens on a Unix socket, and admits this user."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_TIME)
        try:
            connection.connect(path)
        except OSError:
            return False
    return True
