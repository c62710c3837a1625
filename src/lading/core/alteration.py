"""Dataclasses made without their `__init__`, which sets attribute by attribute: those that every
call makes many of.

They have slots and may be frozen. The descriptors of these write them, in loops that are not those
of Python.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import repeat
from operator import attrgetter, call
from typing import Any, TypeVar

_Value = TypeVar("_Value")


def altered(value: _Value, /, **attributes: object) -> _Value:
    """A copy with these attributes, as `dataclasses.replace` makes it; nothing is checked or
    computed anew.

    Raises TypeError for an attribute that it does not have.
    """
    kind = type(value)
    names, read = _parts(kind)  # type: ignore[arg-type]
    if not attributes.keys() <= names.keys():
        raise TypeError(
            f"{kind.__name__} has no {', '.join(sorted(attributes.keys() - names.keys()))}"
        )
    made = _built(kind, names.values(), read(value))
    for name, part in attributes.items():
        names[name](made, part)
    return made


def filled(kind: type[_Value], record: Mapping[str, Any], /, **attributes: object) -> _Value:
    """One with these attributes, else those that a record has, else their defaults; null counts as
    missing there.

    Nothing is checked. Raises TypeError when one without a default is missing.
    """
    names, _ = _parts(kind)  # type: ignore[arg-type]
    defaults = _defaults(kind)  # type: ignore[arg-type]
    values = [
        default() if (value := record.get(name)) is None else value for name, default in defaults
    ]
    made = _built(kind, names.values(), values)
    for name, part in attributes.items():
        names[name](made, part)
    return made


def _built(kind: type[_Value], writes: Iterable[Any], values: Iterable[object]) -> _Value:
    made: _Value = object.__new__(kind)
    deque(map(call, writes, repeat(made), values), 0)
    return made


@cache
def _parts(kind: type[Any]) -> tuple[dict[str, Any], Any]:
    """How each attribute of a dataclass with slots is written, and how all are read (two or
    more).
    """
    names = [one.name for one in dataclasses.fields(kind)]
    return {name: getattr(kind, name).__set__ for name in names}, attrgetter(*names)


@cache
def _defaults(kind: type[Any]) -> tuple[tuple[str, Callable[[], object]], ...]:
    return tuple((one.name, _default(kind, one)) for one in dataclasses.fields(kind))


def _default(kind: type[Any], one: dataclasses.Field[Any]) -> Callable[[], object]:
    if one.default_factory is not dataclasses.MISSING:
        return one.default_factory
    if one.default is not dataclasses.MISSING:
        return repeat(one.default).__next__

    def missing() -> object:
        raise TypeError(f"{kind.__name__} without {one.name}")

    return missing
