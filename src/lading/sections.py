"""Sections of a configuration: dataclasses built from plain values and exported as such.

`config` declares them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from lading.core.errors import Invalid
from lading.core.quantities import parse_duration, parse_size

_Section = TypeVar("_Section")
_TYPES: Mapping[str, Any] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": float,
    "list[str]": list[str],
    "dict[str, Any]": dict[str, Any],
    "dict[str, str | int]": dict[str, str | int],
    "dict[str, str | int | float | bool]": dict[str, str | int | float | bool],
    "dict[str, bool]": dict[str, bool],
    "dict[str, dict[str, bool]]": dict[str, dict[str, bool]],
    "dict[str, int]": dict[str, int],
    "dict[str, float]": dict[str, float],
    "dict[str, str]": dict[str, str],
    "dict[str, dict[str, Any]]": dict[str, dict[str, Any]],
}


@dataclass(frozen=True, slots=True)
class SectionLayout:
    """The keys that are sections. `inside`: by the name of a section, its keys; `each`: top-level
    keys with many sections.
    """

    inside: Mapping[str, Mapping[str, type[Any]]]
    each: Mapping[str, type[Any]]


def key(default: Any, doc: str, *, private: bool = False, unit: str = "") -> Any:
    """Declare one configuration key.

    `doc` is one sentence for the reference; a `private` key is never exported to clients; `unit` is
    "bytes" or "seconds" for numbers that a file may write with a suffix.
    """
    metadata = {"doc": doc, "private": private, "unit": unit}
    if isinstance(default, dict | list):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`base` updated with the values of `top`; nested mappings are merged alike."""
    merged = dict(base)
    for name, value in top.items():
        old = merged.get(name)
        merged[name] = (
            merge(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
        )
    return merged


def build(
    layout: SectionLayout, section: type[_Section], raw: Mapping[str, Any], prefix: str = ""
) -> _Section:
    """The section with the values in `raw` and defaults for the rest. Raises Invalid naming the
    key.
    """
    declared = {one.name: one for one in dataclasses.fields(section)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    inside = layout.inside.get(section.__name__, {})
    for name, value in raw.items():
        where = f"{prefix}{name}"
        if name not in declared:
            raise Invalid(
                f"configuration: unknown key {where}; known here: {', '.join(sorted(declared))}"
            )
        kind = inside.get(name)
        each = None if prefix else layout.each.get(name)
        if each:
            values[name] = _build_each(layout, each, value, where)
        else:
            values[name] = (
                _build_section(layout, kind, value, where)
                if kind
                else _convert(declared[name], value, where)
            )
    return section(**values)


def _build_section(layout: SectionLayout, kind: type[Any], value: object, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise Invalid(f"configuration: {where} must be a mapping of keys")
    return build(layout, kind, value, f"{where}.")


def _build_each(
    layout: SectionLayout, kind: type[_Section], value: object, where: str
) -> dict[str, _Section]:
    if not isinstance(value, Mapping):
        raise Invalid(f"configuration: {where} must be a mapping of keys")
    return {
        str(name): _build_section(layout, kind, one, f"{where}.{name}")
        for name, one in value.items()
    }


def _convert(declared: dataclasses.Field[Any], value: Any, where: str) -> Any:
    unit = declared.metadata.get("unit")
    try:
        if unit == "bytes":
            return parse_size(msgspec.convert(value, int | str))
        if unit == "seconds":
            return parse_duration(msgspec.convert(value, float | str))
        return msgspec.convert(value, _TYPES[str(declared.type)])
    except (Invalid, msgspec.ValidationError, TypeError) as error:
        raise Invalid(f"configuration: {where}: {error}") from error


def export(layout: SectionLayout, section: Any) -> dict[str, Any]:
    """The keys of a section that are not private, as plain values."""
    shown: dict[str, Any] = {}
    for one in dataclasses.fields(section):
        if one.metadata.get("private"):
            continue
        value = getattr(section, one.name)
        if dataclasses.is_dataclass(value):
            shown[one.name] = export(layout, value)
        elif one.name in layout.each:
            shown[one.name] = {name: export(layout, each) for name, each in value.items()}
        elif one.metadata.get("unit") == "seconds":
            shown[one.name] = f"{value:.15g}s"
        else:
            shown[one.name] = value
    return shown
