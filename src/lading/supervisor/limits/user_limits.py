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


class UserLimits(msgspec.Struct, frozen=True):
    """Limits without a control group: `ram` in bytes, numbers; 0 is none."""

    ram: int = 0
    vcpus: int = 0
    processes: int = 0
    can_count: bool = True
    """Whether the kernel counts processes for each container."""

    @property
    def nproc(self) -> int:
        """The RLIMIT_NPROC of the container, 0 for none."""
        return self.processes if self.can_count else 0

    def sentence(self) -> str:
        """How these limits are enforced, for the log of the container; "" without any."""
        enforced = [f"ram of {format_bytes(self.ram)} by samples"] if self.ram else []
        enforced += [f"{self.processes} processes by RLIMIT_NPROC"] if self.nproc else []
        lacking = ["vcpus"] if self.vcpus else []
        lacking += ["processes"] if self.processes and not self.nproc else []
        texts = [f"limits without a control group: {', '.join(enforced)}"] if enforced else []
        texts += [f"no limit of {' and '.join(lacking)} without a control group"] if lacking else []
        return "; ".join(texts)


def describe(controllers: Collection[str], *, can_count: bool) -> str:
    """How the limits of all containers of a user are enforced, where these controllers are
    delegated.
    """
    ways = [
        ("ram", "memory", "by samples"),
        ("processes", "pids", "by RLIMIT_NPROC" if can_count else "not at all"),
        ("vcpus", "cpu", "not at all"),
    ]
    texts = [
        f"{limit} {'by the kernel' if controller in controllers else way}"
        for limit, controller, way in ways
    ]
    return ", ".join([*texts, "disk by samples"])


def can_count(release: str) -> bool:
    """Whether a kernel of this release counts processes for each user namespace."""
    numbers = release.split("-")[0].split(".")[:2]
    return tuple(int(one) for one in numbers if one.isdigit()) >= _COUNTS_NAMESPACES


def kernel_can_count() -> bool:
    """Whether this kernel counts processes for each user namespace."""
    return can_count(os.uname().release)
