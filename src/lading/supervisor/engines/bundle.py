"""The OCI bundle of a container: what crun is told (OCI runtime specification 1.0).

What a container may do, whatever its image says: no new privileges, the few capabilities that package tools need, a
deny list of system calls that reach beyond the container or into rarely used kernel code, no view of the machine's
kernel state. Its network is empty unless the record asks for one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lading.core.imagelayout import Account, Process
from lading.supervisor.engines import Bind, Device, owners

HOSTNAME = "lading"
"""The same for every container, so that equal work sees equal surroundings."""
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
DENIED_CALLS = (
    # mounts and namespaces
    "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree", "pivot_root",
    "setns", "umount", "umount2", "unshare",
    # the machine: modules, clocks, swap, restart, accounting
    "acct", "adjtimex", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module",
    "get_kernel_syms", "init_module", "ioperm", "iopl", "kexec_file_load", "kexec_load", "nfsservctl", "query_module",
    "quotactl", "quotactl_fd", "reboot", "settimeofday", "stime", "swapoff", "swapon", "syslog", "uselib", "vhangup",
    # past the file system's permissions, other processes' memory, keys of the host
    "add_key", "keyctl", "kcmp", "lookup_dcookie", "name_to_handle_at", "open_by_handle_at", "process_vm_readv",
    "process_vm_writev", "request_key",
    # large and rarely needed attack surface
    "bpf", "fanotify_init", "io_uring_enter", "io_uring_register", "io_uring_setup", "perf_event_open", "userfaultfd",
    "vm86", "vm86old",
)  # fmt: skip
_MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_ARCHITECTURES: Mapping[str, Sequence[str]] = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
}
_EPERM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What differs between one container and the next."""

    rootfs: str
    process: Process
    account: Account
    binds: Sequence[Bind]
    network: bool
    gate: str
    """A path that the container reads one line from before the command starts; at its end nothing starts."""
    machine: str
    """As `uname -m` says."""
    devices: Sequence[Device] = ()
    cuda: Sequence[int] = ()
    cuda_hook: str = ""
    """The program of NVIDIA that brings in the driver's libraries; "" when there is none."""


_DRAIN = "while read -r state; do :; done"


def make_config(bundle: Bundle) -> dict[str, Any]:
    """The content of the bundle's `config.json`."""
    namespaces = ["pid", "ipc", "uts", "mount", *([] if bundle.network else ["network"])]
    return {
        "ociVersion": "1.0.0",
        "process": _process(bundle),
        "root": {"path": bundle.rootfs, "readonly": False},
        "hostname": HOSTNAME,
        "mounts": [*_system_mounts(), *map(_bind, bundle.binds)],
        # crun writes the container's state to the hook's standard input and fails when nobody reads it.
        "hooks": {
            "createContainer": [{"path": "/bin/sh", "args": ["sh", "-c", f"{_DRAIN}; read -r go < {bundle.gate}"]}],
            **_cuda_hook(bundle),
        },
        "linux": {
            "namespaces": [{"type": kind} for kind in namespaces],
            "devices": [_device(device) for device in bundle.devices],
            "maskedPaths": _MASKED,
            "readonlyPaths": _READONLY,
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "architectures": _ARCHITECTURES.get(bundle.machine, ()),
                "syscalls": [{"names": DENIED_CALLS, "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM}],
            },
        },
    }


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
        "env": [f"{name}={value}" for name, value in (*bundle.process.environment, *_cuda_environment(bundle))],
        "cwd": bundle.process.cwd,
        "capabilities": capabilities,
        "noNewPrivileges": True,
    }


def _cuda_environment(bundle: Bundle) -> list[tuple[str, str]]:
    """What the hook of NVIDIA reads."""
    if not (bundle.cuda and bundle.cuda_hook):
        return []
    numbers = ",".join(str(one) for one in bundle.cuda)
    return [("NVIDIA_VISIBLE_DEVICES", numbers), ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")]


def _cuda_hook(bundle: Bundle) -> dict[str, Any]:
    if not (bundle.cuda and bundle.cuda_hook):
        return {}
    return {"prestart": [{"path": bundle.cuda_hook, "args": [bundle.cuda_hook, "prestart"]}]}


def _device(device: Device) -> dict[str, Any]:
    """A device file like that of the host. Raises OSError."""
    there = Path(device.source).stat()
    return {
        "path": device.target,
        "type": "b" if stat.S_ISBLK(there.st_mode) else "c",
        "major": os.major(there.st_rdev),
        "minor": os.minor(there.st_rdev),
        "fileMode": stat.S_IMODE(there.st_mode),
        "uid": there.st_uid,
        "gid": there.st_gid,
    }


def _system_mounts() -> list[dict[str, Any]]:
    guarded = ["nosuid", "noexec", "nodev"]
    rows = (
        ("/proc", "proc", guarded),
        ("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        ("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
        ("/dev/shm", "tmpfs", [*guarded, "mode=1777"]),  # noqa: S108 - a path inside the container
        ("/dev/mqueue", "mqueue", guarded),
        ("/sys", "sysfs", [*guarded, "ro"]),
    )
    return [{"destination": at, "type": kind, "source": kind, "options": options} for at, kind, options in rows]


def _bind(bind: Bind) -> dict[str, Any]:
    options = ["rbind", "rprivate", "nosuid", "nodev", *(["ro"] if bind.readonly else [])]
    return {"destination": bind.target, "type": "bind", "source": bind.source, "options": options}
