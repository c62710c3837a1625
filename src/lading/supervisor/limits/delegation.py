"""The control group that systemd has delegated to an ordinary user, with its controllers.

For a service with `Delegate=yes` the manager of the machine marks its group with the attribute
`user.delegate` (systemd 251). The manager of a user marks no group, and is asked for the property
`Delegate` of the unit, as for `systemd-run --user --scope -p Delegate=yes`. Processes in a
delegated group may make groups below it. Controllers reach these groups only when the group itself
has no processes (cgroups(7), "no internal processes"), so all of them move into one below.

    <delegated>/serving/          the processes that were in the group
    <delegated>/lading/<uuid>/    a container
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from lading.supervisor.limits.cgroup import Hierarchy, read_text

SERVING = "serving"
_MARK = "user.delegate"
# In version 2 "cpu" counts the time too.
_CONTROLLERS = ("memory", "cpu", "pids", "io")
# Controllers that enforce the limits of a container.
_OF_LIMITS = frozenset({"memory", "cpu", "pids"})
# Looks at the list of processes: some may start others meanwhile.
_ROUNDS = 20
_TIMEOUT = 5.0


def take_delegated(
    mounts: str, own: str, *, is_delegated: Callable[[Path], bool] | None = None
) -> Hierarchy | None:
    """Prepare the delegated control group of this process for groups of containers; None where
    there is none. `mounts` is the text of /proc/mounts, `own` that of /proc/self/cgroup.

    Raises no error: without permission the group counts as not delegated.
    """
    group = _find(mounts, own)
    if group is None or not (is_delegated or _is_delegated)(group):
        return None
    try:
        names = read_text(group / "cgroup.controllers").split()
        usable = [name for name in names if name in _CONTROLLERS]
        if not usable or not _empty(group):
            return None
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in usable))
    except OSError:
        return None
    return Hierarchy(2, MappingProxyType(dict.fromkeys(usable, group)))


def find_delegated(
    mounts: str, own: str, *, is_delegated: Callable[[Path], bool] | None = None
) -> tuple[str, ...]:
    """Controllers that `take_delegated` would find; it changes nothing."""
    group = _find(mounts, own)
    if group is None or not (is_delegated or _is_delegated)(group):
        return ()
    names = read_text(group / "cgroup.controllers").split()
    return tuple(name for name in names if name in _CONTROLLERS)


def user_environment(environ: Mapping[str, str], user: int) -> dict[str, str]:
    """The environment of a program that speaks to the manager of a user, also after `su` and from
    `cron`, which set no runtime directory.
    """
    return {"XDG_RUNTIME_DIR": f"/run/user/{user}", **environ}


def of_user_manager(hierarchy: Path, user: int) -> Path:
    """The control group of the manager of a user, below the mount point of version 2."""
    return hierarchy / f"user.slice/user-{user}.slice/user@{user}.service"


def mend_delegation(
    controllers: Collection[str],
    *,
    user: int,
    is_unified: bool,
    has_systemd: bool,
    is_lingering: bool,
) -> str:
    """The command after which the kernel enforces all limits of an ordinary user's containers; ""
    where it does. `controllers` are delegated; `is_unified`: the machine has control groups of
    version 2 alone; `is_lingering`: systemd runs the user's manager without a login.
    """
    if frozenset(controllers) >= _OF_LIMITS:
        return ""
    if not has_systemd:
        # Nothing else delegates a group with a mark.
        return "sudo lading up"
    if not is_unified:
        return "boot with systemd.unified_cgroup_hierarchy=1"
    if controllers:
        # By default systemd passes memory and pids on to users, and not cpu.
        return (
            "sudo systemctl edit user@.service, with the lines [Service] and"
            " Delegate=cpu io memory pids; then log in again"
        )
    if is_lingering:
        # `lading up` enters a scope by itself (`user_scope`); this one shows why it could not.
        return "systemd-run --user --scope -p Delegate=yes lading up"
    return f"sudo loginctl enable-linger {user}; lading down; lading up"


def _find(mounts: str, own: str) -> Path | None:
    """The directory of the group of version 2 of this process, or its parent where the process
    has moved into `SERVING` before; None on a machine of version 1, also a hybrid one.
    """
    rows = [line.split(" ") for line in mounts.splitlines()]
    if any(row[2] == "cgroup" for row in rows):
        return None
    points = [row[1] for row in rows if row[2] == "cgroup2"]
    paths = [line.removeprefix("0::") for line in own.splitlines() if line.startswith("0::")]
    if not points or not paths:
        return None
    group = Path(points[0], paths[0].lstrip("/"))
    return group.parent if group.name == SERVING else group


def _is_delegated(group: Path) -> bool:
    return _is_marked(group) or _user_manager_delegates(group)


def _user_manager_delegates(group: Path) -> bool:
    """Whether a group is that of a unit which the user's manager delegates."""
    user = os.geteuid()
    if f"user@{user}.service" not in group.parent.parts:
        return False
    command = ["systemctl", "--user", "show", "--property=Delegate", "--value", "--", group.name]
    try:
        answer = subprocess.run(
            command,
            env=user_environment(os.environ, user), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=_TIMEOUT, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() == "yes"


def _is_marked(group: Path) -> bool:
    try:
        return os.getxattr(group, _MARK) == b"1"
    except OSError:
        # It has no mark, or is not there.
        return False


def _empty(group: Path) -> bool:
    """Move all processes of a group into one below; whether none is left. Raises OSError."""
    below = group / SERVING
    below.mkdir(exist_ok=True)
    for _ in range(_ROUNDS):
        pids = read_text(group / "cgroup.procs").split()
        if not pids:
            return True
        for pid in pids:
            # It has ended.
            with contextlib.suppress(ProcessLookupError):
                (below / "cgroup.procs").write_text(pid)
    return False
