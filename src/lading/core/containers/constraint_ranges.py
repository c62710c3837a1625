"""Ranges of runtime constraints: the least and the most that a request accepts, and growth.

`ram` (bytes) and `vcpus` may be ranges `[min, max]`, both included (docs/spec/decisions):

- The request keeps its range. A container satisfies it when its actual amount lies within.
- A container made for a range first has the minimum; its `constraint_ranges` tell the possible
  increase. A lock may choose an amount within those ranges; when the container returns to the
  queue, it has the minimum again.
- While it waits, other requests may join it whose numbers or ranges overlap with its own: then its
  ranges narrow to the common part, so that no request ever gets a container that does not satisfy
  it.
"""

from __future__ import annotations

from collections.abc import Mapping

from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject

RANGED = ("ram", "vcpus", "keep_cache_ram", "keep_cache_disk")
"""Constraints that may be ranges."""
GROWING = ("ram", "vcpus")
"""Constraints that may be increased when a container is locked."""


def is_range(value: Json) -> bool:
    """Whether it is two integers, the first not above the second."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    low, high = value
    return _is_whole(low) and _is_whole(high) and _number(low) <= _number(high)


def lowest(constraints: Mapping[str, Json]) -> JsonObject:
    """The constraints with the minimum of each range in its place."""
    return {
        key: range_span(value)[0] if key in RANGED and is_range(value) else value
        for key, value in constraints.items()
    }


def growth(constraints: Mapping[str, Json]) -> JsonObject:
    """The ranges for an increase of a new container: `{"ram": [minimum, maximum]}`."""
    found: JsonObject = {}
    for key in GROWING:
        low, high = range_span(constraints.get(key))
        if low < high:
            found[key] = [low, high]
    return found


def range_span(value: Json) -> tuple[int, int]:
    """The range of a number or a range; absent means 0."""
    if isinstance(value, list) and is_range(value):
        return _number(value[0]), _number(value[1])
    return _number(value), _number(value)


def common_range(requested: Json, offered: Json) -> tuple[int, int] | None:
    """The common part of two numbers or ranges, or None."""
    (low, high), (least, most) = range_span(requested), range_span(offered)
    shared = max(low, least), min(high, most)
    return shared if shared[0] <= shared[1] else None


def narrowed(
    requested: Mapping[str, Json], constraints: Mapping[str, Json], room: Mapping[str, Json]
) -> tuple[JsonObject, JsonObject]:
    """Constraints and ranges of a waiting container after a request that it satisfies has joined
    it.

    `requested` are the request's numbers and ranges, `constraints` the container's constraints,
    `room` its ranges.
    """
    fresh, left = dict(constraints), dict(room)
    for key in GROWING:
        shared = common_range(requested.get(key), room.get(key, constraints.get(key)))
        if key not in room or shared is None:
            continue
        del left[key]
        fresh[key] = shared[0]
        if shared[0] < shared[1]:
            left[key] = [*shared]
    return fresh, left


def granted(
    constraints: Mapping[str, Json], room: Mapping[str, Json], amounts: Mapping[str, Json]
) -> JsonObject:
    """Constraints of a container that is locked with these `amounts`. Raises Invalid outside its
    ranges.
    """
    for key, value in amounts.items():
        low, high = range_span(room.get(key, constraints.get(key)))
        if key not in GROWING or not _is_whole(value) or not low <= _number(value) <= high:
            limits = f"from {low} to {high}" if low < high else str(low)
            raise Invalid(
                f"runtime_constraints.{key}: this container can be given {limits}, "
                f"not {value!r:.40}"
            )
    return {**constraints, **amounts}


def least(constraints: Mapping[str, Json], room: Mapping[str, Json]) -> JsonObject:
    """Constraints of a container that returns to the queue: each range has its minimum again."""
    return {**constraints, **{key: range_span(value)[0] for key, value in room.items()}}


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
