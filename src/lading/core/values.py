"""Checks of single attributes: type and bounds of a JSON value.

Each check takes the attribute's name and a value that is not null, and returns the value to store
(numbers sent as text become numbers). Faults raise Invalid, which names the attribute as clients
know it: "Output ttl ...".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lading.core.errors import Failure, Invalid
from lading.core.ids import is_pdh
from lading.core.json_values import Json, JsonObject, integer
from lading.core.timestamps import format_time, parse_time

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


def humanised(name: str) -> str:
    """The attribute's name for error messages: "Output path" for `output_path`."""
    return name.replace("_", " ").capitalize()


def printable(text: str) -> str:
    """A client's text for an error message: on one line, at most 80 characters."""
    shown = text if text.isprintable() else repr(text)
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
