"""Compiles a seccomp profile into a BPF program, once for all containers.

crun compiles the profile for each container, which takes a millisecond of the sixteen of an empty
container. It accepts a compiled program in an annotation. libseccomp compiles it here as it does in
crun; where that fails, the profile alone is given.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import os
from collections.abc import Mapping
from typing import Any, Final

from lading.supervisor.engines.seccomp import make_profile

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


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("position", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("compared", ctypes.c_uint64),
    )


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
    told = (_Comparison * len(tests))(
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
            _check(library.seccomp_rule_add_array(context, action, number, len(tests), told))


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
