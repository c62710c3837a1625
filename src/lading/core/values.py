"""JSON values of records: canonical text, equality, differences, and checks of types and bounds.

Records are compared by their canonical text (docs/spec/api, section Container requests): object
keys sorted at every depth, no blanks, integers of any size exact; 1 differs from true. Values
inside records are never changed in place. Differences are listed place by place, in the notation of
users: `mounts./in.uuid`, `command[3]`.

Each check takes the name of an attribute and a value that is not null, and returns the value to
store (numbers sent as text become numbers). Faults raise Invalid, which names the attribute as
clients know it: "Output ttl ...".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from lading.core.errors import Failure, Invalid
from lading.core.ids import is_pdh
from lading.core.quantities import format_time, parse_time, show_bytes

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
# Characters of a value in a message.
_LONGEST = 60
Check: TypeAlias = Callable[[str, Json], Json]
STATUS_TEXTS = (
    "error",
    "errorDetail",
    "warning",
    "warningDetail",
    "activity",
    "preemptionNotice",
    "failure",
)
"""Keys of `runtime_status` that must be strings (docs/spec/api, section Containers)."""


def canonical(value: object) -> str:
    """The canonical text of a JSON value; equal values have equal texts, independent of the order
    of keys.
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


def same(left: object, right: object) -> bool:
    """Whether two JSON values are equal, that is, have the same canonical text; true is not 1, and
    1 is not 1.0.
    """
    if left is right:
        return True
    if left is None or right is None:
        return False
    # A StrEnum has the text of its value. Encoding either value takes ten times as long.
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    if type(left) is not type(right):
        # Different Python types may have the same JSON text: int and IntEnum, tuple and list.
        return canonical(left) == canonical(right)
    return _same_of_type(left, right)


def _same_of_type(left: object, right: object) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        # By their texts -0.0 differs from 0.0, and nan equals nan.
        return repr(left) == repr(right)
    return left == right


def same_or_empty(left: object, right: object) -> bool:
    """Like `same`, but null, [] and {} are equal to each other.

    Source: docs/spec/api, section Container requests, writes in the wrong phase.
    """
    return same(left, right) or (left in _EMPTY and right in _EMPTY)


def is_too_deep(value: object) -> bool:
    """Whether objects and arrays are nested deeper than MAX_DEPTH."""
    # Level by level, without recursion: the document may be arbitrarily deep.
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for nested in level
            for inner in (nested.values() if isinstance(nested, dict) else nested)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def has_nul(value: object) -> bool:
    """Whether a text or a key in a value, at any depth, has a NUL character, which PostgreSQL does
    not store.
    """
    # Without recursion, as `is_too_deep`.
    left = [value]
    while left:
        inner = left.pop()
        if isinstance(inner, str):
            if "\0" in inner:
                return True
        elif isinstance(inner, dict):
            left += [*inner, *inner.values()]
        elif isinstance(inner, list):
            left += inner
    return False


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


def _parse(digits: str) -> int | None:
    try:
        return int(digits)
    # Python refuses texts of more than 4,300 digits.
    except ValueError:
        return None


class FieldDifference(msgspec.Struct, frozen=True):
    """One place where two values differ; None stands for an absent value."""

    field: str
    ours: Json
    theirs: Json

    def __str__(self) -> str:
        return (
            f"{self.field} differs ({_brief(self.ours)} is asked for, it has {_brief(self.theirs)})"
        )


def differing(field: str, ours: Json, theirs: Json) -> Iterator[FieldDifference]:
    """All differences between two values of `field`, in order."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        yield from _differing_members(field, ours, theirs)
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from _differing_elements(field, ours, theirs)
    elif not same(ours, theirs):
        yield _veiled(FieldDifference(field, ours, theirs))


def _differing_members(
    field: str, ours: JsonObject, theirs: JsonObject
) -> Iterator[FieldDifference]:
    for key in sorted(ours.keys() | theirs.keys()):
        if key in ours and key in theirs:
            yield from differing(f"{field}.{key}", ours[key], theirs[key])
        else:
            yield FieldDifference(f"{field}.{key}", ours.get(key), theirs.get(key))


def _differing_elements(
    field: str, ours: list[Json], theirs: list[Json]
) -> Iterator[FieldDifference]:
    shared = min(len(ours), len(theirs))
    for position in range(shared):
        yield from differing(f"{field}[{position}]", ours[position], theirs[position])
    for position, element in enumerate(ours[shared:], shared):
        yield FieldDifference(f"{field}[{position}]", element, None)
    for position, element in enumerate(theirs[shared:], shared):
        yield FieldDifference(f"{field}[{position}]", None, element)


def _veiled(difference: FieldDifference) -> FieldDifference:
    """The difference without secrets: only that they differ may be reported."""
    if difference.field != "secret_mounts_md5":
        return difference
    return FieldDifference("secret_mounts", "(secret)", "(another secret)")


def _brief(value: Json) -> str:
    if value is None:
        return "nothing"
    text = canonical(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def humanised(name: str) -> str:
    """The attribute's name for error messages: "Output path" for `output_path`."""
    return name.replace("_", " ").capitalize()


def printable(value: str) -> str:
    """A client's text for an error message: on one line, at most 80 characters."""
    shown = value if value.isprintable() else show_bytes(repr(value))
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def text(name: str, value: Json) -> Json:
    """A string without NUL."""
    if not isinstance(value, str):
        raise Invalid(f"{humanised(name)} must be a string")
    if "\0" in value:
        raise Invalid(f"{humanised(name)} cannot contain NUL")
    return value


def flag(name: str, value: Json) -> Json:
    """A boolean; forms send it as text."""
    # Forms and query strings have no booleans.
    if value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        raise Invalid(f"{humanised(name)} must be true or false")
    return value


def whole(least: int, most: int | None = None) -> Check:
    """An integer from `least` to `most`."""

    def check(name: str, value: Json) -> Json:
        number = integer(value)
        if number is None:
            raise Invalid(f"{humanised(name)} must be an integer")
        if number < least:
            raise Invalid(f"{humanised(name)} must be greater than or equal to {least}")
        if most is not None and number > most:
            raise Invalid(f"{humanised(name)} must be less than or equal to {most}")
        return number

    return check


def between(least: float, most: float) -> Check:
    """A number from `least` to `most`."""

    def check(name: str, value: Json) -> Json:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Invalid(f"{humanised(name)} must be a number")
        if not least <= value <= most:
            raise Invalid(f"{humanised(name)} must be a number from {least:g} to {most:g}")
        return float(value)

    return check


def amounts(name: str, value: Json) -> Json:
    """An object of numbers that are not negative."""
    for key, amount in as_object(name, value).items():
        between(0, 1e18)(f"{name} [{key}]", amount)
    return value


def json_object(name: str, value: Json) -> Json:
    """An object."""
    return as_object(name, value)


def as_object(name: str, value: Json) -> JsonObject:
    """`json_object`, typed."""
    if not isinstance(value, dict):
        raise Invalid(f"{humanised(name)} must be an object")
    return value


def strings(name: str, value: Json) -> Json:
    """An array of strings."""
    if not isinstance(value, list):
        raise Invalid(f"{humanised(name)} must be an array of strings")
    for position, item in enumerate(value):
        if not isinstance(item, str):
            raise Invalid(
                f"{humanised(name)} must be an array of strings: element {position} is not a string"
            )
    return value


def nonempty_strings(name: str, value: Json) -> Json:
    """An array of strings that are not empty."""
    checked = strings(name, value)
    if isinstance(checked, list) and "" in checked:
        raise Invalid(f"{humanised(name)} must be an array of non-empty strings")
    return checked


def moment(name: str, value: Json) -> Json:
    """A timestamp, stored the way the API shows it."""
    try:
        return format_time(parse_time(str(text(name, value))))
    except (ValueError, OverflowError):
        raise Invalid(
            f"{humanised(name)} must be a timestamp such as 2026-01-02T03:04:05Z"
        ) from None


def pdh(name: str, value: Json) -> Json:
    """A portable data hash."""
    if not isinstance(value, str) or not is_pdh(value):
        raise Invalid(
            f"{humanised(name)} must be a portable data hash such as "
            "d41d8cd98f00b204e9800998ecf8427e+0"
        )
    return value


def runtime_status(name: str, value: Json) -> Json:
    """The status of a running container: free, but for the well-known keys."""
    status = as_object(name, value)
    for key in STATUS_TEXTS:
        if key in status and not isinstance(status[key], str):
            raise Invalid(f"{humanised(name)} [{key}]: incompatible value type: string required")
    if status.get("failure", "user") not in tuple(Failure):
        raise Invalid(f"{humanised(name)} [failure]: must be one of {', '.join(Failure)}")
    return value


def environment(name: str, value: Json) -> Json:
    """Environment variables (docs/spec/api, section Container requests)."""
    for key, item in as_object(name, value).items():
        if not key or "\0" in key or "=" in key:
            raise Invalid(
                f"{humanised(name)} [{key!r}]: a name cannot be empty nor contain NUL or '='"
            )
        if not isinstance(item, str):
            raise Invalid(
                f"{humanised(name)} [{printable(key)}]: incompatible value type: string required"
            )
        if "\0" in item:
            raise Invalid(f"{humanised(name)} [{printable(key)}]: a value cannot contain NUL")
    return value
