"""Dataclasses with other attributes: what `dataclasses.replace` does, for those that every call replaces many times."""

from __future__ import annotations

import dataclasses
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

_Value = TypeVar("_Value")


def altered(value: _Value, /, **attributes: object) -> _Value:
    """A copy of a dataclass, which may be frozen, with these attributes; nothing is checked or computed anew.

    Raises TypeError for an attribute that it does not have.
    """
    kind = type(value)
    names, read = _parts(kind)  # type: ignore[arg-type]
    if not attributes.keys() <= names.keys():
        raise TypeError(f"{kind.__name__} has no {', '.join(sorted(attributes.keys() - names.keys()))}")
    made: _Value = object.__new__(kind)
    for write, part in zip(names.values(), read(value), strict=True):
        write(made, part)
    for name, part in attributes.items():
        names[name](made, part)
    return made


@cache
def _parts(kind: type[Any]) -> tuple[dict[str, Any], Any]:
    """How each attribute of a dataclass with slots is written, and how all are read (two or more)."""
    names = [one.name for one in dataclasses.fields(kind)]
    return {name: getattr(kind, name).__set__ for name in names}, attrgetter(*names)
