"""The calls of record types, with their parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lading.core.records.schema import Parameter, RecordAction, Scope, Type

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
    name: str,
    method: str,
    doc: str,
    *parameters: Parameter,
    body: bool = False,
    answer: str = "",
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
        parameters=parameters,
    )


PLANNING: Final = (
    general(
        "preview",
        "POST",
        "Effect of a create, without storing anything.",
        body=True,
        answer="object",
    ),
    general(
        "batch",
        "POST",
        "Create up to 1,000 at a time; `#3` names the fourth one in mounts and depends_on.",
        Parameter(
            name="container_requests", type=Type.ARRAY, required=True, doc="Their attributes."
        ),
        Parameter(
            name="atomic",
            type=Type.BOOLEAN,
            default=True,
            doc="Create all or none; else every one that can be created.",
        ),
        Parameter(
            name="run",
            type=Type.OBJECT,
            doc="Begin or join an attempt of a run, as begin_run; they are its steps.",
        ),
        Parameter(name="select", type=Type.ARRAY, doc="Attributes to return."),
        answer="object",
    ),
    general(
        "waits",
        "GET",
        "Why some requests do not count yet: turns, quotas, dependencies, times.",
        Parameter(name="uuids", type=Type.ARRAY, doc="The requests; 1,000 at most."),
        answer="object",
    ),
    general(
        "cancel_matching",
        "POST",
        "Cancel, in the background, all that are Committed and meet filters.",
        Parameter(
            name="filters",
            type=Type.ARRAY,
            required=True,
            doc="As for a list; [] is all that the caller can read.",
        ),
        answer="object",
    ),
    general(
        "cancellation",
        "GET",
        "How far cancel_matching is.",
        Parameter(name="id", type=Type.STRING, required=True, doc="From its answer."),
        answer="object",
    ),
)
"""Actions on container requests that were not sent yet, or on several together."""
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
        replace(action, parameters=(*action.parameters, wait))
        if action.name in ("create", "update")
        else action
        for action in actions
    )


def creatable_by_digest(actions: tuple[RecordAction, ...]) -> tuple[RecordAction, ...]:
    """The actions, with the parameter `secret_digest` added to create."""
    digest = Parameter(
        name="secret_digest",
        doc="SHA-256, in hex, of a secret that the caller made; the answer has no secret then.",
    )
    return tuple(
        replace(action, parameters=(*action.parameters, digest))
        if action.name == "create"
        else action
        for action in actions
    )
