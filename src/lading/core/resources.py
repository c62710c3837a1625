"""Amounts of a machine's resources, the need of a container, and its cost.

The unit of planning is (vcpus, bytes of RAM, bytes of scratch disk, GPUs). The need of a container
is read from its runtime constraints: `ram` plus the RAM of its block cache, and the devices of
`gpu`. Scratch is planned only where a worker's disk is known or shared by agreement (Slurm, a
configured share of this machine); elsewhere containers share one disk, and the supervisor reports a
full one as the failure class `disk`. Source: docs/spec/dispatch, section Resources.

Cost is the price of the machine over time, and the container's share of the machine
(docs/spec/containers, section Cost). A price, in dollars an hour, counts from its start until the
next one. The first known price also counts before its start; future prices do not count yet.
Several containers on one machine pay together at most its price: the mean of a container's shares
of CPUs and memory has that property, however containers are packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeGuard

import msgspec
from msgspec import structs

from lading.core.errors import Invalid
from lading.core.quantities import parse_time

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNLIMITED = 1 << 62
"""Disk of a worker whose disk is not planned."""
_RAM_KEYS = ("ram", "keep_cache_ram")
# Size of a full block, of which large images consist.
_BLOCK = 64 * MIB
# Characters of the manifest of a one-block image, of its fixed part, and of each further locator.
_SHORTEST_IMAGE, _IMAGE_HEAD, _IMAGE_BLOCK = 122, 80, 42
# Prices are per hour.
_HOUR = 3600.0


class Resources(msgspec.Struct, frozen=True):
    """An amount of a machine: virtual CPUs, bytes of RAM, bytes of scratch disk, GPUs. Differences
    may be negative.
    """

    vcpus: int = 0
    ram: int = 0
    disk: int = 0
    gpus: int = 0

    def __add__(self, amount: Resources) -> Resources:
        return Resources(
            self.vcpus + amount.vcpus,
            self.ram + amount.ram,
            self.disk + amount.disk,
            self.gpus + amount.gpus,
        )

    def __sub__(self, amount: Resources) -> Resources:
        return Resources(
            self.vcpus - amount.vcpus,
            self.ram - amount.ram,
            self.disk - amount.disk,
            self.gpus - amount.gpus,
        )

    def least(self, amount: Resources) -> Resources:
        """The minimum of each component."""
        return Resources(
            min(self.vcpus, amount.vcpus),
            min(self.ram, amount.ram),
            min(self.disk, amount.disk),
            min(self.gpus, amount.gpus),
        )

    def fits(self, room: Resources) -> bool:
        """Whether this amount fits in `room`, in every component. A need of no disk or GPU fits a
        room with a negative rest.
        """
        wanted = ((self.disk, room.disk), (self.gpus, room.gpus))
        return (
            self.vcpus <= room.vcpus
            and self.ram <= room.ram
            and all(mine <= max(0, left) for mine, left in wanted)
        )

    def holds(self, amount: Resources) -> int:
        """Number of times that another amount, of at least one virtual CPU, fits into this one."""
        number = self.vcpus // amount.vcpus
        if number > 0 and amount.ram > 0:
            number = min(number, self.ram // amount.ram)
        if number > 0 and amount.disk > 0:
            number = min(number, self.disk // amount.disk)
        if number > 0 and amount.gpus > 0:
            number = min(number, self.gpus // amount.gpus)
        return max(0, number)

    def times(self, number: int) -> Resources:
        """A multiple of this amount."""
        return Resources(
            self.vcpus * number, self.ram * number, self.disk * number, self.gpus * number
        )

    def share_of(self, base: Resources) -> float:
        """The largest share of `base` in any component that `base` has."""
        pairs = (
            (self.vcpus, base.vcpus),
            (self.ram, base.ram),
            (self.disk, base.disk),
            (self.gpus, base.gpus),
        )
        return max((mine / all_ for mine, all_ in pairs if all_), default=0.0)

    def __str__(self) -> str:
        parts = [
            f"{self.vcpus} {'VCPU' if self.vcpus == 1 else 'VCPUs'}",
            f"{format_bytes(self.ram)} RAM",
        ]
        # An unplanned disk is not shown; sums and differences of such disks neither.
        if 0 < abs(self.disk) < UNLIMITED >> 1:
            parts.append(f"{format_bytes(self.disk)} scratch")
        if self.gpus:
            parts.append(f"{self.gpus} {'GPU' if self.gpus == 1 else 'GPUs'}")
        return f"{', '.join(parts[:-1])} and {parts[-1]}"


def total(amounts: Iterable[Resources]) -> Resources:
    """The sum of `amounts`."""
    # Four integers: adding Resources would make an object for each step.
    vcpus = ram = disk = gpus = 0
    for amount in amounts:
        vcpus += amount.vcpus
        ram += amount.ram
        disk += amount.disk
        gpus += amount.gpus
    return Resources(vcpus, ram, disk, gpus)


def need(runtime_constraints: Mapping[str, object]) -> Resources:
    """Need of a container with these (resolved) runtime constraints.

    Raises Invalid naming the key that is missing or not a positive integer: a record that cannot be
    sized is never treated as one without a need.
    """
    vcpus = _integer(runtime_constraints, "vcpus", least=1)
    _integer(runtime_constraints, "ram", least=1)
    ram = sum(_integer(runtime_constraints, key, least=0) for key in _RAM_KEYS)
    gpu = runtime_constraints.get("gpu")
    return Resources(
        vcpus, ram, gpus=_integer(gpu, "device_count", least=0) if isinstance(gpu, Mapping) else 0
    )


def gang_need(each: Resources, nodes: int, *, shares_vcpus: bool = False) -> Resources:
    """Need on one machine of a gang of `nodes` containers that need `each` each; the disk counts
    once: image, cache and output exist once. `shares_vcpus`: so do the VCPUs.
    """
    whole = structs.replace(each.times(nodes), disk=each.disk)
    return structs.replace(whole, vcpus=each.vcpus) if shares_vcpus else whole


def rank_need(gang: Resources, nodes: int) -> Resources:
    """Need of each container of such a gang on a machine of its own."""
    # Of shared VCPUs each container has at least one there.
    vcpus = max(1, gang.vcpus // nodes)
    return Resources(vcpus, gang.ram // nodes, gang.disk, gang.gpus // nodes)


def scratch(
    mounts: Mapping[str, object],
    container_image: str,
    runtime_constraints: Mapping[str, object],
    *,
    factor: float = 1.0,
) -> int:
    """Bytes of disk that a container may fill: the larger of its tmp mounts and its image, plus the
    image, plus its block cache. `factor`: times the capacities of its tmp mounts.
    """
    tmp = int(sum(_capacity(mount) for mount in mounts.values()) * factor)
    image = image_size(container_image)
    cache = runtime_constraints.get("keep_cache_disk", 0)
    return max(tmp, image) + image + (cache if isinstance(cache, int) else 0)


def image_size(portable_data_hash: str) -> int:
    """Estimated bytes of an image from the length of its manifest, which is part of its portable
    data hash.
    """
    _, _, text = portable_data_hash.partition("+")
    length = int(text) if text.isdecimal() else 0
    # Each further locator of the manifest is one full block.
    return 0 if length < _SHORTEST_IMAGE else (length - _IMAGE_HEAD) // _IMAGE_BLOCK * _BLOCK


def growth(
    constraint_ranges: Mapping[str, object], runtime_constraints: Mapping[str, object]
) -> Resources:
    """Maximum of additional vcpus and RAM for a container
    (`core.containers.constraint_ranges.growth`)."""
    return Resources(
        *(
            _room(constraint_ranges.get(key), runtime_constraints.get(key))
            for key in ("vcpus", "ram")
        )
    )


def format_bytes(number: int) -> str:
    """Human-readable number of bytes, rounded to a tenth: "512 bytes", "1.5 MiB", "2.0 GiB"."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(number) >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number} bytes"


def _capacity(mount: object) -> int:
    match mount:
        case {"kind": "tmp", "capacity": int(capacity)}:
            return max(0, capacity)
    return 0


def _room(span: object, granted: object) -> int:
    match span, granted:
        case [int(), int(most)], int():
            return max(0, most - granted)
    return 0


def _integer(constraints: Mapping[str, object], key: str, *, least: int) -> int:
    value = constraints.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Invalid(f"runtime_constraints.{key}: {value!r} is not an integer of at least {least}")
    return value


class Price(msgspec.Struct, frozen=True, order=True):
    """From `start` on the machine costs `amount` dollars an hour."""

    start: datetime
    amount: float


def read_prices(history: object) -> tuple[Price, ...]:
    """The prices in a list of {"StartTime", "Price"}, oldest first; of equal consecutive prices the
    oldest.

    Raises Invalid for anything else.
    """
    if not isinstance(history, list):
        raise Invalid("price history: must be a list of {StartTime, Price}")
    kept: list[Price] = []
    for price in sorted(map(_read_price, history)):
        if not kept or kept[-1].amount != price.amount:
            kept.append(price)
    return tuple(kept)


def _read_price(entry: object) -> Price:
    given = entry if isinstance(entry, dict) else {}
    moment, amount = _moment(given.get("StartTime")), given.get("Price")
    if moment is None or not _is_amount(amount):
        raise Invalid(f"price history: not a StartTime and a Price: {str(entry)[:100]}")
    return Price(moment, float(amount))


def _is_amount(value: object) -> TypeGuard[float]:
    # The comparison is also false for nan.
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def cost(prices: Sequence[Price], start: datetime, end: datetime, *, share: float = 1.0) -> float:
    """Dollars for the time from `start` to `end`, by prices ordered oldest first; 0 without
    prices.
    """
    total = 0.0
    for number, price in enumerate(prices):
        begun = start if number == 0 else max(start, price.start)
        until = min(end, prices[number + 1].start) if number + 1 < len(prices) else end
        total += price.amount * max(0.0, (until - begun).total_seconds()) / _HOUR
    return total * share


def machine_share(instance: Mapping[str, object], *, vcpus: int, ram: int) -> float:
    """Share of an instance for a container of this size, from 0 to 1; 1 when the instance's size is
    unknown.
    """
    shares = list(_shares(((instance.get("VCPUs"), vcpus), (instance.get("RAM"), ram))))
    return sum(shares) / len(shares) if shares else 1.0


def _moment(value: object) -> datetime | None:
    try:
        return parse_time(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _shares(pairs: Iterable[tuple[object, int]]) -> Iterable[float]:
    for capacity, used in pairs:
        if isinstance(capacity, int) and capacity > 0:
            yield min(1.0, used / capacity)
