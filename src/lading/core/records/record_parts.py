"""Parts of record types: fields of each kind, common fields, actions and their parameters.

Source: docs/spec/api, sections Containers, Parameters and attributes and Lists. The types
themselves are in `record_types`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lading.core.records.schema import JSON, Field, Parameter, RecordAction, Scope, Type


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
    """A time."""
    return Field(name=name, type=Type.TIME, doc=doc, fixed=fixed, readonly=readonly)


def mapping(name: str, doc: str = "", *, sealed: bool = False) -> Field:
    """An object; `sealed`: encrypted in the database, and hidden."""
    return Field(name=name, type=Type.OBJECT, default={}, doc=doc, hidden=sealed, sealed=sealed)


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
    Field(name="modified_by_user_uuid", fixed=True, doc="Who changed it last."),
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


PLANNING: Final = (
    general(
        "preview",
        "POST",
        "What a create would do, without storing anything.",
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
)
"""Actions on container requests that were not sent yet, or are sent together."""
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
CRUD: Final = (
    *READ,
    RecordAction(
        name="create",
        method="POST",
        scope=Scope.COLLECTION,
        doc="Make one.",
        parameters=WRITE,
        body=True,
    ),
    RecordAction(
        name="update",
        method="PUT",
        scope=Scope.MEMBER,
        doc="Change one.",
        parameters=WRITE,
        body=True,
    ),
    RecordAction(
        name="delete", method="DELETE", scope=Scope.MEMBER, doc="Delete one.", parameters=WRITE[:1]
    ),
)


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
