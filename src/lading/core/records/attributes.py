"""Values that clients send for attributes and in filters: names, types, and the stored form.

- Attributes (docs/spec/api, section Parameters and attributes): clients send whole records back, so
  a value equal to the stored one is never an error, and some attributes are dropped silently. Types
  are checked here; the meaning of a value is checked by the rules of its record type.
- Operands of filters (docs/spec/api, section Filters): times become the stored text, numbers and
  booleans stay, objects and arrays become compact JSON. A fault is `Invalid` (422) that names the
  attribute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from lading.core import ids
from lading.core.errors import Forbidden, Invalid
from lading.core.quantities import format_time, parse_time
from lading.core.records.schema import JSON, Field, Record, RecordType, Type
from lading.core.values import has_nul, is_too_deep

MAX_LOOKED_UP: Final = 1024
"""Bytes of an indexed text; 255 characters of any script fit. PostgreSQL refuses index entries of
more than a third of a page.
"""
# Real numbers beyond are refused: JSON writers of clients may turn them into infinity.
MAX_REAL: Final = 1e300
# Attributes of whole records that clients send back, and that mean nothing here.
_DROPPED: Final = frozenset({"href", "modified_by_client_uuid", "kind", "etag"})
# The largest value of a 64-bit column.
MAX_INTEGER: Final = 2**63 - 1
MAX_PATTERN: Final = 10_000
"""Maximum length of a `like` pattern, which the database matches against every row."""
_TRUE: Final = ("1", "t", "true", "y", "yes")
_FALSE: Final = ("0", "f", "false", "n", "no")


def check(
    attributes: Mapping[str, JSON],
    kind: RecordType,
    *,
    stored: Record | None,
    admin: bool,
    cluster: str,
) -> Record:
    """The attributes to write, converted to their types.

    `stored` is the present record, None on create. Raises Invalid naming the attribute, Forbidden
    for a `uuid` that only an admin may choose.
    """
    checked: Record = {}
    for name, value in attributes.items():
        field = kind.by_name.get(name)
        if name in _DROPPED or (field is not None and field.fixed):
            continue
        if field is None or field.hidden:
            raise Invalid(f"unknown attribute '{name}' for {kind.schema}.")
        if name == "uuid":
            _check_uuid(value, kind, stored=stored, admin=admin, cluster=cluster)
            if stored is None and value is not None:
                checked[name] = value
        elif field.readonly:
            _check_readonly(field, value, stored)
        else:
            checked[name] = convert(field, value)
            if name in kind.looked_up:
                _check_length(name, checked[name], stored=stored)
    return checked


def convert(field: Field, value: JSON) -> JSON:
    """The value in the form that the field stores. Raises Invalid naming the field."""
    if value is None:
        return _null(field)
    match field.type:
        case Type.STRING:
            return _string(field.name, value)
        case Type.INTEGER:
            return _integer(field.name, value)
        case Type.FLOAT:
            return _real(field.name, value)
        case Type.BOOLEAN:
            return _boolean(field.name, value)
        case Type.TIME:
            return moment(field.name, value)
        case Type.OBJECT if isinstance(value, dict):
            return _nested(field.name, value)
        case Type.ARRAY if isinstance(value, list):
            return _nested(field.name, value)
    raise Invalid(f"{field.name}: must be an {field.type}, not {_kind(value)}")


def moment(name: str, value: JSON) -> str:
    """A timestamp in its stored form. Raises Invalid naming the field."""
    try:
        return format_time(parse_time(_string(name, value)))
    except (ValueError, OverflowError):
        raise Invalid(
            f"{name}: {value!r} is not a timestamp, such as 2026-01-31T12:00:00Z"
        ) from None


def _check_uuid(
    value: JSON, kind: RecordType, *, stored: Record | None, admin: bool, cluster: str
) -> None:
    if stored is not None:
        if value != stored["uuid"]:
            raise Invalid("Uuid change not permitted")
        return
    if value is None:
        return
    if not admin:
        raise Forbidden("Forbidden: uuid: Uuid assignment not permitted")
    if not isinstance(value, str) or not ids.is_uuid(value) or not value.startswith(f"{cluster}-"):
        raise Invalid(f"uuid: {value!r} is not a uuid of this cluster")
    if ids.infix_of(value) != kind.infix:
        raise Invalid(f"Uuid type field is '{ids.infix_of(value)}', expected '{kind.infix}'")


def _check_length(name: str, value: JSON, *, stored: Record | None) -> None:
    """Raise Invalid for an indexed text that is too long for an index of either database."""
    # An unchanged long value was stored before the limit existed, and stays writable.
    if stored is not None and stored[name] == value:
        return
    size = len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 0
    if size > MAX_LOOKED_UP:
        raise Invalid(
            f"{name}: has {size} bytes; records are looked up by it, "
            f"so that it may have {MAX_LOOKED_UP}"
        )


def _check_readonly(field: Field, value: JSON, stored: Record | None) -> None:
    if field.derived or value is None or (stored is None and value == field.default):
        return
    if stored is None or value != stored[field.name]:
        raise Invalid(f"{field.name}: only the server sets it; leave it out")


def _null(field: Field) -> JSON:
    # Null means empty for objects and arrays.
    if field.null and not field.nested:
        return None
    return field.default


def _nested(name: str, value: JSON) -> JSON:
    if has_nul(value):
        raise Invalid(f"{name}: must not contain a NUL character")
    return value


def _string(name: str, value: JSON) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{name}: must be a string, not {_kind(value)}")
    if "\0" in value:
        raise Invalid(f"{name}: must not contain a NUL character")
    return value


def _integer(name: str, value: JSON) -> int:
    if (
        isinstance(value, str)
        and value.removeprefix("-").isascii()
        and value.removeprefix("-").isdigit()
    ):
        # More than 19 digits never fit; int() of a very long text would be slow.
        value = int(value) if len(value) < 20 else MAX_INTEGER + 1
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid(f"{name}: must be a whole number, not {_kind(value)}")
    if abs(value) > MAX_INTEGER:
        raise Invalid(f"{name}: must fit into 64 bits")
    return value


def _real(name: str, value: JSON) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Invalid(f"{name}: must be a number, not {_kind(value)}")
    if not -MAX_REAL <= value <= MAX_REAL:
        raise Invalid(f"{name}: must be a number from {-MAX_REAL:g} to {MAX_REAL:g}")
    return float(value)


def _boolean(name: str, value: JSON) -> bool:
    if value in (True, "true", "1"):
        return True
    if value in (False, "false", "0"):
        return False
    raise Invalid(f"{name}: must be true or false, not {_kind(value)}")


def _kind(value: JSON) -> str:
    for kind, name in (
        (bool, "a boolean"),
        # A boolean is an integer in Python, so it is tested first.
        (str, "a string"),
        (dict, "an object"),
        (list, "an array"),
    ):
        if isinstance(value, kind):
            return name
    return "a number" if value is not None else "null"


def parse_operand(field: Field, value: JSON) -> JSON:
    """The operand in the form that the attribute `field` is stored in. Raises Invalid."""
    match field.type:
        case Type.TIME:
            return _moment(value, field.name)
        case Type.BOOLEAN:
            return parse_boolean(value, field.name)
        case Type.INTEGER:
            return _integer_operand(value, field.name)
        case Type.FLOAT:
            return _real_operand(value, field.name)
        case Type.OBJECT | Type.ARRAY:
            return _document(value, field.name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return parse_text(value, field.name, "=")


def _moment(value: JSON, name: str) -> str:
    try:
        return format_time(parse_time(parse_text(value, name, "=")))
    except (ValueError, OverflowError):
        raise Invalid(
            f"Invalid operand {shorten(value)} in filter on '{name}': not a timestamp"
        ) from None


def parse_boolean(value: JSON, name: str) -> bool:
    """True or false, also from a number or word. Raises Invalid."""
    text = str(value).lower() if isinstance(value, str | bool | int) else ""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise Invalid(f"Invalid operand {shorten(value)} in filter on '{name}': not true or false")


def _integer_operand(value: JSON, name: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_INTEGER:
        raise Invalid(
            f"Invalid operand {shorten(value)} in filter on '{name}': not a 64-bit integer"
        )
    return value


def _real_operand(value: JSON, name: str) -> float:
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
    pattern = parse_text(value, name, operator)
    if len(pattern) > MAX_PATTERN:
        raise Invalid(
            f"Invalid operand for '{operator}' in filter on '{name}': "
            f"more than {MAX_PATTERN} characters"
        )
    return pattern


def parse_list(value: JSON, name: str) -> Sequence[JSON]:
    """The operand as an array. Raises Invalid for other types."""
    if not isinstance(value, list):
        raise Invalid(f"Invalid operand {shorten(value)} in filter on '{name}': must be an array")
    return value


def shorten(value: JSON) -> str:
    """A value for a message: as JSON, of at most 80 characters."""
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def distinct_name(name: str, uuid: str) -> str:
    """The name of a record whose own name is taken: with the end of its uuid, 255 characters at
    most (docs/spec/api, section Records).
    """
    # 237 + " (" + 15 + ")" = 255, the longest name.
    return f"{name[:237]} ({uuid[-15:]})"
