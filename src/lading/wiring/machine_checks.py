"""Checks of this machine for `lading doctor`, with a remedy for each fault.

A check examines one thing and never changes it. Containers need one of the engines, each of which
has a check of its name: native, docker, podman. All other results are warnings or information.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from lading.process import removal
from lading.wiring.checked_machine import Check, CheckedMachine, CheckResult

_GIB = 1 << 30
# Less free disk than this (5 GiB) is a warning.
_LITTLE = 5 * _GIB
# Controllers that enforce the limits of containers.
_CONTROLLERS = ("memory", "cpu", "pids")
# The default address of `lading up`.
_LISTEN = ("127.0.0.1", 9440)
_ENGINES = ("native", "docker", "podman")


def examine(machine: CheckedMachine) -> list[Check]:
    """All checks, in the order in which their subjects are needed."""
    return [check(machine) for check in _CHECKS]


def can_run(checks: Sequence[Check]) -> bool:
    """Whether one of the engines has everything that it needs."""
    verdicts = {check.name: check.verdict for check in checks}
    return verdicts["python"] is not CheckResult.MISSING and any(
        verdicts[name] is CheckResult.OK for name in _ENGINES
    )


def first_remedy(checks: Sequence[Check], *, user: int) -> Check | None:
    """The check whose remedy comes first where no container can run: the native engine, which needs
    no service; without root else podman, which needs no further rights. None where one can.
    """
    if can_run(checks):
        return None
    names = ("python", "native") if user == 0 else ("python", "native", "podman")
    known = {check.name: check for check in checks}
    wanted = [known[name] for name in names if known[name].verdict is not CheckResult.OK]
    return next((check for check in wanted if check.mend), None)


def _python(machine: CheckedMachine) -> Check:
    version = ".".join(map(str, machine.version))
    if machine.version < (3, 11):
        return Check(
            name="python",
            verdict=CheckResult.MISSING,
            finding=version,
            mend="apt install python3.11",
        )
    if not machine.python_is_optimised():
        finding = (
            f"{version}, built without optimisation: all of Lading takes up to half as long again"
        )
        mend = "install it with a Python built with --enable-optimizations, such as the system's"
        return Check(name="python", verdict=CheckResult.WARNING, finding=finding, mend=mend)
    return Check(name="python", verdict=CheckResult.OK, finding=version)


def _native(machine: CheckedMachine) -> Check:
    """The native engine, as root or as an ordinary user."""
    parts = (_crun, _overlay, _namespaces) if machine.user == 0 else (_crun, _trial)
    checks = [check(machine) for check in parts]
    missing = next((result for result in checks if result.verdict is CheckResult.MISSING), None)
    if missing is None:
        finding = "as root" if machine.user == 0 else checks[-1].finding
        return Check(name="native", verdict=CheckResult.OK, finding=finding)
    finding = missing.finding if missing.name == "native" else f"{missing.name}: {missing.finding}"
    mend = f"sudo {missing.mend}" if machine.user and missing.name == "crun" else missing.mend
    return Check(name="native", verdict=CheckResult.MISSING, finding=finding, mend=mend)


def _trial(machine: CheckedMachine) -> Check:
    """The native engine of an ordinary user, found by trying."""
    from lading.supervisor.rootless_trial import try_for_user

    trial = (machine.try_native or try_for_user)(machine.data)
    if trial.fault:
        mend = trial.mend or "sudo lading up"
        return Check(name="native", verdict=CheckResult.MISSING, finding=trial.fault, mend=mend)
    found = (
        f"as user id {machine.user}, which root of a container is outside; roots by "
        f"{trial.root_kind}"
    )
    return Check(name="native", verdict=CheckResult.OK, finding=found)


def _crun(machine: CheckedMachine) -> Check:
    path = machine.which("crun")
    if path:
        return Check(name="crun", verdict=CheckResult.OK, finding=path)
    if not machine.starter_fault():
        return Check(
            name="crun",
            verdict=CheckResult.WARNING,
            finding="not on PATH; only needed for MPI clusters and for NVIDIA's hook",
            mend="apt install crun",
        )
    return Check(
        name="crun", verdict=CheckResult.MISSING, finding="not on PATH", mend="apt install crun"
    )


def _overlay(machine: CheckedMachine) -> Check:
    if any(
        line.split()[-1:] == ["overlay"] for line in machine.read("/proc/filesystems").splitlines()
    ):
        return Check(name="overlay", verdict=CheckResult.OK, finding="in the kernel")
    return Check(
        name="overlay",
        verdict=CheckResult.MISSING,
        finding="not in the kernel",
        mend="modprobe overlay",
    )


def _namespaces(machine: CheckedMachine) -> Check:
    kinds = ("mnt", "pid", "ipc", "uts", "net")
    from lading.supervisor.engines.choice import is_confined

    lacking = [kind for kind in kinds if not os.path.lexists(machine.root / "proc/self/ns" / kind)]
    if not lacking and machine.user == 0 and is_confined(machine.read("/proc/self/status")):
        return Check(
            name="namespaces",
            verdict=CheckResult.MISSING,
            finding="root of this container may not make them (no CAP_SYS_ADMIN)",
            mend="start this container with --privileged, or with the socket of a Docker",
        )
    if not lacking:
        return Check(name="namespaces", verdict=CheckResult.OK, finding=", ".join(kinds))
    found = f"the kernel lacks {', '.join(lacking)}"
    return Check(
        name="namespaces",
        verdict=CheckResult.MISSING,
        finding=found,
        mend="boot a kernel with namespaces",
    )


def _user_ids(machine: CheckedMachine) -> Check:
    name = "user ids"
    if machine.user != 0:
        return _subordinate_ids(machine)
    fault = machine.user_ids_fault(machine.data)
    if not fault:
        return Check(
            name=name,
            verdict=CheckResult.OK,
            finding="root in a container has no rights on this machine",
        )
    found = f"root in a container is root of this machine: {fault}"
    mend = "Linux 5.12 or later, and a data directory on ext4, xfs or btrfs"
    return Check(name=name, verdict=CheckResult.WARNING, finding=found, mend=mend)


def _subordinate_ids(machine: CheckedMachine) -> Check:
    """The ids of an ordinary user's containers."""
    from lading.supervisor.rootless_trial import try_for_user

    id_check = (machine.try_native or try_for_user)(machine.data).ids
    if not id_check.fault:
        finding = f"containers have {id_check.ids.count} ids, of which one is this user's"
        return Check(name="user ids", verdict=CheckResult.OK, finding=finding)
    finding = f"containers have the one id of this user: {id_check.fault}"
    verdict = CheckResult.WARNING if id_check.mend else CheckResult.OK
    return Check(name="user ids", verdict=verdict, finding=finding, mend=id_check.mend)


def _cgroups(machine: CheckedMachine) -> Check:
    unified = machine.read("/sys/fs/cgroup/cgroup.controllers").split()
    controllers = [
        name
        for name in _CONTROLLERS
        # Version 2 lists its controllers in one file, version 1 has a directory for each.
        if name in unified or (machine.root / "sys/fs/cgroup" / name).is_dir()
    ]
    kind = "version 2" if unified else "version 1" if controllers else "none"
    if machine.user:
        return _user_cgroups(machine, kind)
    return _root_cgroups(machine, kind, controllers)


def _root_cgroups(machine: CheckedMachine, kind: str, controllers: Sequence[str]) -> Check:
    """How the limits of root's containers are enforced."""
    from lading.supervisor.limits.limit_ways import OF_ROOT, describe, kernel_can_count, lacking

    top = machine.root / "sys/fs/cgroup"
    folders = {name: top if kind == "version 2" else top / name for name in controllers}
    usable = [name for name, folder in folders.items() if machine.can_write(folder)]
    if not lacking(usable):
        return Check(
            name="cgroups", verdict=CheckResult.OK, finding=f"{kind}: {', '.join(controllers)}"
        )
    ways = describe(usable, can_count=kernel_can_count(), group=OF_ROOT)
    if unusable := [name for name in controllers if name not in usable]:
        finding = f"{kind}, read-only for {', '.join(unusable)}; native engine: {ways}"
        mend = f"mount -o remount,rw /{folders[unusable[0]].relative_to(machine.root)}"
    else:
        finding, mend = f"{kind}; native engine: {ways}", _mend_cgroups(kind, lacking(controllers))
    return Check(name="cgroups", verdict=CheckResult.WARNING, finding=finding, mend=mend)


def _user_cgroups(machine: CheckedMachine, kind: str) -> Check:
    """How the limits of an ordinary user's containers are enforced."""
    from lading.supervisor.limits.delegation import mend_delegation
    from lading.supervisor.limits.limit_ways import describe, kernel_can_count
    from lading.supervisor.limits.user_scope import UserScope

    controllers = machine.delegated()
    mend = mend_delegation(
        controllers,
        user=machine.user,
        is_unified=kind == "version 2",
        has_systemd=(machine.root / "run/systemd/system").is_dir(),
        is_lingering=UserScope(user=machine.user, root=machine.root).is_lingering(),
    )
    found = f"{kind}; native engine: {describe(controllers, can_count=kernel_can_count())}"
    if kind != "version 2":
        found += "; --ram and --vcpus limit no container of Docker or podman without root"
    verdict = CheckResult.WARNING if mend else CheckResult.OK
    return Check(name="cgroups", verdict=verdict, finding=found, mend=mend)


def _mend_cgroups(kind: str, lacking: Sequence[str]) -> str:
    if kind == "version 2":
        return "echo '+memory +cpu +pids' > /sys/fs/cgroup/cgroup.subtree_control"
    if kind == "version 1":
        return "; ".join(_mount_controller(name) for name in lacking)
    return "mount -t cgroup2 none /sys/fs/cgroup"


def _mount_controller(name: str) -> str:
    """The command that mounts a controller of version 1, also one that is left in version 2."""
    return f"mkdir /sys/fs/cgroup/{name}; mount -t cgroup -o {name} cgroup /sys/fs/cgroup/{name}"


def _hybrid(machine: CheckedMachine) -> Check:
    # A controller in the version 2 hierarchy of a hybrid layout, which crun does not find.
    controllers = machine.read("/sys/fs/cgroup/unified/cgroup.controllers").split()
    if not controllers:
        return Check(name="cgroup layout", verdict=CheckResult.OK, finding="fit for crun")
    left = controllers[0]
    return Check(
        name="cgroup layout",
        verdict=CheckResult.WARNING,
        finding=f"hybrid, {left} is left in version 2: crun refuses, also that of podman; "
        "the native engine gets around it",
        mend=_mount_controller(left),
    )


def _user_namespaces(machine: CheckedMachine) -> Check:
    most = machine.read("/proc/sys/user/max_user_namespaces").strip()
    if most not in ("", "0"):
        return Check(name="user namespaces", verdict=CheckResult.OK, finding=f"up to {most}")
    mend = "sysctl user.max_user_namespaces=15000"
    return Check(
        name="user namespaces",
        verdict=CheckResult.WARNING,
        finding="switched off; root in a container is root of this machine",
        mend=mend,
    )


def _container_network(machine: CheckedMachine) -> Check:
    """Check that containers can reach the internet, each through a network of its own."""
    name = "container network"
    fault, mend = _network_fault(machine)
    if fault:
        return Check(name=name, verdict=CheckResult.WARNING, finding=fault, mend=mend)
    uplink = next(name for name in _uplinks(machine) if _has_program(machine, name))
    return Check(name=name, verdict=CheckResult.OK, finding=f"{uplink}, nft")


def internet_fault(machine: CheckedMachine) -> str:
    """Reason why containers of the native engine have no internet, with the mend, or ""."""
    fault, mend = _network_fault(machine)
    return f"{fault} ({mend})" if fault else ""


def _network_fault(machine: CheckedMachine) -> tuple[str, str]:
    """The fault and the mend; two times "" if containers can reach the internet."""
    uplinks = _uplinks(machine)
    lacking = {}
    if not _has_program(machine, "nft"):
        lacking["nft"] = "nftables"
    if not any(_has_program(machine, name) for name in uplinks):
        # Every distribution has this one.
        lacking[" or ".join(uplinks)] = "slirp4netns"
    if lacking:
        fault = f"containers have no internet without {' and '.join(lacking)}"
        return fault, f"{'sudo ' if machine.user else ''}apt install {' '.join(lacking.values())}"
    tun = machine.root / "dev/net/tun"
    if machine.user and not (tun.exists() and tun.stat().st_mode & stat.S_IWOTH):
        fault = f"user id {machine.user} may not use /dev/net/tun: no internet for containers"
        return fault, "sudo chmod 666 /dev/net/tun"
    return "", ""


def _uplinks(machine: CheckedMachine) -> list[str]:
    """The programs that can connect a container of this user, the preferred one first."""
    from lading.supervisor.network.uplink import usable_programs

    return [program.name for program in usable_programs(is_root=machine.user == 0)]


def _has_program(machine: CheckedMachine, name: str) -> bool:
    # nft is in /usr/sbin, which is not on the PATH of users without root.
    return machine.which(name) is not None or (machine.root / "usr/sbin" / name).exists()


def _docker(machine: CheckedMachine) -> Check:
    sockets = [path for path in _services(machine, "docker") if path.exists()]
    for path in sockets:
        if machine.docker_answers(path):
            return Check(name="docker", verdict=CheckResult.OK, finding=str(path))
    if not sockets:
        finding = "no socket; only needed for the docker engine"
        mend = "systemctl start docker" if machine.which("dockerd") else "apt install docker.io"
        return Check(name="docker", verdict=CheckResult.WARNING, finding=finding, mend=mend)
    finding = f"{sockets[0]} does not answer, or not to this user"
    return Check(
        name="docker", verdict=CheckResult.WARNING, finding=finding, mend="systemctl start docker"
    )


def _services(machine: CheckedMachine, engine: str) -> list[Path]:
    """The sockets at which `lading up` looks for an engine."""
    from lading.supervisor.engines.choice import EngineSearch, is_private

    def at(path: str) -> Path:
        return machine.root / path.lstrip("/")

    search = EngineSearch(
        docker_socket="/var/run/docker.sock",
        podman_socket="/run/podman/podman.sock",
        environ=machine.environ,
        user=machine.user,
        is_private=lambda path, user: is_private(str(at(path)), user),
    )
    return [at(path) for name, path, _ in search.services() if name == engine]


def _podman(machine: CheckedMachine) -> Check:
    """The service of podman, root's or without root that of the user."""
    for path in _services(machine, "podman"):
        if path.exists() and machine.docker_answers(path):
            return Check(name="podman", verdict=CheckResult.OK, finding=str(path))
    start = f"systemctl {'--user ' if machine.user else ''}enable --now podman.socket"
    if machine.user and not (machine.root / "run/systemd/system").is_dir():
        start = "podman system service --time=0 &"
    if not machine.which("podman"):
        # Root's is enabled by its package.
        mend = f"apt install podman uidmap; {start}" if machine.user else "apt install podman"
    elif machine.user and not machine.which("newuidmap"):
        mend = f"apt install uidmap; {start}"
    else:
        mend = start
    found = "no service that answers; only needed for the podman engine"
    return Check(name="podman", verdict=CheckResult.WARNING, finding=found, mend=mend)


def _fuse(machine: CheckedMachine) -> Check:
    path = machine.root / "dev/fuse"
    if not path.exists():
        finding = "no /dev/fuse; only needed to mount the store"
        return Check(
            name="fuse", verdict=CheckResult.WARNING, finding=finding, mend="modprobe fuse"
        )
    if machine.library("fuse3") is None:
        finding = "no libfuse 3; only needed to mount the store"
        return Check(
            name="fuse", verdict=CheckResult.WARNING, finding=finding, mend="apt install fuse3"
        )
    if machine.user == 0:
        return Check(name="fuse", verdict=CheckResult.OK, finding="/dev/fuse, libfuse 3")
    if not path.stat().st_mode & stat.S_IWOTH:
        finding = "/dev/fuse is for root only"
        return Check(
            name="fuse", verdict=CheckResult.WARNING, finding=finding, mend="chmod 666 /dev/fuse"
        )
    if machine.which("fusermount3") is None:
        finding = "no fusermount3, which mounts for who is not root"
        return Check(
            name="fuse", verdict=CheckResult.WARNING, finding=finding, mend="apt install fuse3"
        )
    return Check(name="fuse", verdict=CheckResult.OK, finding="/dev/fuse, libfuse 3, fusermount3")


def _gpus(machine: CheckedMachine) -> Check:
    """Check that GPUs work, and that containers with them get the files of their driver."""
    # Imported here: few machines have GPUs.
    from lading.supervisor.gpu_checks import check_gpus

    verdict = check_gpus(machine.root, is_root=machine.user == 0)
    result = CheckResult.WARNING if verdict.mend else CheckResult.OK
    return Check(name="gpus", verdict=result, finding=verdict.finding, mend=verdict.mend)


def _disk(machine: CheckedMachine) -> Check:
    nearest = next(
        path for path in (machine.data, *machine.data.absolute().parents) if path.exists()
    )
    free = shutil.disk_usage(nearest).free
    finding = f"{free / _GIB:.1f} GiB free for {machine.data}"
    if free >= _LITTLE:
        return Check(name="disk", verdict=CheckResult.OK, finding=finding)
    return Check(
        name="disk",
        verdict=CheckResult.WARNING,
        finding=finding,
        mend="choose another place: lading up --data DIR",
    )


def _removed(machine: CheckedMachine) -> Check:
    """Directories of containers that could not be removed at once."""
    places = {
        directory: len(removal.waiting(directory)) for directory in removal.places(machine.data)
    }
    listing = ", ".join(
        f"{number} in {directory}" for directory, number in places.items() if number
    )
    if not listing:
        return Check(name="removed", verdict=CheckResult.OK, finding="nothing waits to be removed")
    mend = "where they stay, look for mounts, immutable files or a failing disk: " + " ".join(
        f"find {directory} -xdev -delete" for directory, number in places.items() if number
    )
    finding = (
        f"directories wait to be removed: {listing}; "
        "their disk is in use, and it is tried again once a minute"
    )
    return Check(name="removed", verdict=CheckResult.WARNING, finding=finding, mend=mend)


def _port(machine: CheckedMachine) -> Check:
    host, port = _LISTEN
    if machine.port_is_free(_LISTEN):
        return Check(name="port", verdict=CheckResult.OK, finding=f"{host}:{port} is free")
    found = f"{host}:{port} is taken; by 'lading up' already?"
    return Check(
        name="port",
        verdict=CheckResult.WARNING,
        finding=found,
        mend="choose another: lading up --listen HOST:PORT",
    )


_CHECKS = (
    _python,
    _native,
    _crun,
    _overlay,
    _namespaces,
    _cgroups,
    _hybrid,
    _user_namespaces,
    _user_ids,
    _container_network,
    _docker,
    _podman,
    _fuse,
    _gpus,
    _disk,
    _removed,
    _port,
)
