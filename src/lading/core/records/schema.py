"""Parts of a record type: fields, common fields, actions and their parameters.

A field says how it is stored, who sees it and whether a client may name it; an action says where it
is called and with which parameters. The types themselves are in `record_types`. Source:
docs/spec/api, sections Addresses and methods, Containers, Parameters and attributes, Lists,
Filters, Order and select and Discovery document.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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

WRITE: Final = (
    Parameter(name="select", type=Type.ARRAY, doc="Attributes to return."),
    Parameter(
        name="ensure_unique_name",
        type=Type.BOOLEAN,
        default=False,
        doc="Adjust the name if it is taken.",
    ),
    Parameter(name="cluster_id", doc="This cluster; nothing is forwarded."),
)
GET: Final = (
    Parameter(name="select", type=Type.ARRAY, doc="Attributes to return."),
    Parameter(
        name="include_trash", type=Type.BOOLEAN, default=False, doc="Find trashed records too."
    ),
    Parameter(
        name="include_old_versions",
        type=Type.BOOLEAN,
        default=False,
        doc="Past versions of collections too.",
    ),
)
LIST: Final = (
    Parameter(
        name="filters",
        type=Type.ARRAY,
        doc="[[attribute, operator, operand], ...], all of which must hold.",
    ),
    Parameter(name="where", type=Type.OBJECT, doc="{attribute: value}, all of which must hold."),
    Parameter(name="order", type=Type.ARRAY, doc='["attribute asc", ...]'),
    Parameter(name="select", type=Type.ARRAY, doc="Attributes to return."),
    Parameter(
        name="distinct", type=Type.BOOLEAN, default=False, doc="Return each different row once."
    ),
    Parameter(
        name="limit",
        type=Type.INTEGER,
        default=100,
        doc=(
            "Most items to return; fewer come when they are large (API.MaxIndexDatabaseRead). "
            "Ask until none come."
        ),
    ),
    Parameter(name="offset", type=Type.INTEGER, default=0, doc="Items to pass over."),
    Parameter(
        name="count", default="exact", doc='"exact" or "none": whether items_available is computed.'
    ),
    Parameter(name="cluster_id", doc="This cluster; nothing is forwarded."),
    Parameter(
        name="bypass_federation",
        type=Type.BOOLEAN,
        default=False,
        doc="Accepted; there is no federation.",
    ),
    Parameter(
        name="include_trash", type=Type.BOOLEAN, default=False, doc="List trashed records too."
    ),
    Parameter(
        name="include_old_versions",
        type=Type.BOOLEAN,
        default=False,
        doc="Past versions of collections too.",
    ),
    Parameter(
        name="include",
        type=Type.ARRAY,
        doc='Attributes whose records are answered too: ["owner_uuid"].',
    ),
)

SPLICE: Final = (
    *WRITE,
    Parameter(
        name="replace_files", type=Type.OBJECT,
        doc=(
            '{target: source}: changes to single files, from "current/...", '
            '"manifest_text/..." or "<hash>/...".'
        ),
    ),
    Parameter(
        name="replace_segments", type=Type.OBJECT,
        doc=(
            '{"<locator> <offset> <length>": the same form}: '
            "data that files use from elsewhere from now on."
        ),
    ),
)  # fmt: skip


def member(
    name: str,
    method: str = "POST",
    doc: str = "",
    *,
    body: bool = False,
    answer: str = "",
    path: str = "",
) -> RecordAction:
    """An action on one record, at the path of its name unless `path` is given."""
    return RecordAction(
        name=name,
        method=method,
        scope=Scope.MEMBER,
        path=path or name,
        doc=doc,
        body=body,
        answer=answer,
        parameters=() if answer else WRITE[:1],
    )


def general(
    name: str, method: str, doc: str, *, body: bool = False, answer: str = ""
) -> RecordAction:
    """An action on the whole collection of records."""
    return RecordAction(
        name=name,
        method=method,
        scope=Scope.COLLECTION,
        path=name,
        doc=doc,
        body=body,
        answer=answer,
    )


EXPLANATION: Final = RecordAction(
    name="why", method="GET", scope=Scope.MEMBER, path="why", answer="object",
    doc="Reasons for its state: the reuse decision, and why it waits.",
    parameters=(
        Parameter(
            name="compared_with",
            doc="Another request: `secrets_differ` says whether its secrets are others.",
        ),
    ),
)  # fmt: skip
"""The explanation of a request."""
PLANNING: Final = (
    general(
        "preview",
        "POST",
        "Effect of a create, without storing anything.",
        body=True,
        answer="object",
    ),
    RecordAction(
        name="batch",
        method="POST",
        scope=Scope.COLLECTION,
        path="batch",
        doc="Create up to 1,000 at a time; `#3` names the fourth one in mounts and depends_on.",
        parameters=(
            Parameter(
                name="container_requests", type=Type.ARRAY, required=True, doc="Their attributes."
            ),
            Parameter(
                name="atomic",
                type=Type.BOOLEAN,
                default=True,
                doc="Create all or none; else every one that can be created.",
            ),
            Parameter(name="select", type=Type.ARRAY, doc="Attributes to return."),
        ),
        answer="object",
    ),
    RecordAction(
        name="waits",
        method="GET",
        scope=Scope.COLLECTION,
        path="waits",
        answer="object",
        doc="Why some requests do not count yet: turns, quotas, dependencies, times.",
        parameters=(Parameter(name="uuids", type=Type.ARRAY, doc="The requests; 1,000 at most."),),
    ),
    RecordAction(
        name="cancel_matching",
        method="POST",
        scope=Scope.COLLECTION,
        path="cancel_matching",
        answer="object",
        doc="Cancel, in the background, all that are Committed and meet filters.",
        parameters=(
            Parameter(
                name="filters",
                type=Type.ARRAY,
                required=True,
                doc="As for a list; [] is all that the caller can read.",
            ),
        ),
    ),
    RecordAction(
        name="cancellation",
        method="GET",
        scope=Scope.COLLECTION,
        path="cancellation",
        answer="object",
        doc="How far cancel_matching is.",
        parameters=(Parameter(name="id", type=Type.STRING, required=True, doc="From its answer."),),
    ),
)
"""Actions on container requests that were not sent yet, or on several together."""
LINEAGE: Final = tuple(
    RecordAction(
        name=name, method="GET", scope=Scope.MEMBER, path=name, answer="object",
        doc=f"{title} of its content: {{uuid or hash: record}}, itself included.",
        parameters=(
            Parameter(
                name="brief", type=Type.BOOLEAN, default=False,
                doc=(
                    "Answer {records, complete}: few attributes of up to 10,000 containers with "
                    "their requests and contents."
                ),
            ),
        ),
    )
    for name, title in (("provenance", "Origins"), ("used_by", "Uses"))
)  # fmt: skip
"""Actions on collections about where their content is from."""
_OWN: Final = Parameter(
    name="own", type=Type.BOOLEAN, default=False, doc="For the caller's own requests alone."
)
EVIDENCE: Final = (
    member(
        "evidence", "GET", "Other runs of the same recipe, and what speaks against its result.",
        answer="object",
    ),
    RecordAction(
        name="withdraw", method="POST", scope=Scope.MEMBER, path="withdraw",
        doc="Withdraw its result: it is not reused any more.",
        parameters=(
            Parameter(name="reason", required=True, doc="Reason; 1,000 characters at most."),
            _OWN,
            *WRITE[:1],
        ),
    ),
    RecordAction(
        name="restore", method="POST", scope=Scope.MEMBER, path="restore",
        doc="Let its result be reused again.", parameters=(_OWN, *WRITE[:1]),
    ),
)  # fmt: skip
"""Actions on containers about the trust in their results."""
CANCEL_CONTAINER: Final = RecordAction(
    name="cancel",
    method="POST",
    scope=Scope.MEMBER,
    path="cancel",
    doc="End it, whoever holds it (admin).",
    parameters=(Parameter(name="reason", doc="Reason; 1,000 characters at most."), *WRITE[:1]),
)
READ: Final = (
    RecordAction(
        name="list",
        method="GET",
        scope=Scope.COLLECTION,
        doc="List them.",
        parameters=LIST,
        answer="List",
    ),
    RecordAction(name="get", method="GET", scope=Scope.MEMBER, doc="Get one.", parameters=GET),
)


def crud(writing: tuple[Parameter, ...] = WRITE) -> tuple[RecordAction, ...]:
    """List, get, create, update and delete; `writing` are the parameters of create and update."""
    create = RecordAction(
        name="create",
        method="POST",
        scope=Scope.COLLECTION,
        doc="Make one.",
        parameters=writing,
        body=True,
    )
    update = RecordAction(
        name="update",
        method="PUT",
        scope=Scope.MEMBER,
        doc="Change one.",
        parameters=writing,
        body=True,
    )
    delete = RecordAction(
        name="delete", method="DELETE", scope=Scope.MEMBER, doc="Delete one.", parameters=WRITE[:1]
    )
    return (*READ, create, update, delete)


CRUD: Final = crud()


def satisfiable(actions: tuple[RecordAction, ...]) -> tuple[RecordAction, ...]:
    """The actions, with the parameter `satisfy` added to create and update."""
    wait = Parameter(
        name="satisfy", type=Type.BOOLEAN, default=False, doc="Answer as satisfy does."
    )
    return tuple(
        replace(one, parameters=(*one.parameters, wait))
        if one.name in ("create", "update")
        else one
        for one in actions
    )
