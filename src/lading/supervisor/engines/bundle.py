"""The OCI bundle of a container: configuration for crun, and root file system.

Limits of every container, independent of its image: no new privileges, the few capabilities that
package tools need, a deny list of system calls that reach beyond the container or into rarely used
kernel code, no view of the machine's kernel state. Its network namespace is its own and empty; the
supervisor may connect it (see `notice`). The configuration follows the OCI runtime specification
1.0. The root is an overlay of the image's layers, with changes in the bundle or in memory.
"""

from __future__ import annotations

import errno
import functools
import os
import resource
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lading.core.images import Account, ImageProcess
from lading.core.user_ids import Extent
from lading.supervisor import linux
from lading.supervisor.engines import Bind, Device, EngineHook, owners
from lading.supervisor.engines.hooks import OPEN, make_hooks
from lading.supervisor.engines.seccomp import make_annotation, make_profile
from lading.supervisor.engines.user_namespace import UserNamespace

HOSTNAME = "lading"
"""The same for every container, so that equal work has an equal environment."""
CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
)
MASKED = (
    # the machine's own hardware and firmware
    "/proc/acpi",
    "/proc/asound",
    "/proc/scsi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    # memory of the kernel, its addresses and structure, by which attacks find their targets
    "/proc/config.gz",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/pagetypeinfo",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/proc/vmcore",
    "/sys/kernel/notes",
    "/sys/kernel/slab",
    "/sys/kernel/vmcoreinfo",
    # activity of others on the machine: typed keys, received packets, timers of all processes
    "/proc/interrupts",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/timer_stats",
)
"""Files and directories that appear empty in a container. Others stay readable because programs
need them: cpuinfo, meminfo, stat, diskstats, partitions, vmstat (psutil and the like); modules and
driver (ROCm and CUDA). The kernel hides addresses in iomem and ioports, and messages in kmsg, from
processes without the capabilities that no container has. buddyinfo, zoneinfo and softirqs contain
counters without addresses, as vmstat and stat do.
"""
# Masked directories whose files only the machine's root can read; no user of a user namespace is
# that root.
_FILES_OF_ROOT = ("/sys/kernel/slab",)
OPEN_LINE = f"{OPEN}\n".encode()
"""The line that the gate passes on to start the command."""
_LIMITS = {"core": 1, "sigpending": 4096}
# The kernel's defaults of fs.nr_open and kernel.pid_max; podman bounds itself by the latter.
_MOST = {"nofile": 1 << 20, "nproc": 1 << 15}
READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
IN_MEMORY = "the data directory is on an overlay: changes outside of mounts are kept in memory"
# The unified hierarchy of a hybrid machine, which crun refuses (see `native`).
_UNIFIED = "/sys/fs/cgroup/unified"
_READ_BY_OTHERS = stat.S_IROTH | stat.S_IXOTH
# The machine has 4,096 in all, for containers 3,072 (sysctl kernel.pty.max and kernel.pty.reserve).
_TERMINALS = 256
# The group "tty" of all distributions.
_TERMINAL_GROUP = 5


@functools.cache
def resource_limits(*, complete: bool = False) -> Mapping[str, int]:
    """The most of some resources that each process of a container may use, by the names of
    limits.conf(5).

    `core`, bytes: one byte is the limit with which the kernel neither writes a core file nor starts
    the program of /proc/sys/kernel/core_pattern, which would run outside of the container as the
    machine's root (core(5)). `sigpending`: queued signals, which the kernel counts for the user who
    made the user namespace too. A limit is no higher than that of this process, since raising it
    needs a capability. `complete`: with files and processes, which podman otherwise raises.
    """
    limits = {}
    for name, most in {**_LIMITS, **(_MOST if complete else {})}.items():
        _, own = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        limits[name] = most if own == resource.RLIM_INFINITY else min(most, own)
    return limits


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that differ between containers."""

    rootfs: str
    process: ImageProcess
    account: Account
    binds: Sequence[Bind]
    gate: str
    """Path from which the container's hook reads one line before the command starts; at its end
    nothing starts.
    """
    machine: str
    """Output of `uname -m`."""
    notice: str = ""
    """Path to which the container's state is written, as JSON, before the gate; "": none."""
    ids: Sequence[Extent] = ()
    """The ids on the machine of a container with a user namespace; its binds are idmapped
    already.
    """
    devices: Sequence[Device] = ()
    cuda: Sequence[int] = ()
    cuda_hook: str = ""
    """NVIDIA's program that adds the driver's libraries; "" when there is none."""
    hooks: Sequence[EngineHook] = ()


def make_config(bundle: Bundle) -> dict[str, Any]:
    """The content of the bundle's `config.json`."""
    namespaces = ["pid", "ipc", "uts", "mount", "network"]
    # With a user namespace the mounts have their flags already (user_namespace), and crun may not
    # change them.
    bind = _bind_as_it_is if bundle.ids else _bind
    return {
        "ociVersion": "1.0.0",
        "process": _process(bundle),
        "root": {"path": bundle.rootfs, "readonly": False},
        "hostname": HOSTNAME,
        "mounts": [*_system_mounts(bundle.ids), *map(bind, bundle.binds)],
        "hooks": make_hooks(
            bundle.hooks, gate=bundle.gate, notice=bundle.notice, cuda=_cuda_hook(bundle)
        ),
        "annotations": make_annotation(bundle.machine),
        "linux": {
            "namespaces": [
                {"type": kind} for kind in (*namespaces, *(("user",) if bundle.ids else ()))
            ],
            "devices": [_device(device) for device in bundle.devices],
            **_user_namespace(bundle.ids),
            "maskedPaths": _masked() if bundle.ids else MASKED,
            "readonlyPaths": READONLY,
            "seccomp": make_profile(bundle.machine),
        },
    }


def _user_namespace(ids: Sequence[Extent]) -> dict[str, Any]:
    if not ids:
        return {}
    mappings = [
        {"containerID": extent.inside, "hostID": extent.outside, "size": extent.size}
        for extent in ids
    ]
    return {"uidMappings": mappings, "gidMappings": mappings}


# The paths of a machine do not change while it runs; forks inherit the result.
@functools.lru_cache(maxsize=1)
def _masked() -> tuple[str, ...]:
    """Masked paths that others than the machine's root may read: each costs a mount, some
    0.05 ms.
    """
    return tuple(path for path in MASKED if path not in _FILES_OF_ROOT and _is_readable(Path(path)))


def _is_readable(path: Path) -> bool:
    return not path.exists() or bool(path.stat().st_mode & _READ_BY_OTHERS)


def _process(bundle: Bundle) -> dict[str, Any]:
    capabilities = dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES)
    return {
        "terminal": False,
        "user": {
            "uid": bundle.account.uid,
            "gid": bundle.account.gid,
            "additionalGids": [*bundle.account.groups, *owners(bundle.devices)],
        },
        "args": bundle.process.arguments,
        "env": [
            f"{name}={value}"
            for name, value in (*bundle.process.environment, *_cuda_environment(bundle))
        ],
        "cwd": bundle.process.cwd,
        "capabilities": capabilities,
        "noNewPrivileges": True,
        "rlimits": [
            {"type": f"RLIMIT_{name.upper()}", "hard": most, "soft": most}
            for name, most in resource_limits().items()
        ],
    }


def _cuda_hook(bundle: Bundle) -> str:
    return bundle.cuda_hook if bundle.cuda else ""


def _cuda_environment(bundle: Bundle) -> list[tuple[str, str]]:
    """Environment variables that NVIDIA's hook reads."""
    if not _cuda_hook(bundle):
        return []
    numbers = ",".join(str(number) for number in bundle.cuda)
    return [("NVIDIA_VISIBLE_DEVICES", numbers), ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")]


def _device(device: Device) -> dict[str, Any]:
    """A device file like the host's. Raises OSError."""
    status = Path(device.source).stat()
    return {
        "path": device.target,
        "type": "b" if stat.S_ISBLK(status.st_mode) else "c",
        "major": os.major(status.st_rdev),
        "minor": os.minor(status.st_rdev),
        "fileMode": stat.S_IMODE(status.st_mode),
        "uid": status.st_uid,
        "gid": status.st_gid,
    }


def _system_mounts(ids: Sequence[Extent]) -> list[dict[str, Any]]:
    # A container with one id has no group of terminals.
    group = [f"gid={_TERMINAL_GROUP}"] if _has(ids, _TERMINAL_GROUP) else []
    guarded = ["nosuid", "noexec", "nodev"]
    rows = (
        ("/proc", "proc", guarded),
        # 64 MiB, as Docker's /dev.
        ("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        (
            "/dev/pts",
            "devpts",
            [
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
                *group,
                f"max={_TERMINALS}",
            ],
        ),
        ("/dev/shm", "tmpfs", [*guarded, "mode=1777"]),  # noqa: S108 - a path inside the container
        ("/dev/mqueue", "mqueue", guarded),
        ("/sys", "sysfs", [*guarded, "ro"]),
    )
    return [
        {"destination": at, "type": kind, "source": kind, "options": options}
        for at, kind, options in rows
    ]


def _has(ids: Sequence[Extent], number: int) -> bool:
    """Whether a container with these extents, or with the ids of the machine, has an id."""
    return not ids or any(extent.inside <= number < extent.inside + extent.size for extent in ids)


def _bind(bind: Bind) -> dict[str, Any]:
    options = ["rbind", "rprivate", "nosuid", "nodev", *(["ro"] if bind.readonly else [])]
    return {"destination": bind.target, "type": "bind", "source": bind.source, "options": options}


def _bind_as_it_is(bind: Bind) -> dict[str, Any]:
    return {
        "destination": bind.target,
        "type": "bind",
        "source": bind.source,
        "options": ["rbind", "rprivate"],
    }


def mount_root(
    layers: Sequence[Path],
    bundle: Path,
    namespace: UserNamespace | None = None,
    *,
    name: str = "rootfs",
) -> tuple[Path, str]:
    """Mount the root; return its path, and a note or "". Raises OSError.

    `layers` are lowest first. `name` distinguishes it from other roots of the same user namespace.
    """
    _hide_unified()
    for subdirectory in ("upper", "work"):
        (bundle / subdirectory).mkdir(mode=0o755, parents=True)
    # overlayfs expects the topmost layer first.
    lower = [str(layer) for layer in reversed(layers)]
    if namespace is None:
        rootfs = bundle / "rootfs"
        rootfs.mkdir(mode=0o755)
        return rootfs, _mount(rootfs, lower, bundle, None)
    rootfs = namespace.rootfs(name)
    return rootfs, _mount(rootfs, namespace.layers(lower), bundle, namespace)


def _hide_unified() -> None:
    # An empty file system lies on it already, see below.
    if not Path(_UNIFIED, "cgroup.controllers").exists():
        return
    try:
        linux.unmount(_UNIFIED)
    except OSError as error:
        # EINVAL: the user namespace of an ordinary user may not remove mounts of the machine.
        if error.errno != errno.EINVAL:
            raise
        linux.mount("tmpfs", _UNIFIED, "tmpfs", "mode=0755")


def _mount(
    rootfs: Path, lower: Sequence[str], bundle: Path, namespace: UserNamespace | None
) -> str:
    try:
        _overlay(rootfs, lower, bundle, namespace)
    except OSError as error:
        # EINVAL: the upper directory is on a file system that overlayfs does not accept.
        if error.errno != errno.EINVAL:
            raise
    else:
        return ""
    # The data directory is on an overlay itself, which cannot hold the changes of another.
    memory = bundle / "memory"
    memory.mkdir()
    linux.mount("tmpfs", str(memory), "tmpfs", "mode=0755")
    for subdirectory in ("upper", "work"):
        (memory / subdirectory).mkdir()
    _overlay(rootfs, lower, memory, namespace)
    return IN_MEMORY


def _overlay(
    rootfs: Path, lower: Sequence[str], changes: Path, namespace: UserNamespace | None
) -> None:
    upper = changes / "upper"
    if namespace is not None:
        namespace.own(upper)
    mount = linux.mount_overlay if namespace is None else namespace.mount_overlay
    mount(str(rootfs), lower=lower, upper=str(upper), work=str(changes / "work"))
