"""How the limits of a container are enforced for an ordinary user, who may make no control group of
the machine.

A limit for which systemd has delegated a controller to the user is enforced by the kernel as for
root. The others:

    ram         samples of its processes; a container with more is ended (`memory_samples`)
    processes   RLIMIT_NPROC, which the kernel counts for the user namespace of the container
    vcpus       not enforced
    disk        samples of its files, as for root without project quotas (`disk_limits`)
"""

from __future__ import annotations

import os
from collections.abc import Collection

import msgspec

from lading.core.resources import format_bytes

# Since this kernel RLIMIT_NPROC counts the processes of one user namespace, and not all of a user.
_COUNTS_NAMESPACES = (5, 14)


_BY_KERNEL, _NOT = "by a delegated control group", "not at all"
_BY_SAMPLES, _BY_RLIMIT = "by samples and kill", "by RLIMIT_NPROC"


class UserLimits(msgspec.Struct, frozen=True):
    """Limits without a control group: `ram` in bytes, numbers; 0 is none."""

    ram: int = 0
    vcpus: int = 0
    processes: int = 0
    can_count: bool = True
    """Whether the kernel counts processes for each container."""
    by_kernel: tuple[str, ...] = ()
    """Names of further limits, which a delegated control group enforces."""

    @property
    def nproc(self) -> int:
        """The RLIMIT_NPROC of the container, 0 for none."""
        return self.processes if self.can_count else 0

    def sentence(self) -> str:
        """How each limit is enforced, for the log of the container; "" without any."""
        texts = [f"{' and '.join(self.by_kernel)} {_BY_KERNEL}"] if self.by_kernel else []
        texts += [f"ram of {format_bytes(self.ram)} {_BY_SAMPLES}"] if self.ram else []
        if self.processes:
            texts.append(f"{self.processes} processes {_BY_RLIMIT if self.nproc else _NOT}")
        texts += [f"{self.vcpus} vcpus {_NOT}"] if self.vcpus else []
        return f"limits of the container: {', '.join(texts)}" if texts else ""


def describe(controllers: Collection[str], *, can_count: bool) -> str:
    """How the limits of all containers of a user are enforced, where these controllers are
    delegated.
    """
    ways = [
        ("ram", "memory", _BY_SAMPLES),
        ("processes", "pids", _BY_RLIMIT if can_count else _NOT),
        ("vcpus", "cpu", _NOT),
    ]
    texts = [
        f"{limit} {_BY_KERNEL if controller in controllers else way}"
        for limit, controller, way in ways
    ]
    return ", ".join([*texts, "disk by samples and kill"])


def can_count(release: str) -> bool:
    """Whether a kernel of this release counts processes for each user namespace."""
    numbers = release.split("-")[0].split(".")[:2]
    return tuple(int(one) for one in numbers if one.isdigit()) >= _COUNTS_NAMESPACES


def kernel_can_count() -> bool:
    """Whether this kernel counts processes for each user namespace."""
    return can_count(os.uname().release)
