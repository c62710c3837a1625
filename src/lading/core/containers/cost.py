"""Cost of a container: the price of its machine over time, and its share of that machine.

Rules (docs/spec/containers, section Cost): a price counts from its start until the next one. The
first known price also counts before its start; future prices do not count yet. Prices are dollars
an hour.

Several containers on one machine share its price and pay together at most all of it. The mean of a
container's shares of CPUs and memory has that property, however containers are packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lading.core.errors import Invalid
from lading.core.timestamps import parse_time

# Prices are per hour.
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, order=True)
class Price:
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
    found = []
    for one in history:
        start = one.get("StartTime") if isinstance(one, dict) else None
        amount = one.get("Price") if isinstance(one, dict) else None
        moment = _moment(start)
        if (
            moment is None
            or isinstance(amount, bool)
            or not isinstance(amount, int | float)
            # Also false for nan.
            or not amount >= 0
        ):
            raise Invalid(f"price history: not a StartTime and a Price: {str(one)[:100]}")
        found.append(Price(moment, float(amount)))
    kept: list[Price] = []
    for price in sorted(found):
        if not kept or kept[-1].amount != price.amount:
            kept.append(price)
    return tuple(kept)


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


def share(instance: Mapping[str, object], *, vcpus: int, ram: int) -> float:
    """Share of an instance for a container of this size, from 0 to 1; 1 when the instance's size is
    unknown.
    """
    shares = list(_shares(((instance.get("VCPUs"), vcpus), (instance.get("RAM"), ram))))
    return sum(shares) / len(shares) if shares else 1.0


def _moment(text: object) -> datetime | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _shares(pairs: Iterable[tuple[object, int]]) -> Iterable[float]:
    for whole, part in pairs:
        if isinstance(whole, int) and whole > 0:
            yield min(1.0, part / whole)
