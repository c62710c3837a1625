"""How each limit of a container of the native engine is enforced.

The kernel enforces limits by the control group of the container. Root makes this group; for an
ordinary user systemd delegates one. A machine may lack the controller of a limit, and a process may
lack the right to make a group. Then:

    ram         samples of its processes; a container with more is ended (`memory_samples`)
    processes   RLIMIT_NPROC, which the kernel counts for the user namespace of the container
    vcpus       not enforced
    disk        samples of its files, as for root without project quotas (`disk_limits`)

Nobody samples the ranks of a gang, so their ram is not enforced.
"""

from __future__ import annotations

import os
from collections.abc import Collection

import msgspec

from lading.core.resources import format_bytes

# Since this kernel RLIMIT_NPROC counts the processes of one user namespace, and not all of a user.
_COUNTS_NAMESPACES = (5, 14)
OF_ROOT, DELEGATED = "by a control group", "by a delegated control group"
"""How the kernel enforces a limit, for root and for an ordinary user."""
_BY_SAMPLES, _BY_RLIMIT, _NOT = "by samples and kill", "by RLIMIT_NPROC", "not at all"
# Limits, and the controllers that enforce them.
_CONTROLLERS = {"ram": "memory", "vcpus": "cpu", "processes": "pids"}


class LimitWays(msgspec.Struct, frozen=True):
    """Limits without a control group: `ram` in bytes, numbers; 0 is none."""

    ram: int = 0
    vcpus: int = 0
    processes: int = 0
    can_count: bool = True
    """Whether the kernel counts processes for each container."""
    can_sample: bool = True
    """Whether somebody samples the memory of the container."""
    by_kernel: tuple[str, ...] = ()
    """Names of further limits, which a control group enforces."""
    group: str = DELEGATED

    @property
    def nproc(self) -> int:
        """The RLIMIT_NPROC of the container, 0 for none."""
        return self.processes if self.can_count else 0

    @property
    def sampled_ram(self) -> int:
        """Bytes that no sample of the container may exceed, 0 for none."""
        return self.ram if self.can_sample else 0

    def sentence(self) -> str:
        """How each limit is enforced, for the log of the container; "" without any, and where root
        has a control group for all.
        """
        if self.group == OF_ROOT and not (self.ram or self.vcpus or self.processes):
            return ""
        texts = [f"{' and '.join(self.by_kernel)} {self.group}"] if self.by_kernel else []
        if self.ram:
            way = _BY_SAMPLES if self.can_sample else _NOT
            texts.append(f"ram of {format_bytes(self.ram)} {way}")
        if self.processes:
            texts.append(f"{self.processes} processes {_BY_RLIMIT if self.nproc else _NOT}")
        texts += [f"{self.vcpus} vcpus {_NOT}"] if self.vcpus else []
        return f"limits of the container: {', '.join(texts)}" if texts else ""


def find_ways(
    *,
    ram: int,
    vcpus: int,
    processes: int,
    enforced: Collection[str],
    group: str,
    can_count: bool,
    can_sample: bool = True,
) -> LimitWays:
    """The ways of a container with these limits, of which the kernel enforces those of these
    controllers by its control group.
    """
    limits = {"ram": ram, "vcpus": vcpus, "processes": processes}
    by_kernel = [name for name in limits if limits[name] and _CONTROLLERS[name] in enforced]
    others = {name: limit for name, limit in limits.items() if name not in by_kernel}
    return LimitWays(
        **others,
        can_count=can_count,
        can_sample=can_sample,
        by_kernel=tuple(by_kernel),
        group=group,
    )


def describe(controllers: Collection[str], *, can_count: bool, group: str = DELEGATED) -> str:
    """How limits of all containers are enforced, where control groups have these controllers."""
    ways = {"ram": _BY_SAMPLES, "processes": _BY_RLIMIT if can_count else _NOT, "vcpus": _NOT}
    texts = [
        f"{limit} {group if _CONTROLLERS[limit] in controllers else way}"
        for limit, way in ways.items()
    ]
    return ", ".join([*texts, "disk by samples and kill"] if group == DELEGATED else texts)


def lacking(controllers: Collection[str]) -> list[str]:
    """Controllers of limits that are not among these."""
    return [name for name in ("memory", "cpu", "pids") if name not in controllers]


def can_count(release: str) -> bool:
    """Whether a kernel of this release counts processes for each user namespace."""
    numbers = release.split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit()) >= _COUNTS_NAMESPACES


def kernel_can_count() -> bool:
    """Whether this kernel counts processes for each user namespace."""
    return can_count(os.uname().release)
