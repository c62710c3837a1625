"""Entities of PROV for the values of CWL parameters.

Files, directories and what holds them are named by their content, so that what one step made and
another used is one entity. Other values belong to one use.

Source: https://w3id.org/cwl/prov/0.6.0, sections Files, Secondary files and Directories.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final

from lading.core.provenance.prov_records import (
    ProvAttribute,
    ProvRecord,
    QualifiedName,
    element,
    qualified,
    relation,
    types,
)

_NAMESPACE: Final = bytes.fromhex("6ba7b8119dad11d180b400c04fd430c8")
"""The namespace of URLs (RFC 9562, section 6.6)."""
_DEEPEST: Final = 64
_CHECKSUM: Final = "sha1$"
Making = Generator[ProvRecord, None, QualifiedName]
"""Makes records, and returns the name of the entity that they describe."""


def derived_uuid(name: str) -> str:
    """The uuid of version 5 that a name has in the namespace of URLs (RFC 9562)."""
    digest = hashlib.sha1(
        _NAMESPACE + name.encode("utf-8", "surrogatepass"), usedforsecurity=False
    ).digest()
    number = int.from_bytes(digest[:16], "big")
    number = number & ~(0xF << 76) | 5 << 76
    number = number & ~(3 << 62) | 2 << 62
    plain = f"{number:032x}"
    return f"{plain[:8]}-{plain[8:12]}-{plain[12:16]}-{plain[16:20]}-{plain[20:]}"


class ValueEntities:
    """Makes the entities of values with files of the bag; what is known is not repeated."""

    def __init__(self) -> None:
        self._recorded: set[str] = set()

    def new(self, record: ProvRecord) -> Iterator[ProvRecord]:
        """The record of an element, unless it has been made."""
        if record.key not in self._recorded:
            self._recorded.add(record.key)
            yield record

    def value(self, value: Any, use: str, depth: int = 0) -> Making:
        """`use`: text that distinguishes this use from others."""
        if depth < _DEEPEST and isinstance(value, Mapping):
            kind = value.get("class")
            if kind == "File":
                return (yield from self._file(value, depth))
            if kind == "Directory":
                return (yield from self._directory(value, depth))
            return (yield from self._collection(value.items(), use, depth))
        if depth < _DEEPEST and isinstance(value, list):
            pairs = ((str(number), item) for number, item in enumerate(value))
            return (yield from self._collection(pairs, use, depth))
        key = _named(use)
        literal = value if isinstance(value, str | int | float) else json.dumps(value)
        attributes = [*types("wfprov:Artifact"), ProvAttribute("prov:value", literal)]
        yield from self.new(element("entity", key, attributes))
        return key

    def _file(self, file: Mapping[str, Any], depth: int) -> Making:
        key = _named(_canonical(file))
        if key in self._recorded:
            return key
        basename = str(file.get("basename") or "")
        root, extension = posixpath.splitext(basename)
        names = {"basename": basename, "nameroot": root, "nameext": extension}
        attributes = [
            *types("wfprov:Artifact", "wf4ever:File"),
            *(ProvAttribute(f"cwlprov:{name}", value) for name, value in names.items() if value),
        ]
        digest = str(file.get("checksum") or "")
        if not digest.startswith(_CHECKSUM):
            # It is not in the bag: where it was is all that is known.
            attributes.append(ProvAttribute("prov:location", str(file.get("location") or "")))
        yield from self.new(element("entity", key, attributes))
        if digest.startswith(_CHECKSUM):
            content = qualified("data", digest.removeprefix(_CHECKSUM))
            yield from self.new(element("entity", content, types("wfprov:Artifact")))
            yield relation("specializationOf", key, content)
        secondary = [ProvAttribute("prov:type", QualifiedName("cwlprov:SecondaryFile"))]
        for secondary_file in file.get("secondaryFiles") or ():
            derived = yield from self.value(secondary_file, key, depth + 1)
            yield relation("wasDerivedFrom", derived, key, attributes=secondary)
        return key

    def _directory(self, directory: Mapping[str, Any], depth: int) -> Making:
        key = _named(_canonical(directory))
        if key in self._recorded:
            return key
        self._recorded.add(key)
        basename = str(directory.get("basename") or "")
        attributes = [
            *types("wfprov:Artifact", "prov:Collection", "prov:Dictionary", "ro:Folder"),
            *([ProvAttribute("cwlprov:basename", basename)] if basename else ()),
        ]
        members = []
        for entry in directory.get("listing") or ():
            member = yield from self.value(entry, key, depth + 1)
            members.append(member)
            name = str(entry.get("basename") or "")
            pair = _named(f"{key} {name}")
            attributes.append(ProvAttribute("prov:hadDictionaryMember", pair))
            about = [
                *types("prov:KeyEntityPair"),
                ProvAttribute("prov:pairKey", name),
                ProvAttribute("prov:pairEntity", member),
            ]
            yield from self.new(element("entity", pair, about))
        yield element("entity", key, attributes)
        for member in members:
            yield relation("hadMember", key, member)
        return key

    def _collection(self, pairs: Any, use: str, depth: int) -> Making:
        key = _named(use)
        yield from self.new(element("entity", key, types("wfprov:Artifact", "prov:Collection")))
        for name, value in pairs:
            if value is not None:
                member = yield from self.value(value, f"{use}/{name}", depth + 1)
                yield relation("hadMember", key, member)
        return key


def _named(name: str) -> QualifiedName:
    return qualified("id", derived_uuid(f"urn:lading:{name}"))


def _canonical(value: Mapping[str, Any]) -> str:
    """Text that is equal for equal files or directories of CWL: JSON of class, name, checksum or
    location, and the same of secondary files and of the listing.
    """
    parts = [*(value.get("secondaryFiles") or ()), *(value.get("listing") or ())]
    content = value.get("checksum") or value.get("location") or ""
    own = [value.get("class"), value.get("basename"), content]
    return json.dumps([own, [_canonical(entry) for entry in parts]])
