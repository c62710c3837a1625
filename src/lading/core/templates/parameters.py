"""The parameters of a template: a JSON Schema 2020-12, and the check of values by it.

The schema of a parameter has some keywords of JSON Schema alone, so that a check takes little and
bounded time: `type`, `format`, `default`, `title`, `description`, `enum`, `minimum`, `maximum`,
`minLength`, `maxLength` and one `pattern`. Two formats are of Lading:

| format | type | value |
|---|---|---|
| `lading-input` | string | `HASH`, `UUID`, `HASH/PATH` or `UUID/PATH` of a collection |
| `cwl-file` | object | a File or Directory of CWL; a reference as above becomes one |

A value is checked before it is put anywhere. Source: docs/spec/templates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lading.core.errors import Invalid
from lading.core.ids import Infix, is_pdh, is_uuid
from lading.core.quantities import shorten
from lading.core.runs.report import show_value
from lading.core.values import is_too_deep, same

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
INPUT: Final = "lading-input"
CWL_FILE: Final = "cwl-file"
NO_OPTION: Final = "^[^-]"
"""The pattern of a text that no program takes for an option."""
MOST_PARAMETERS: Final = 100
LONGEST: Final = 4096
"""Characters of a text, of a value as JSON, and of a description."""
_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array")
_CLASSES: Final = ("File", "Directory")
_FORMATS: Final = {INPUT: "string", CWL_FILE: "object"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength")
_KEYWORDS: Final = (
    "type", "format", "default", "title", "description", "enum", *_BOUNDS, "pattern",
)  # fmt: skip
_SHOWN: Final = 60
_MOST_CHOICES: Final = 1000


def check_name(name: str) -> str:
    """The name of a parameter. Raises Invalid."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"parameter {shorten(name, _SHOWN)!r}: a name has letters, digits, '_', '-' and '.', "
            "64 at most, and begins with a letter"
        )
    return name


def schema_of(value: object) -> dict[str, Any]:
    """The schema of a parameter with this value as its default."""
    kind = "object"
    match value:
        case bool():
            kind = "boolean"
        case int():
            kind = "integer"
        case float():
            kind = "number"
        case str():
            kind = "string"
        case list():
            kind = "array"
        case Mapping() if value.get("class") in ("File", "Directory"):
            return {"type": "object", "format": CWL_FILE, "default": value}
    return {"type": kind, "default": value}


def whole_schema(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of all values together. Values without a default are required."""
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": {name: dict(schema) for name, schema in properties.items()},
        "required": [name for name, schema in properties.items() if "default" not in schema],
        "additionalProperties": False,
    }


def read_properties(schema: object) -> dict[str, dict[str, Any]]:
    """The schemas of the parameters of a whole schema, checked. Raises Invalid."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or len(properties) > MOST_PARAMETERS:
        raise Invalid(f"parameters: must be an object with {MOST_PARAMETERS} properties at most")
    return {
        check_name(str(name)): check_schema(str(name), schema)
        for name, schema in properties.items()
    }


def check_schema(name: str, schema: object) -> dict[str, Any]:
    """The schema of one parameter. Raises Invalid for a keyword that is not known here."""
    if not isinstance(schema, Mapping):
        raise Invalid(f"parameter {name}: its schema must be an object")
    unknown = next((key for key in schema if key not in _KEYWORDS), None)
    if unknown is not None:
        raise Invalid(
            f"parameter {name}: the keyword {shorten(str(unknown), 40)!r} is not used here; "
            f"these are: {', '.join(_KEYWORDS)}"
        )
    checked = dict(schema)
    _check_type(name, checked)
    for key in _BOUNDS:
        _check_bound(name, key, checked.get(key, 0))
    for key in ("title", "description"):
        words = checked.get(key, "")
        if not isinstance(words, str) or len(words) > LONGEST:
            raise Invalid(f"parameter {name}: {key} must be a text of {LONGEST:,} characters")
    if checked.get("pattern", NO_OPTION) != NO_OPTION:
        raise Invalid(f"parameter {name}: the only pattern that is used here is {NO_OPTION}")
    if "enum" in checked:
        _check_choices(name, checked)
    # An input of a CWL workflow that may be left out has null as its default.
    if checked.get("default") is not None:
        check_value(name, checked["default"], checked)
    return checked


def _check_bound(name: str, key: str, bound: object) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not _finite(bound):
        raise Invalid(f"parameter {name}: {key} must be a number")


def _check_choices(name: str, schema: Mapping[str, Any]) -> None:
    choices = schema["enum"]
    if not isinstance(choices, list) or not 0 < len(choices) <= _MOST_CHOICES:
        raise Invalid(f"parameter {name}: enum must be a list of 1 to {_MOST_CHOICES:,} values")
    plain = {key: value for key, value in schema.items() if key not in ("enum", "default")}
    for choice in choices:
        check_value(name, choice, plain)


def _check_type(name: str, schema: Mapping[str, Any]) -> None:
    kind, form = schema.get("type"), schema.get("format")
    if kind not in _TYPES:
        raise Invalid(f"parameter {name}: type must be one of {', '.join(_TYPES)}")
    if form is not None and (not isinstance(form, str) or _FORMATS.get(form) != kind):
        known = ", ".join(f"{own} of {of}" for own, of in _FORMATS.items())
        raise Invalid(f"parameter {name}: this format is not used here; these are: {known}")


def check_values(
    properties: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of all parameters: `values`, else the defaults. Raises Invalid naming the first
    that is unknown, missing or wrong.
    """
    unknown = next((name for name in values if name not in properties), None)
    if unknown is not None:
        known = ", ".join(properties) or "none"
        raise Invalid(
            f"{shorten(unknown, _SHOWN)}: is no parameter of this template; it has: {known[:180]}"
        )
    checked: dict[str, Any] = {}
    for name, schema in properties.items():
        if name in values:
            checked[name] = check_value(name, values[name], schema)
        elif "default" in schema:
            checked[name] = schema["default"]
        else:
            raise Invalid(f"{name}: has no default; give it a value, as {name}=VALUE")
    return checked


def check_value(name: str, value: object, schema: Mapping[str, Any]) -> Any:
    """The value of a parameter, as it is used: a text of a number is none. Raises Invalid."""
    checked = _of_type(name, value, schema)
    if "enum" in schema and not any(same(checked, choice) for choice in schema["enum"]):
        choices = shorten(", ".join(show_value(choice) for choice in schema["enum"]), 180)
        raise Invalid(f"{name}: {_shown(value)} is none of {choices}")
    if isinstance(checked, str):
        _check_text(name, checked, schema)
    elif isinstance(checked, int | float) and not isinstance(checked, bool):
        _check_number(name, checked, schema)
    else:
        _check_size(name, checked)
    return checked


def _of_type(name: str, value: object, schema: Mapping[str, Any]) -> Any:
    kind, form = schema["type"], schema.get("format")
    if form == CWL_FILE and isinstance(value, str):
        return _cwl_file(name, value)
    fits = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "object": isinstance(value, Mapping),
        "array": isinstance(value, list),
    }
    if not fits[kind]:
        raise Invalid(f"{name}: {_shown(value)} is of the wrong type; it must be of type {kind}")
    if form == INPUT:
        read_reference(name, str(value))
    if form == CWL_FILE and isinstance(value, Mapping) and value.get("class") not in _CLASSES:
        raise Invalid(f"{name}: must be a File or Directory of CWL, or HASH/PATH")
    return value


def read_reference(name: str, reference: str) -> tuple[str, str]:
    """The hash or uuid of a collection and the path in it, "" for all of it. Raises Invalid."""
    collection, _, path = reference.removeprefix("keep:").partition("/")
    if not (is_pdh(collection) or is_uuid(collection, Infix.COLLECTION)):
        raise Invalid(
            f"{name}: {_shown(reference)} is no input; give the hash or uuid of a collection, "
            "/PATH for a part of it"
        )
    path = path.strip("/")
    if path and not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise Invalid(f"{name}: the path of an input has no '.', '..' or empty part")
    return collection, path


def _cwl_file(name: str, reference: str) -> dict[str, Any]:
    collection, path = read_reference(name, reference)
    if not is_pdh(collection):
        raise Invalid(f"{name}: a workflow takes a file by the hash of its collection, HASH/PATH")
    location = f"keep:{collection}/{path}" if path else f"keep:{collection}"
    return {"class": "File" if path else "Directory", "location": location}


def _check_text(name: str, value: str, schema: Mapping[str, Any]) -> None:
    most = min(LONGEST, schema.get("maxLength", LONGEST))
    if not schema.get("minLength", 0) <= len(value) <= most:
        least = schema.get("minLength", 0)
        raise Invalid(f"{name}: has {len(value):,} characters; {least} to {most:,} are possible")
    if "\0" in value:
        raise Invalid(f"{name}: has a character of code 0, which no program can take")
    if "pattern" in schema and (not value or value.startswith("-")):
        raise Invalid(
            f"{name}: {_shown(value)} is empty or begins with '-', so that a program could take "
            "it for an option"
        )


def _check_number(name: str, number: float, schema: Mapping[str, Any]) -> None:
    if not _finite(number):
        raise Invalid(f"{name}: must be a finite number")
    if "minimum" in schema and number < schema["minimum"]:
        raise Invalid(
            f"{name}: {_shown(number)} is below {show_value(schema['minimum'])}, the least"
        )
    if "maximum" in schema and number > schema["maximum"]:
        raise Invalid(
            f"{name}: {_shown(number)} is above {show_value(schema['maximum'])}, the most"
        )


def _check_size(name: str, value: object) -> None:
    if is_too_deep(value) or len(show_value(value)) > LONGEST * 4:
        raise Invalid(f"{name}: is nested too deep, or longer than {LONGEST * 4:,} characters")


def _finite(number: float) -> bool:
    # An integer has any size, and programs take 64 bits.
    return number.bit_length() <= 63 if isinstance(number, int) else math.isfinite(number)


def parse_value(name: str, written: str, schema: Mapping[str, Any]) -> Any:
    """The value that a text means, as of a form or a command line, not checked: a text stays one
    for a parameter that is one. Raises Invalid.
    """
    kind = schema["type"]
    if kind == "string" or (schema.get("format") == CWL_FILE and not written.startswith("{")):
        return written
    try:
        value = msgspec.json.decode(written)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Invalid(
            f"{name}: {_shown(written)} is of the wrong type; it must be of type {kind}"
        ) from None
    # JSON has one type of numbers: 2.0 is 2.
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _shown(value: object) -> str:
    return repr(shorten(show_value(value), _SHOWN))
