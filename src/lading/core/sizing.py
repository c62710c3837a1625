"""How much of a machine a container needs: the resource algebra (dispatch-contract B.3, C.2).

The unit of planning is a pair (vcpus, bytes of RAM). What a container needs is read from its runtime constraints:
`ram` plus the RAM of its block cache. Disk is not part of the pair: this machine's containers share one disk and are
refused by the disk itself, which the supervisor reports as the failure class `disk`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lading.core.errors import Invalid

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_RAM_KEYS = ("ram", "keep_cache_ram")


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of a machine: virtual CPUs and bytes of RAM. Differences may be negative."""

    vcpus: int = 0
    ram: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.vcpus + other.vcpus, self.ram + other.ram)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.vcpus - other.vcpus, self.ram - other.ram)

    def fits(self, room: Resources) -> bool:
        """Whether this amount fits in `room`, in every component."""
        return self.vcpus <= room.vcpus and self.ram <= room.ram

    def __str__(self) -> str:
        return f"{self.vcpus} {'VCPU' if self.vcpus == 1 else 'VCPUs'} and {format_bytes(self.ram)} RAM"


def total(amounts: Iterable[Resources]) -> Resources:
    """The sum of `amounts`."""
    vcpus = ram = 0
    for amount in amounts:
        vcpus += amount.vcpus
        ram += amount.ram
    return Resources(vcpus, ram)


def need(runtime_constraints: Mapping[str, object]) -> Resources:
    """What a container with these (resolved) runtime constraints needs.

    Raises Invalid naming the key that is missing or not a positive integer: a record that cannot be sized is never
    taken for one that needs nothing.
    """
    vcpus = _integer(runtime_constraints, "vcpus", least=1)
    _integer(runtime_constraints, "ram", least=1)
    return Resources(vcpus, sum(_integer(runtime_constraints, key, least=0) for key in _RAM_KEYS))


def growth(constraint_ranges: Mapping[str, object], runtime_constraints: Mapping[str, object]) -> Resources:
    """How much more than it has a container can be given (`ranges.growth`)."""
    return Resources(*(_room(constraint_ranges.get(key), runtime_constraints.get(key)) for key in ("vcpus", "ram")))


def format_bytes(number: int) -> str:
    """`number` for people, rounded to a tenth: "512 bytes", "1.5 MiB", "2.0 GiB"."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(number) >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number} bytes"


def _room(span: object, given: object) -> int:
    match span, given:
        case [int(), int(most)], int():
            return max(0, most - given)
    return 0


def _integer(constraints: Mapping[str, object], key: str, *, least: int) -> int:
    value = constraints.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Invalid(f"runtime_constraints.{key}: {value!r} is not an integer of at least {least}")
    return value
