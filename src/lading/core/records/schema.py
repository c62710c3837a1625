"""Parts of a record type: fields, common fields, and the form of a call with its parameters.

A field says how it is stored, who sees it and whether a client may name it; an action says where it
is called and with which parameters. The calls are in
`record_actions`, the types in `record_types`. Source:
docs/spec/api, sections Addresses and methods, Containers, Parameters and attributes, Lists,
Filters, Order and select and Discovery document.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeAlias

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
    `unlogged` ones are left out of log rows and events, which more users may read.
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
    unlogged: bool = False

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

    `has_subpath`: further path elements may follow; `body`: attributes are sent; `answer` names the
    schema of the response, "" for the record type itself, "List" for its list.
    """

    name: str
    method: str
    scope: Scope
    path: str = ""
    doc: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: bool = False
    answer: str = ""
    has_subpath: bool = False


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Index by `fields` of the rows in which the nested field `column` has true as value of
    `key`.
    """

    column: str
    key: str
    fields: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordType:
    """One kind of record.

    `indexes` are groups of fields for look-ups and sorted lists; those in `sparse` contain only
    rows in which none of the fields is null, those in `key_indexes` only rows in which a key of a
    nested field is true. `unique` fields may not repeat together; of collections only current
    versions outside the trash count. `numbered` types have a growing `id`.
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
    key_indexes: tuple[KeyIndex, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    owned: bool = True
    stored: bool = True
    numbered: bool = False

    @cached_property
    def schema(self) -> str:
        """Name in the discovery document: `ContainerRequest`."""
        return "".join(word.capitalize() for word in self.singular.split("_"))

    @cached_property
    def kind(self) -> str:
        """`arvados#containerRequest`."""
        return f"arvados#{self.schema[0].lower()}{self.schema[1:]}"

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Fields by name."""
        return {field.name: field for field in self.fields}

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        """The stored fields."""
        return tuple(field for field in self.fields if field.stored)

    @cached_property
    def visible(self) -> tuple[str, ...]:
        """Names of the fields that clients may see, in order."""
        return tuple(field.name for field in self.fields if not field.hidden)

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """Names in lists without a selection."""
        return tuple(field.name for field in self.fields if not field.hidden and not field.unlisted)

    @cached_property
    def looked_up(self) -> frozenset[str]:
        """Names of the indexed fields."""
        return frozenset(
            name for fields in (*self.indexes, *self.sparse, *self.unique) for name in fields
        )

    @cached_property
    def defaults(self) -> dict[str, JSON]:
        """Stored fields with their defaults; copy nested values before changing them."""
        return {field.name: field.default for field in self.columns}


def text(name: str, doc: str = "", *, readonly: bool = False, hidden: bool = False) -> Field:
    """A text."""
    return Field(name=name, doc=doc, readonly=readonly, hidden=hidden)


def flag(name: str, doc: str = "", *, default: bool = False, readonly: bool = False) -> Field:
    """A boolean, never null."""
    return Field(
        name=name, type=Type.BOOLEAN, default=default, doc=doc, null=False, readonly=readonly
    )


def number(name: str, doc: str = "", *, default: int | None = 0, readonly: bool = False) -> Field:
    """An integer; may be null only when that is its default."""
    return Field(
        name=name,
        type=Type.INTEGER,
        default=default,
        doc=doc,
        null=default is None,
        readonly=readonly,
    )


def money(name: str, doc: str = "") -> Field:
    """An amount in dollars."""
    return Field(name=name, type=Type.FLOAT, default=0.0, doc=doc, null=False)


def moment(name: str, doc: str = "", *, fixed: bool = False, readonly: bool = False) -> Field:
    """Field with a time."""
    return Field(name=name, type=Type.TIME, doc=doc, fixed=fixed, readonly=readonly)


def mapping(name: str, doc: str = "", *, sealed: bool = False, hidden: bool = False) -> Field:
    """An object; `sealed`: encrypted in the database, and hidden."""
    hidden = hidden or sealed
    return Field(name=name, type=Type.OBJECT, default={}, doc=doc, hidden=hidden, sealed=sealed)


def sequence(
    name: str, doc: str = "", *, default: list[JSON] | None = None, readonly: bool = False
) -> Field:
    """An array."""
    return Field(name=name, type=Type.ARRAY, default=default or [], doc=doc, readonly=readonly)


def derived(name: str, type: Type = Type.STRING, doc: str = "", *, unlisted: bool = False) -> Field:
    """A computed field, which is not stored."""
    return Field(name=name, type=type, doc=doc, derived=True, unlisted=unlisted, readonly=True)


COMMON: Final = (
    Field(name="uuid", null=False, doc="Identifier."),
    Field(name="kind", derived=True, fixed=True, doc="Name of the record type."),
    Field(name="etag", derived=True, fixed=True, doc="Changes whenever the record does."),
    Field(name="owner_uuid", null=False, doc="The user or project that owns it."),
    moment("created_at", "When it was made.", fixed=True),
    moment("modified_at", "When it last changed.", fixed=True),
    Field(name="modified_by_user_uuid", fixed=True, doc="User who changed it last."),
)
