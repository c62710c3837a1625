"""Sections of a configuration: dataclasses built from plain values and exported as such.

The annotations of a dataclass give the type of each key. A key whose type is a dataclass is a
section; one of type `dict[str, D]` with a dataclass `D` has any number of sections, by names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, TypeGuard, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from lading.core.errors import Invalid
from lading.core.quantities import parse_duration, parse_size

_Section = TypeVar("_Section")


def key(default: Any, doc: str, *, private: bool = False, unit: str = "") -> Any:
    """Declare one configuration key.

    `doc` is one sentence for the reference; a `private` key is never exported to clients; `unit` is
    "bytes" or "seconds" for numbers that a file may write with a suffix.
    """
    metadata = {"doc": doc, "private": private, "unit": unit}
    if isinstance(default, dict | list):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def section(kind: type[_Section], *, private: bool = False) -> _Section:
    """Declare a section of keys; its dataclass `kind` has their defaults and its docstring is that
    of the reference. A `private` section is never exported to clients.
    """
    metadata = {"doc": kind.__doc__, "private": private}
    declared: _Section = field(default_factory=kind, metadata=metadata)
    return declared


def merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`base` updated with the values of `top`; nested mappings are merged alike."""
    merged = dict(base)
    for name, value in top.items():
        old = merged.get(name)
        merged[name] = (
            merge(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
        )
    return merged


def without(
    raw: Mapping[str, Any], names: Collection[str], prefix: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """The values of `raw` without the keys `names`, such as `API.RequestTimeout`, and the names of
    the keys that were left out. `prefix` begins the names of the keys of `raw`.
    """
    remaining: dict[str, Any] = {}
    present: list[str] = []
    for name, value in raw.items():
        path = f"{prefix}{name}"
        if path in names:
            present.append(path)
        elif isinstance(value, Mapping):
            remaining[name], inner = without(value, names, f"{path}.")
            present.extend(inner)
        else:
            remaining[name] = value
    return remaining, present


def build(kind: type[_Section], raw: Mapping[str, Any], prefix: str = "") -> _Section:
    """The section `kind` with the values in `raw` and defaults for the others; `prefix` begins the
    names of its keys in errors. Raises Invalid naming the key.
    """
    types = get_type_hints(kind) if raw else {}
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    units = {each.name: each.metadata.get("unit", "") for each in fields}
    values: dict[str, Any] = {}
    for name, value in raw.items():
        path = f"{prefix}{name}"
        if name not in units:
            names = ", ".join(sorted(units))
            raise Invalid(f"configuration: unknown key {path}; known here: {names}")
        values[name] = _value(value, types[name], units[name], path)
    return kind(**values)


def _value(value: object, declared: Any, unit: str, path: str) -> Any:
    if _is_section(declared):
        return build(declared, _mapping(value, path), f"{path}.")
    kinds = get_args(declared)[1:] if get_origin(declared) is dict else ()
    if kinds and _is_section(kinds[0]):
        return {
            str(name): build(kinds[0], _mapping(keys, f"{path}.{name}"), f"{path}.{name}.")
            for name, keys in _mapping(value, path).items()
        }
    return _convert(value, declared, unit, path)


def _is_section(declared: Any) -> TypeGuard[type[Any]]:
    return isinstance(declared, type) and dataclasses.is_dataclass(declared)


def _mapping(value: object, path: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"configuration: {path} must be a mapping of keys")
    return value


def _convert(value: Any, declared: Any, unit: str, path: str) -> Any:
    try:
        if unit == "bytes":
            return parse_size(msgspec.convert(value, int | str))
        if unit == "seconds":
            return parse_duration(msgspec.convert(value, float | str))
        return msgspec.convert(value, declared)
    except (Invalid, msgspec.ValidationError, TypeError) as error:
        raise Invalid(f"configuration: {path}: {error}") from error


def export(keys: Any) -> dict[str, Any]:
    """The keys of a section that are not private, as plain values."""
    return {
        declared.name: _plain(getattr(keys, declared.name), declared.metadata.get("unit", ""))
        for declared in dataclasses.fields(keys)
        if not declared.metadata.get("private")
    }


def _plain(value: Any, unit: str) -> Any:
    if dataclasses.is_dataclass(value):
        return export(value)
    if isinstance(value, dict):
        return {name: _plain(inner, "") for name, inner in value.items()}
    return f"{value:.15g}s" if unit == "seconds" else value
