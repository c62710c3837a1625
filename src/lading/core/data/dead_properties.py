"""Dead properties of WebDAV: XML that clients store with files and directories of a collection.

They are in one property of the collection's record, by path and by name, so that they are durable,
have the permissions of the collection, and change with its files in one call. The XML of each is
complete: it needs no declaration of namespaces around it. Source: RFC 4918, 4 and 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from lading.core.errors import Full
from lading.core.records.schema import JSON

KEY: Final = "webdav:properties"
"""The property of the collection."""
MOST: Final = 1 << 16
"""Bytes of all dead properties of a collection."""
DeadProperties: TypeAlias = Mapping[str, Mapping[str, str]]
"""XML by path ("" is the root) and by name, "{namespace}local"."""
Change: TypeAlias = tuple[str, str | None]
"""A name with the XML to set, or None to remove it."""


def read(properties: Mapping[str, JSON]) -> dict[str, dict[str, str]]:
    """The dead properties among the properties of a collection; of another form, none."""
    try:
        return msgspec.convert(properties.get(KEY) or {}, dict[str, dict[str, str]])
    except msgspec.ValidationError:
        return {}


def stored(properties: Mapping[str, JSON], dead: DeadProperties) -> dict[str, JSON]:
    """The properties of a collection with these dead ones. Raises Full."""
    present: dict[str, JSON] = {path: {**values} for path, values in sorted(dead.items()) if values}
    others = {name: value for name, value in properties.items() if name != KEY}
    if not present:
        return others
    size = len(msgspec.json.encode(present))
    if size > MOST:
        raise Full(
            f"the properties of WebDAV in this collection would take {size} bytes of {MOST};"
            " remove some"
        )
    return {**others, KEY: present}


def patched(dead: DeadProperties, path: str, changes: Iterable[Change]) -> DeadProperties:
    """After changes at a path, in their order."""
    values = {**dead.get(path, {})}
    for name, xml in changes:
        if xml is None:
            values.pop(name, None)
        else:
            values[name] = xml
    return {**dead, path: values}


def without(dead: DeadProperties, path: str) -> DeadProperties:
    """After the deletion of a file, or of a directory with all its members."""
    return {member: values for member, values in dead.items() if not _is_within(member, path)}


def received(
    dead: DeadProperties,
    others: DeadProperties,
    source: str,
    target: str,
    *,
    shallow: bool = False,
) -> DeadProperties:
    """After a copy from `source`, a path of the collection with the properties `others`, to
    `target`; `shallow`: without the members of a directory.
    """
    copied = {
        target + member[len(source) :]: values
        for member, values in others.items()
        if member == source or (not shallow and _is_within(member, source))
    }
    return {**without(dead, target), **copied}


def _is_within(path: str, directory: str) -> bool:
    return path == directory or not directory or path.startswith(f"{directory}/")
