"""JSON values as records hold them: one spelling for each value, exact integers, and equality that
tells 1 from true.

Records are compared by their canonical text (docs/spec/api, section Container requests):
object keys sorted at every depth, no blanks, integers of any size exact. Values inside records are
never changed in place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TypeAlias

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
JsonObject: TypeAlias = dict[str, Json]

MAX_DEPTH = 100
"""How deep objects and arrays of one document may stand in each other."""
EMPTY_OBJECT_DIGEST = "99914b932bd37a50b983c5e7c90ae93b"
_EMPTY: tuple[Json, ...] = (None, [], {})
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: object) -> str:
    """The one text of a JSON value; equal values have equal texts, whatever the order of their
    keys.
    """
    return _ENCODER.encode(value)


def digest(value: object) -> str:
    """The md5 (hex) of the canonical text: `{}` is 99914b932bd37a50b983c5e7c90ae93b.

    Source: docs/spec/api, section Resolving and reuse.
    """
    return hashlib.md5(
        canonical(value).encode("utf-8", "surrogatepass"), usedforsecurity=False
    ).hexdigest()


def same(one: object, other: object) -> bool:
    """Whether two JSON values are the same value, that is have the same text; true is not 1, and 1
    is not 1.0.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        # Enumerations are texts, tuples are arrays.
        return canonical(one) == canonical(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        # -0.0 is 0.0 and nan is not nan, but for their texts.
        return repr(one) == repr(other)
    return one == other


def same_or_empty(one: object, other: object) -> bool:
    """As `same`, but null, [] and {} count as equal.

    Source: docs/spec/api, section Container requests, writes in the wrong phase.
    """
    return same(one, other) or (one in _EMPTY and other in _EMPTY)


def is_too_deep(value: object) -> bool:
    """Whether objects and arrays stand in each other deeper than MAX_DEPTH."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def ordered(value: Json) -> Json:
    """The same value with the keys of its objects sorted at every depth."""
    if isinstance(value, dict):
        return ordered_object(value)
    if isinstance(value, list):
        return [ordered(item) for item in value]
    return value


def ordered_object(value: Mapping[str, Json]) -> JsonObject:
    """`ordered` for an object."""
    return {
        key: ordered(inner) if isinstance(inner := value[key], dict | list) else inner
        for key in sorted(value)
    }


def integer(value: object) -> int | None:
    """The integer that a client meant, or None: 3, 3.0 and "3" are 3; true and "x" are not
    integers.

    Clients send numbers as text in urlencoded bodies ("0" for a priority, docs/spec/api, section
    Parameters and attributes).
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return _parse(value.strip())
    return None


def _parse(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
