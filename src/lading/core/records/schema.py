"""Parts of a record type's description: fields, actions and their parameters.

Source: docs/spec/api, sections Addresses and methods, Parameters and attributes, Lists, Filters,
Order and select and Discovery document. A field says how it is stored, who sees it and whether a
client may name it; an action says where it is called and with which parameters. The table of the
types is in `record_types`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

JSON: TypeAlias = Any
"""A JSON value."""
Record: TypeAlias = dict[str, Any]
"""A record: JSON values by field name."""


class Type(StrEnum):
    """Type of a field."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TIME = "datetime"
    OBJECT = "object"
    ARRAY = "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One attribute of a record.

    `hidden` fields are never returned nor filtered; `unlisted` ones are left out of lists unless
    selected; `derived` ones are computed and not stored; `fixed` ones are silently dropped from a
    client's input; `readonly` ones are refused there. `sealed` ones are encrypted in the database
    unless they have the default, so they cannot be searched for: such a field is hidden too.
    """

    name: str
    type: Type = Type.STRING
    default: JSON = None
    doc: str = ""
    null: bool = True
    hidden: bool = False
    unlisted: bool = False
    derived: bool = False
    fixed: bool = False
    readonly: bool = False
    sealed: bool = False

    @property
    def stored(self) -> bool:
        """Whether it is a column."""
        return not self.derived

    @property
    def nested(self) -> bool:
        """Whether it is stored as JSON text."""
        return self.type in (Type.OBJECT, Type.ARRAY)


class Scope(StrEnum):
    """The target of an action: the whole collection, or one record."""

    COLLECTION = "collection"
    MEMBER = "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of an action in the discovery document."""

    name: str
    type: Type = Type.STRING
    default: JSON = None
    required: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAction:
    """One call: `method` on `/arvados/v1/<plural>[/{uuid}][/<path>]`.

    `rest`: further path elements may follow; `body`: attributes are sent; `answer` names the schema
    of the response, "" for the record type itself, "List" for its list.
    """

    name: str
    method: str
    scope: Scope
    path: str = ""
    doc: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: bool = False
    answer: str = ""
    rest: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordType:
    """One kind of record.

    `indexes` are groups of fields for look-ups and sorted lists; those in `sparse` contain only
    rows in which none of the fields is null. `unique` fields may not repeat together; of
    collections only current versions outside the trash count. `numbered` types have a growing `id`.
    Without `owned` the system user owns all records; without `stored` there is no table.
    """

    plural: str
    singular: str
    infix: str
    doc: str
    fields: tuple[Field, ...]
    actions: tuple[RecordAction, ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    sparse: tuple[tuple[str, ...], ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    owned: bool = True
    stored: bool = True
    numbered: bool = False

    @cached_property
    def schema(self) -> str:
        """Name in the discovery document: `ContainerRequest`."""
        return "".join(part.capitalize() for part in self.singular.split("_"))

    @cached_property
    def kind(self) -> str:
        """`arvados#containerRequest`."""
        return f"arvados#{self.schema[0].lower()}{self.schema[1:]}"

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Fields by name."""
        return {one.name: one for one in self.fields}

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        """The stored fields."""
        return tuple(one for one in self.fields if one.stored)

    @cached_property
    def visible(self) -> tuple[str, ...]:
        """Names of the fields that clients may see, in order."""
        return tuple(one.name for one in self.fields if not one.hidden)

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """Names in lists without a selection."""
        return tuple(one.name for one in self.fields if not one.hidden and not one.unlisted)

    @cached_property
    def looked_up(self) -> frozenset[str]:
        """Names of the indexed fields."""
        return frozenset(
            name for fields in (*self.indexes, *self.sparse, *self.unique) for name in fields
        )

    @cached_property
    def defaults(self) -> dict[str, JSON]:
        """Stored fields with their defaults; copy nested values before changing them."""
        return {one.name: one.default for one in self.columns}
