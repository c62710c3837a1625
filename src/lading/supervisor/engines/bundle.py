"""The OCI bundle of a container: configuration for crun, root file system, and seccomp profile.

Limits of every container, independent of its image: no new privileges, the few capabilities that
package tools need, a deny list of system calls that reach beyond the container or into rarely used
kernel code, no view of the machine's kernel state. Its network namespace is its own and empty; the
supervisor may connect it (see `notice`). The configuration follows the OCI runtime specification
1.0. The root is an overlay of the image's layers, with changes in the bundle or in memory.

The seccomp profile lists the refused system calls; all others are allowed. It applies to each entry
into the kernel: on x86-64 to the 64-bit and the 32-bit one; a process that uses the third one (x32)
is killed. A filter cannot read arguments behind pointers, so `clone3` and `socketcall` are refused
entirely, as if the kernel did not have them: C libraries then use `clone` and `socket`, whose
arguments the filter sees.

Allowed on purpose, as programs need them and they affect the container's own processes only:
`ptrace` (debuggers), `personality` (gdb, SBCL, 32-bit programs), `modify_ldt` (Wine), `seccomp` and
`landlock_*` (programs that confine themselves), `process_madvise`, `io_pgetevents`, the NUMA calls
of MPI.

crun compiles the profile for each container, which takes a millisecond of the sixteen of an empty
container. It accepts a compiled program (BPF) in an annotation. libseccomp compiles it here once
for all containers, as it does in crun; where that fails, the profile alone is given.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import functools
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from lading.core.images import Account, ImageProcess
from lading.core.user_ids import Extent
from lading.supervisor import linux
from lading.supervisor.engines import Bind, Device, owners
from lading.supervisor.engines.user_namespace import UserNamespace

CUDA_HOOK = "nvidia-container-runtime-hook"
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
_OPEN = "go"
OPEN_LINE = f"{_OPEN}\n".encode()
"""The line that the gate passes on to start the command."""
READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
IN_MEMORY = "the data directory is on an overlay: changes outside of mounts are kept in memory"
# The unified hierarchy of a hybrid machine, which crun refuses (see `native`).
_UNIFIED = "/sys/fs/cgroup/unified"


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


_READ_BY_OTHERS = stat.S_IROTH | stat.S_IXOTH


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
        "mounts": [*_system_mounts(), *map(bind, bundle.binds)],
        "hooks": {
            **_notice(bundle),
            # crun writes the container's state to the hook's standard input and fails when nobody
            # reads it. grep reads it at once, a shell byte by byte, which took 0.7 ms. At the
            # gate's end grep fails, and so does the start.
            "createContainer": [
                {"path": "/bin/grep", "args": ["grep", "-qx", _OPEN, "-", bundle.gate]}
            ],
            **_cuda_hook(bundle),
        },
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


def _notice(bundle: Bundle) -> dict[str, Any]:
    if not bundle.notice:
        return {}
    # The state may lack a final newline, so the rest of the last line is tested with -n.
    script = f'while read -r line || [ -n "$line" ]; do echo "$line"; done > {bundle.notice}'
    return {"createRuntime": [{"path": "/bin/sh", "args": ["sh", "-c", script]}]}


def _user_namespace(ids: Sequence[Extent]) -> dict[str, Any]:
    if not ids:
        return {}
    mappings = [{"containerID": one.inside, "hostID": one.outside, "size": one.size} for one in ids]
    return {"uidMappings": mappings, "gidMappings": mappings}


# The paths of a machine do not change while it runs; forks inherit the result.
@functools.lru_cache(maxsize=1)
def _masked() -> tuple[str, ...]:
    """Masked paths that others than the machine's root may read: each costs a mount, some
    0.05 ms.
    """
    return tuple(one for one in MASKED if one not in _FILES_OF_ROOT and _is_readable(Path(one)))


def _is_readable(place: Path) -> bool:
    return not place.exists() or bool(place.stat().st_mode & _READ_BY_OTHERS)


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
    }


def _cuda_environment(bundle: Bundle) -> list[tuple[str, str]]:
    """Environment variables that NVIDIA's hook reads."""
    if not (bundle.cuda and bundle.cuda_hook):
        return []
    numbers = ",".join(str(one) for one in bundle.cuda)
    return [("NVIDIA_VISIBLE_DEVICES", numbers), ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")]


def find_cuda_hook(cuda: Sequence[int]) -> tuple[str, str]:
    """NVIDIA's program that adds the driver's libraries, for these GPUs, or "" and a note."""
    hook = shutil.which(CUDA_HOOK) if cuda else ""
    if hook is not None:
        return hook, ""
    return "", f"{CUDA_HOOK} is not installed: the image must bring the libraries of its driver"


def _cuda_hook(bundle: Bundle) -> dict[str, Any]:
    if not (bundle.cuda and bundle.cuda_hook):
        return {}
    return {"prestart": [{"path": bundle.cuda_hook, "args": [bundle.cuda_hook, "prestart"]}]}


def _device(device: Device) -> dict[str, Any]:
    """A device file like the host's. Raises OSError."""
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
        # 64 MiB, as Docker's /dev.
        ("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        (
            "/dev/pts",
            "devpts",
            ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        ("/dev/shm", "tmpfs", [*guarded, "mode=1777"]),  # noqa: S108 - a path inside the container
        ("/dev/mqueue", "mqueue", guarded),
        ("/sys", "sysfs", [*guarded, "ro"]),
    )
    return [
        {"destination": at, "type": kind, "source": kind, "options": options}
        for at, kind, options in rows
    ]


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
    if os.path.ismount(_UNIFIED):
        linux.unmount(_UNIFIED)
    for one in ("upper", "work"):
        (bundle / one).mkdir(mode=0o755, parents=True)
    # overlayfs expects the topmost layer first.
    lower = [str(one) for one in reversed(layers)]
    if namespace is None:
        rootfs = bundle / "rootfs"
        rootfs.mkdir(mode=0o755)
        return rootfs, _mount(rootfs, lower, bundle, None)
    rootfs = namespace.rootfs(name)
    return rootfs, _mount(rootfs, namespace.layers(lower), bundle, namespace)


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
    for one in ("upper", "work"):
        (memory / one).mkdir()
    _overlay(rootfs, lower, memory, namespace)
    return IN_MEMORY


def _overlay(
    rootfs: Path, lower: Sequence[str], changes: Path, namespace: UserNamespace | None
) -> None:
    upper = changes / "upper"
    if namespace is not None:
        namespace.own(upper)
    linux.mount_overlay(str(rootfs), lower=lower, upper=str(upper), work=str(changes / "work"))


DENIED_CALLS: Final = (
    # mounts and namespaces
    "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree",
    "open_tree_attr", "pivot_root", "setns", "umount", "umount2", "unshare",
    # the machine: modules, clocks, names, swap, restart, accounting
    "acct", "adjtimex", "clock_adjtime", "clock_adjtime64", "clock_settime", "clock_settime64",
    "create_module", "delete_module", "finit_module", "get_kernel_syms", "init_module", "ioperm",
    "iopl", "kexec_file_load", "kexec_load", "nfsservctl", "query_module", "quotactl",
    "quotactl_fd", "reboot", "setdomainname", "sethostname", "settimeofday", "stime", "swapoff",
    "swapon", "syslog", "uselib", "vhangup",
    # past the file system's permissions, other processes' memory and files, keys of the host
    "add_key", "file_setattr", "keyctl", "kcmp", "lookup_dcookie", "name_to_handle_at",
    "open_by_handle_at", "pidfd_getfd", "process_vm_readv", "process_vm_writev", "request_key",
    # memory that the machine can neither read nor swap
    "memfd_secret",
    # large and rarely needed attack surface
    "bpf", "fanotify_init", "io_uring_enter", "io_uring_register", "io_uring_setup",
    "perf_event_open", "userfaultfd", "vm86", "vm86old",
)  # fmt: skip
NEW_NAMESPACES: Final[Mapping[str, int]] = {
    "CLONE_NEWNS": 0x00020000,
    "CLONE_NEWCGROUP": 0x02000000,
    "CLONE_NEWUTS": 0x04000000,
    "CLONE_NEWIPC": 0x08000000,
    "CLONE_NEWUSER": 0x10000000,
    "CLONE_NEWPID": 0x20000000,
    "CLONE_NEWNET": 0x40000000,
}
"""Flags of `clone`. A new user namespace gives every capability, which makes much more of the
kernel reachable.
"""
SOCKET_FAMILIES: Final[Mapping[str, int]] = {
    "AF_UNSPEC": 0,  # libraries use it to list the available families
    "AF_UNIX": 1,  # programs of one container among each other
    "AF_INET": 2,
    "AF_INET6": 10,
    "AF_NETLINK": 16,  # names and addresses of the container's own interfaces: getaddrinfo, MPI
}
"""Allowed socket families. Others lead past the container's network to the hypervisor (AF_VSOCK) or
to devices (AF_PACKET, AF_BLUETOOTH, AF_CAN, AF_XDP), or load kernel code that few machines use:
AF_ALG, AF_RDS, AF_TIPC, AF_SMC, AF_KCM, AF_QIPCRTR and obsolete networks. InfiniBand is used by its
device files.
"""
FILE_ATTRIBUTES: Final = (0x401C5820, 0x40086602, 0x40046602)
"""FS_IOC_FSSETXATTR, FS_IOC_SETFLAGS and FS_IOC32_SETFLAGS: with these a file would leave the
project whose quota bounds the container (`supervisor.limits.disk_limits`).
"""
# The kernel reads the lower 32 bits of the register only.
_INT = 0xFFFFFFFF
_HIGHEST_FAMILY = max(SOCKET_FAMILIES.values())
_ARCHITECTURES: Final[Mapping[str, Sequence[str]]] = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
}
# Machines on which the flags are the second argument of `clone` (clone(2)).
_FLAGS_SECOND = ("s390x", "s390")
ANNOTATION: Final = "run.oci.seccomp_bpf_data"
LIBRARY: Final = "libseccomp.so.2"
# SCMP_ACT_ALLOW and SCMP_ACT_ERRNO of seccomp.h.
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
# -EEXIST: the native architecture is in every filter.
_EXISTS = -17
# __NR_SCMP_ERROR.
_UNKNOWN = -1
# enum scmp_compare of seccomp.h.
_OPERATORS: Final[Mapping[str, int]] = {"SCMP_CMP_EQ": 4, "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7}
_MACHINES: Final[Mapping[str, bytes]] = {
    "SCMP_ARCH_X86_64": b"x86_64",
    "SCMP_ARCH_X86": b"x86",
    "SCMP_ARCH_AARCH64": b"aarch64",
    "SCMP_ARCH_ARM": b"arm",
}


@functools.cache
def make_profile(machine: str) -> dict[str, Any]:
    """The profile for a machine (`uname -m`): the field `linux.seccomp` of an OCI configuration."""
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": _ARCHITECTURES.get(machine, ()),
        "syscalls": [
            _refuse(DENIED_CALLS, errno.EPERM),
            # ENOSYS, not EPERM: C libraries fall back only when the call seems not to exist.
            _refuse(("clone3", "socketcall"), errno.ENOSYS),
            *_namespaces(1 if machine in _FLAGS_SECOND else 0),
            *_families(),
            *(
                _refuse(("ioctl",), errno.EPERM, _test(1, "SCMP_CMP_MASKED_EQ", _INT, one))
                for one in FILE_ATTRIBUTES
            ),
        ],
    }


def _namespaces(position: int) -> list[dict[str, Any]]:
    return [
        _refuse(("clone",), errno.EPERM, _test(position, "SCMP_CMP_MASKED_EQ", flag, flag))
        for flag in NEW_NAMESPACES.values()
    ]


def _families() -> list[dict[str, Any]]:
    """Rules for the refused families: those between the allowed ones singly, and all larger
    numbers.

    The kernel reads the lower 32 bits only; a larger number in the register is refused as too
    large, so it cannot hide an unlisted family.
    """
    calls, allowed = ("socket", "socketpair"), SOCKET_FAMILIES.values()
    refused = [one for one in range(_HIGHEST_FAMILY) if one not in allowed]
    tests = [_test(0, "SCMP_CMP_EQ", one) for one in refused]
    return [
        _refuse(calls, errno.EAFNOSUPPORT, one)
        for one in (*tests, _test(0, "SCMP_CMP_GT", _HIGHEST_FAMILY))
    ]


def _test(position: int, operator: str, value: int, compared: int = 0) -> dict[str, Any]:
    return {"index": position, "value": value, "valueTwo": compared, "op": operator}


def _refuse(names: Sequence[str], number: int, *tests: dict[str, Any]) -> dict[str, Any]:
    return {
        "names": names,
        "action": "SCMP_ACT_ERRNO",
        "errnoRet": number,
        **({"args": tests} if tests else {}),
    }


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("position", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("compared", ctypes.c_uint64),
    )


# The same for all containers of a machine.
@functools.lru_cache(maxsize=1)
def make_annotation(machine: str, library: str = LIBRARY) -> Mapping[str, str]:
    """Annotation of a bundle for this machine (`uname -m`); empty when it cannot be compiled."""
    try:
        return {
            ANNOTATION: base64.b64encode(compile_profile(make_profile(machine), library)).decode()
        }
    # No libseccomp, an old one, or an unlisted architecture.
    except (OSError, AttributeError, KeyError):
        return {}


def compile_profile(profile: Mapping[str, Any], library_name: str = LIBRARY) -> bytes:
    """The BPF program. Raises OSError, AttributeError or KeyError when this libseccomp cannot
    compile it.
    """
    library = _load(library_name)
    context = library.seccomp_init(_ALLOW)
    if not context:
        raise OSError("libseccomp gives no filter")
    try:
        for name in profile["architectures"]:
            code = library.seccomp_arch_add(
                context, library.seccomp_arch_resolve_name(_MACHINES[name])
            )
            _check(0 if code == _EXISTS else code)
        for rule in profile["syscalls"]:
            _add(library, context, rule)
        file = os.memfd_create("seccomp", os.MFD_CLOEXEC)
        try:
            _check(library.seccomp_export_bpf(context, file))
            return os.pread(file, os.fstat(file).st_size, 0)
        finally:
            os.close(file)
    finally:
        library.seccomp_release(context)


def _add(library: ctypes.CDLL, context: int, rule: Mapping[str, Any]) -> None:
    tests = rule.get("args", ())
    comparisons = (_Comparison * len(tests))(
        *(
            _Comparison(one["index"], _OPERATORS[one["op"]], one["value"], one["valueTwo"])
            for one in tests
        )
    )
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        # A call that this libseccomp does not know; crun leaves it out as well.
        if number != _UNKNOWN:
            action = _REFUSE | rule["errnoRet"]
            _check(library.seccomp_rule_add_array(context, action, number, len(tests), comparisons))


def _load(name: str) -> ctypes.CDLL:
    library = ctypes.CDLL(name)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    # Argument types are declared, because ctypes passes plain integers as 32 bits.
    library.seccomp_arch_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.seccomp_arch_resolve_name.restype = ctypes.c_uint32
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
    ]  # fmt: skip
    return library


def _check(code: int) -> None:
    if code != 0:
        raise OSError(-code, os.strerror(-code), LIBRARY)
