"""Operands of filters: converts a client's values to the stored form.

Source: docs/spec/api, section Filters. Times become the stored text, numbers and booleans stay,
objects and arrays become compact JSON. A fault is `Invalid` (422) that names the attribute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from lading.core.errors import Invalid
from lading.core.json_values import is_too_deep
from lading.core.records.schema import JSON, Field, Type
from lading.core.timestamps import format_time, parse_time

# The largest value of a 64-bit column.
MAX_INTEGER: Final = 2**63 - 1
MAX_PATTERN: Final = 10_000
"""Maximum length of a `like` pattern, which the database matches against every row."""


def parse_operand(found: Field, value: JSON) -> JSON:
    """The operand in the form that the attribute `found` is stored in. Raises Invalid."""
    match found.type:
        case Type.TIME:
            return _moment(value, found.name)
        case Type.BOOLEAN:
            return parse_boolean(value, found.name)
        case Type.INTEGER:
            return _integer(value, found.name)
        case Type.FLOAT:
            return _real(value, found.name)
        case Type.OBJECT | Type.ARRAY:
            return _document(value, found.name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return parse_text(value, found.name, "=")


def _moment(value: JSON, name: str) -> str:
    try:
        return format_time(parse_time(parse_text(value, name, "=")))
    except (ValueError, OverflowError):
        raise Invalid(
            f"Invalid operand {shorten(value)} in filter on '{name}': not a timestamp"
        ) from None


_TRUE: Final = ("1", "t", "true", "y", "yes")
_FALSE: Final = ("0", "f", "false", "n", "no")


def parse_boolean(value: JSON, name: str) -> bool:
    """True or false, also from a number or word. Raises Invalid."""
    text = str(value).lower() if isinstance(value, str | bool | int) else ""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise Invalid(f"Invalid operand {shorten(value)} in filter on '{name}': not true or false")


def _integer(value: JSON, name: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_INTEGER:
        raise Invalid(
            f"Invalid operand {shorten(value)} in filter on '{name}': not a 64-bit integer"
        )
    return value


def _real(value: JSON, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise Invalid(
            f"Invalid operand {shorten(value)} in filter on '{name}': not a number"
        ) from None


def _document(value: JSON, name: str) -> str:
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise Invalid(f"Invalid operand {shorten(value)} in filter on '{name}': not JSON") from None
    if is_too_deep(parsed):
        raise Invalid(f"Invalid operand {shorten(value)} in filter on '{name}': nested too deep")
    return json.dumps(parsed, separators=(",", ":"), ensure_ascii=False)


def parse_text(value: JSON, name: str, operator: str) -> str:
    """The operand as a text. Raises Invalid for other types."""
    if not isinstance(value, str):
        raise Invalid(
            f"Invalid operand {shorten(value)} for '{operator}' in filter on '{name}': "
            "must be a string"
        )
    return value


def parse_pattern(value: JSON, name: str, operator: str) -> str:
    """A pattern of `like`. Raises Invalid when it is too long."""
    text = parse_text(value, name, operator)
    if len(text) > MAX_PATTERN:
        raise Invalid(
            f"Invalid operand for '{operator}' in filter on '{name}': "
            f"more than {MAX_PATTERN} characters"
        )
    return text


def parse_list(value: JSON, name: str) -> Sequence[JSON]:
    """The operand as an array. Raises Invalid for other types."""
    if not isinstance(value, list):
        raise Invalid(f"Invalid operand {shorten(value)} in filter on '{name}': must be an array")
    return value


def shorten(value: JSON) -> str:
    """A value for a message: as JSON, of at most 80 characters."""
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
