"""The seccomp profile of every container: the system calls that it may not use.

The profile lists the refused system calls; all others are allowed. It applies to each entry
into the kernel: on x86-64 to the 64-bit and the 32-bit one; a process that uses the third one (x32)
is killed. A filter cannot read arguments behind pointers, so `clone3` and `socketcall` are refused
entirely, as if the kernel did not have them: C libraries then use `clone` and `socket`, whose
arguments the filter sees.

Allowed on purpose, as programs need them and they affect the container's own processes only:
`ptrace` (debuggers), `personality` (gdb, SBCL, 32-bit programs), `modify_ldt` (Wine), `seccomp` and
`landlock_*` (programs that confine themselves), `process_madvise`, `io_pgetevents`, the NUMA calls
of MPI.

A profile names calls, and a library that does not know a name leaves it out. So the compiled
program begins with instructions of its own for the calls that libraries of today may not know, by
their numbers, which are the same on all architectures from 424 on; calls that are newer than this
module do not exist for a container. Daemons compile the profile themselves: there a call is
refused as far as their library knows it.

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
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
LEASES: Final = (1024, 1040)
"""F_SETLEASE and F_SETDELEG of fcntl(2): who holds a lease on a file delays everybody who opens it
for up to 45 s. Inputs are files that all containers of a machine share, and the supervisor opens
files of its container.
"""
NEW_CALLS: Final[Mapping[str, int]] = {"open_tree_attr": 467, "file_setattr": 469}
"""Refused calls of Linux 6.15 and later by number, as libseccomp before 2.6.1 has no names for
them.
"""
NEWEST_CALL: Final = 469
"""The newest call that this module has judged (Linux 6.18)."""
# Numbers that no architecture uses yet; private calls of 32-bit ARM begin at 0xF0000.
_HIGHEST_CALL = 1023
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
# Instructions of linux/bpf_common.h: the number of the call, jumps, and the answer.
_LOAD_NUMBER, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x15, 0x35, 0x06
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
                _refuse(("ioctl",), errno.EPERM, _test(1, "SCMP_CMP_MASKED_EQ", _INT, flag))
                for flag in FILE_ATTRIBUTES
            ),
            *(
                _refuse(
                    ("fcntl", "fcntl64"), errno.EPERM, _test(1, "SCMP_CMP_MASKED_EQ", _INT, command)
                )
                for command in LEASES
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
    refused = [family for family in range(_HIGHEST_FAMILY) if family not in allowed]
    tests = [_test(0, "SCMP_CMP_EQ", family) for family in refused]
    return [
        _refuse(calls, errno.EAFNOSUPPORT, test)
        for test in (*tests, _test(0, "SCMP_CMP_GT", _HIGHEST_FAMILY))
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
def make_program(machine: str, library: str = LIBRARY) -> bytes:
    """The compiled profile for this machine (`uname -m`); empty when it cannot be compiled."""
    try:
        return compile_profile(make_profile(machine), library)
    # No libseccomp, an old one, or an unlisted architecture.
    except (OSError, AttributeError, KeyError):
        return b""


@functools.lru_cache(maxsize=1)
def make_annotation(machine: str, library: str = LIBRARY) -> Mapping[str, str]:
    """Annotation of a bundle for this machine (`uname -m`); empty when it cannot be compiled."""
    program = make_program(machine, library)
    return {ANNOTATION: base64.b64encode(program).decode()} if program else {}


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
            return _refuse_new_calls() + os.pread(file, os.fstat(file).st_size, 0)
        finally:
            os.close(file)
    finally:
        library.seccomp_release(context)


def _refuse_new_calls() -> bytes:
    """Instructions that refuse calls by number; all others continue behind them."""
    numbers = tuple(NEW_CALLS.values())
    # The two returns follow the tests; a jump counts the instructions between.
    refused = [
        _instruction(_JUMP_EQUAL, number, met=len(numbers) + 1 - position)
        for position, number in enumerate(numbers)
    ]
    return b"".join(
        (
            _instruction(_LOAD_NUMBER),
            *refused,
            _instruction(_JUMP_FROM, NEWEST_CALL + 1, unmet=3),
            _instruction(_JUMP_FROM, _HIGHEST_CALL + 1, met=2, unmet=1),
            _instruction(_RETURN, _REFUSE | errno.EPERM),
            _instruction(_RETURN, _REFUSE | errno.ENOSYS),
        )
    )


def _instruction(code: int, value: int = 0, *, met: int = 0, unmet: int = 0) -> bytes:
    """`struct sock_filter` of linux/filter.h; `met` and `unmet` are the instructions to skip."""
    return struct.pack("=HBBI", code, met, unmet, value)


def _add(library: ctypes.CDLL, context: int, rule: Mapping[str, Any]) -> None:
    tests = rule.get("args", ())
    comparisons = (_Comparison * len(tests))(
        *(
            _Comparison(test["index"], _OPERATORS[test["op"]], test["value"], test["valueTwo"])
            for test in tests
        )
    )
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        # A call that this libseccomp does not know; crun leaves it out as well (`NEW_CALLS`).
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
