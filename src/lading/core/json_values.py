"""JSON values of records: one canonical text for each value, exact integers, and equality that
distinguishes 1 from true.

Records are compared by their canonical text (docs/spec/api, section Container requests): object
keys sorted at every depth, no blanks, integers of any size exact. Values inside records are never
changed in place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TypeAlias

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
JsonObject: TypeAlias = dict[str, Json]

MAX_DEPTH = 100
"""Maximum nesting of objects and arrays in one document. Beyond it, recursive functions might
exceed Python's limit.
"""
# MD5 of `{}`.
EMPTY_OBJECT_DIGEST = "99914b932bd37a50b983c5e7c90ae93b"
_EMPTY: tuple[Json, ...] = (None, [], {})
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: object) -> str:
    """The canonical text of a JSON value; equal values have equal texts, whatever the order of
    their keys.
    """
    return _ENCODER.encode(value)


def digest(value: object) -> str:
    """The md5 (hex) of the canonical text: `{}` is 99914b932bd37a50b983c5e7c90ae93b.

    Source: docs/spec/api, section Resolving and reuse.
    """
    return hashlib.md5(
        # surrogatepass: JSON may contain lone surrogates (RFC 8259, section 8.2), which UTF-8
        # cannot encode.
        canonical(value).encode("utf-8", "surrogatepass"),
        usedforsecurity=False,
    ).hexdigest()


def same(one: object, other: object) -> bool:
    """Whether two JSON values are equal, that is, have the same canonical text; true is not 1, and
    1 is not 1.0.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        # Different Python types may have the same JSON text: StrEnum and str, tuple and list.
        return canonical(one) == canonical(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        # By their texts -0.0 differs from 0.0, and nan equals nan.
        return repr(one) == repr(other)
    return one == other


def same_or_empty(one: object, other: object) -> bool:
    """Like `same`, but null, [] and {} are equal to each other.

    Source: docs/spec/api, section Container requests, writes in the wrong phase.
    """
    return same(one, other) or (one in _EMPTY and other in _EMPTY)


def is_too_deep(value: object) -> bool:
    """Whether objects and arrays are nested deeper than MAX_DEPTH."""
    # Level by level, without recursion: the document may be arbitrarily deep.
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
    """The integer meant by a client's value, or None: 3, 3.0 and "3" are 3; true and "x" are not
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
    # Python refuses texts of more than 4,300 digits.
    except ValueError:
        return None
