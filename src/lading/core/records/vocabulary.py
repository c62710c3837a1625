"""The vocabulary: property keys and values that a site agreed on.

`{"strict_tags": bool, "tags": {key: {"strict": bool, "labels": [{"label"}], "values": {value:
{"labels": [...]}}}}}`. People see and send labels; records store the key or the value of a label.
With strict tags every key must be listed; a strict key takes listed values only. Reserved keys of
the server and of clients are always allowed.

Source: docs/spec/api, section Exported configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lading.core.errors import Invalid, Malformed
from lading.core.runs.attempts import PROPERTIES
from lading.core.values import JsonObject

RESERVED: Final = frozenset(
    {
        "type",
        "container_request",
        "container_uuid",
        "container",
        "filters",
        "groups",
        "image_timestamp",
        "username",
        "docker-image-repo-tag",
        "template_uuid",
        "workflowName",
        "cwl_input",
        "cwl_output",
        *PROPERTIES,
    }
)
# Prefix of keys that Arvados reserves.
_PREFIX: Final = "arv:"
EMPTY: Final[JsonObject] = {"strict_tags": False, "tags": {}}


@dataclass(frozen=True, slots=True)
class Tag:
    """Allowed values of one key. `aliases` maps labels of values, in lower case, to values."""

    strict: bool
    values: frozenset[str]
    aliases: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A checked vocabulary. `document` is the form for clients."""

    document: JsonObject = field(default_factory=lambda: dict(EMPTY))
    strict: bool = False
    tags: Mapping[str, Tag] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def check(self, properties: Mapping[str, object]) -> None:
        """Check properties against the vocabulary. Raises Malformed (400) naming the key."""
        if not self.tags and not self.strict:
            return
        for key, value in properties.items():
            if key not in RESERVED and not key.startswith(_PREFIX) and value is not None:
                self._check_one(key, value)

    def _check_one(self, key: str, value: object) -> None:
        tag = self.tags.get(key)
        if tag is None:
            canonical = self.aliases.get(key.lower())
            if canonical is not None:
                raise Malformed(
                    f"properties: tag key '{key}' is an alias, must be provided as '{canonical}'"
                )
            if self.strict:
                raise Malformed(f"properties: tag key '{key}' is not defined in the vocabulary")
            return
        values = value if isinstance(value, list) else [value]
        for item in values:
            if not isinstance(item, str):
                raise Malformed(
                    f"properties: value for tag key '{key}' must be a string or an array of strings"
                )
            _check_value(key, item, tag)


def _check_value(key: str, value: str, tag: Tag) -> None:
    if value in tag.values:
        return
    known = tag.aliases.get(value.lower())
    if known is not None:
        raise Malformed(
            f"properties: tag value '{value}' for key '{key}' is an alias, "
            f"must be provided as '{known}'"
        )
    if tag.strict:
        raise Malformed(f"properties: tag value '{value}' is not valid for key '{key}'")


def read(document: object) -> Vocabulary:
    """The vocabulary in a document. Raises Invalid with its fault."""
    top = _object(document, "the vocabulary")
    unknown = sorted(top.keys() - {"strict_tags", "tags"})
    if unknown:
        raise Invalid(f"vocabulary: unknown key '{unknown[0]}'; known here: strict_tags, tags")
    strict = _flag(top.get("strict_tags", False), "strict_tags")
    entries = {
        key: _object(definition, f"tags.{key}")
        for key, definition in _object(top.get("tags") or {}, "tags").items()
    }
    for key in entries:
        if key in RESERVED or key.startswith(_PREFIX):
            raise Invalid(f"vocabulary: tags.{key}: this key is reserved")
    return Vocabulary(
        document={"strict_tags": strict, "tags": dict(entries)},
        strict=strict,
        tags={key: _tag(key, entry) for key, entry in entries.items()},
        aliases=_aliases("tags", entries),
    )


def _tag(key: str, entry: JsonObject) -> Tag:
    where = f"tags.{key}"
    strict = _flag(entry.get("strict", False), f"{where}.strict")
    values = {
        name: _object(definition, f"{where}.values.{name}")
        for name, definition in _object(entry.get("values") or {}, f"{where}.values").items()
    }
    if strict and not values:
        raise Invalid(f"vocabulary: {where}: is strict, but lists no values")
    return Tag(strict, frozenset(values), _aliases(f"{where}.values", values))


def _aliases(where: str, entries: Mapping[str, JsonObject]) -> dict[str, str]:
    """Labels in lower case and their entries; a label may be neither label nor name of another
    entry.
    """
    folded = {name.lower(): name for name in entries}
    names: dict[str, str] = {}
    for name, entry in entries.items():
        for label in _labels(f"{where}.{name}", entry):
            taken_by = names.get(label.lower(), folded.get(label.lower(), name))
            if taken_by != name:
                raise Invalid(
                    f"vocabulary: {where}.{name}: label '{label}' already stands for '{taken_by}'"
                )
            names[label.lower()] = name
    return names


def _labels(where: str, entry: JsonObject) -> Iterable[str]:
    labels = entry.get("labels") or []
    if not isinstance(labels, list):
        raise Invalid(f"vocabulary: {where}.labels: must be a list")
    for item in labels:
        label = _object(item, f"{where}.labels").get("label")
        if not isinstance(label, str) or not label:
            raise Invalid(f"vocabulary: {where}.labels: each must have a text as its label")
        yield label


def _object(value: object, where: str) -> JsonObject:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Invalid(f"vocabulary: {where}: must be an object")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"vocabulary: {where}: must be true or false")
    return value
