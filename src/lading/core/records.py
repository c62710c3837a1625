"""The record types: one table that yields the database schema, the routes, the discovery document and OpenAPI.

Source: api-contract 1.1, 1.5, 4.1-4.14, 5; `decisions.md` (additions). Nothing here decides: the rules of containers
and requests stand in `container` and `request`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lading.core.ids import Infix
from lading.core.schema import JSON, Action, Field, Parameter, RecordType, Scope, Type


def _text(name: str, doc: str = "", *, readonly: bool = False, hidden: bool = False) -> Field:
    return Field(name=name, doc=doc, readonly=readonly, hidden=hidden)


def _flag(name: str, doc: str = "", *, default: bool = False, readonly: bool = False) -> Field:
    return Field(name=name, type=Type.BOOLEAN, default=default, doc=doc, null=False, readonly=readonly)


def _number(name: str, doc: str = "", *, default: int | None = 0, readonly: bool = False) -> Field:
    return Field(name=name, type=Type.INTEGER, default=default, doc=doc, null=default is None, readonly=readonly)


def _money(name: str, doc: str = "") -> Field:
    return Field(name=name, type=Type.FLOAT, default=0.0, doc=doc, null=False)


def _moment(name: str, doc: str = "", *, fixed: bool = False, readonly: bool = False) -> Field:
    return Field(name=name, type=Type.TIME, doc=doc, fixed=fixed, readonly=readonly)


def _map(name: str, doc: str = "", *, sealed: bool = False) -> Field:
    return Field(name=name, type=Type.OBJECT, default={}, doc=doc, hidden=sealed, sealed=sealed)


def _sequence(name: str, doc: str = "", *, default: list[JSON] | None = None, readonly: bool = False) -> Field:
    return Field(name=name, type=Type.ARRAY, default=default or [], doc=doc, readonly=readonly)


def _derived(name: str, type: Type = Type.STRING, doc: str = "", *, unlisted: bool = False) -> Field:
    return Field(name=name, type=type, doc=doc, derived=True, unlisted=unlisted, readonly=True)


_COMMON: Final = (
    Field(name="uuid", null=False, doc="Identifier."),
    Field(name="kind", derived=True, fixed=True, doc="Name of the record type."),
    Field(name="etag", derived=True, fixed=True, doc="Changes whenever the record does."),
    Field(name="owner_uuid", null=False, doc="The user or project that owns it."),
    _moment("created_at", "When it was made.", fixed=True),
    _moment("modified_at", "When it last changed.", fixed=True),
    Field(name="modified_by_user_uuid", fixed=True, doc="Who changed it last."),
)

_WRITE: Final = (
    Parameter(name="select", type=Type.ARRAY, doc="Attributes to return."),
    Parameter(name="ensure_unique_name", type=Type.BOOLEAN, default=False, doc="Adjust the name if it is taken."),
    Parameter(name="cluster_id", doc="This cluster; nothing is forwarded."),
)
_GET: Final = (
    Parameter(name="select", type=Type.ARRAY, doc="Attributes to return."),
    Parameter(name="include_trash", type=Type.BOOLEAN, default=False, doc="Find trashed records too."),
    Parameter(name="include_old_versions", type=Type.BOOLEAN, default=False, doc="Past versions of collections too."),
)
_LIST: Final = (
    Parameter(name="filters", type=Type.ARRAY, doc="[[attribute, operator, operand], ...], all of which must hold."),
    Parameter(name="where", type=Type.OBJECT, doc="{attribute: value}, all of which must hold."),
    Parameter(name="order", type=Type.ARRAY, doc='["attribute asc", ...]'),
    Parameter(name="select", type=Type.ARRAY, doc="Attributes to return."),
    Parameter(name="distinct", type=Type.BOOLEAN, default=False, doc="Return each different row once."),
    Parameter(
        name="limit",
        type=Type.INTEGER,
        default=100,
        doc="Most items to return; fewer come when they are large (API.MaxIndexDatabaseRead). Ask until none come.",
    ),
    Parameter(name="offset", type=Type.INTEGER, default=0, doc="Items to pass over."),
    Parameter(name="count", default="exact", doc='"exact" or "none": whether items_available is computed.'),
    Parameter(name="cluster_id", doc="This cluster; nothing is forwarded."),
    Parameter(name="bypass_federation", type=Type.BOOLEAN, default=False, doc="Accepted; there is no federation."),
    Parameter(name="include_trash", type=Type.BOOLEAN, default=False, doc="List trashed records too."),
    Parameter(name="include_old_versions", type=Type.BOOLEAN, default=False, doc="Past versions of collections too."),
    Parameter(name="include", type=Type.ARRAY, doc='Attributes whose records are answered too: ["owner_uuid"].'),
)

_SPLICE: Final = (
    *_WRITE,
    Parameter(
        name="replace_files", type=Type.OBJECT,
        doc='{target: source}: changes to single files, from "current/...", "manifest_text/..." or "<hash>/...".',
    ),
    Parameter(
        name="replace_segments", type=Type.OBJECT,
        doc='{"<locator> <offset> <length>": the same form}: data that files use from elsewhere from now on.',
    ),
)  # fmt: skip


def _member(
    name: str, method: str = "POST", doc: str = "", *, body: bool = False, answer: str = "", path: str = ""
) -> Action:
    return Action(
        name=name, method=method, scope=Scope.MEMBER, path=path or name, doc=doc, body=body, answer=answer,
        parameters=() if answer else _WRITE[:1],
    )  # fmt: skip


def _general(name: str, method: str, doc: str, *, body: bool = False, answer: str = "") -> Action:
    return Action(name=name, method=method, scope=Scope.COLLECTION, path=name, doc=doc, body=body, answer=answer)


_READ: Final = (
    Action(name="list", method="GET", scope=Scope.COLLECTION, doc="List them.", parameters=_LIST, answer="List"),
    Action(name="get", method="GET", scope=Scope.MEMBER, doc="Get one.", parameters=_GET),
)
_CRUD: Final = (
    *_READ,
    Action(name="create", method="POST", scope=Scope.COLLECTION, doc="Make one.", parameters=_WRITE, body=True),
    Action(name="update", method="PUT", scope=Scope.MEMBER, doc="Change one.", parameters=_WRITE, body=True),
    Action(name="delete", method="DELETE", scope=Scope.MEMBER, doc="Delete one.", parameters=_WRITE[:1]),
)


def _satisfiable(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    wait = Parameter(name="satisfy", type=Type.BOOLEAN, default=False, doc="Answer as satisfy does.")
    return tuple(
        replace(one, parameters=(*one.parameters, wait)) if one.name in ("create", "update") else one for one in actions
    )


USERS: Final = RecordType(
    plural="users",
    singular="user",
    infix=Infix.USER,
    doc="A person or service that owns records.",
    fields=(
        *_COMMON,
        _text("email"),
        _text("username"),
        _derived("full_name"),
        Field(name="first_name", default="", null=False),
        Field(name="last_name", default="", null=False),
        _text("identity_url"),
        _flag("is_active", "An inactive user can read only themselves.", default=True),
        _flag("is_admin", "An admin may do everything."),
        _derived("is_invited", Type.BOOLEAN),
        _map("prefs"),
        _derived("writable_by", Type.ARRAY),
        _derived("can_write", Type.BOOLEAN),
        _derived("can_manage", Type.BOOLEAN),
        _text("redirect_to_user_uuid", "The user that this one was merged into.", hidden=True),
    ),
    actions=(
        *_CRUD,
        _general("current", "GET", "The user of this token."),
        _general("system", "GET", "The system user (admin only)."),
        _general("setup", "POST", "Make a user, or give one what users have (admin only).", body=True, answer="object"),
        Action(
            name="merge", method="POST", scope=Scope.COLLECTION, path="merge",
            doc="Merge a user into another: all that the one owns, and with redirect_to_new_user all that it may do.",
            parameters=(
                Parameter(name="new_owner_uuid", required=True, doc="Who gets what the old user owns."),
                Parameter(name="new_user_token", doc="A token of the user that the caller is merged into."),
                Parameter(name="old_user_uuid", doc="The user that is merged (admin)."),
                Parameter(name="new_user_uuid", doc="The user into whom (admin)."),
                Parameter(
                    name="redirect_to_new_user", type=Type.BOOLEAN, default=False,
                    doc="Tokens and permissions become the new user's; the old one is inactive then.",
                ),
            ),
        ),
        _general("batch_update", "PATCH", "Change or make many users: `updates` by uuid (admin only).", answer="List"),
        _member("unsetup", doc="Take all away from a user, who is inactive then (admin only)."),
        _member("activate", doc="Let an invited user in."),
    ),
    unique=(("username",), ("email",)),
)  # fmt: skip

TOKENS: Final = RecordType(
    plural="api_client_authorizations",
    singular="api_client_authorization",
    infix=Infix.TOKEN,
    doc="A token. Its secret is shown once, when it is made, and stored as a hash.",
    fields=(
        *_COMMON,
        _derived("api_token", Type.STRING, "The secret; only in the answer to create and containers.auth."),
        _text("created_by_ip_address"),
        _moment("expires_at", "When it ends; null is never."),
        _moment("last_used_at", readonly=True),
        _text("last_used_by_ip_address", readonly=True),
        _sequence("scopes", '["all"], or "METHOD /path" entries.', default=["all"]),
        _text("secret_hash", "SHA-256 of the secret.", hidden=True),
        _text("container_uuid", "The one container that this token is for.", hidden=True),
    ),
    actions=(
        *_CRUD,
        _general("current", "GET", "The token of this call."),
        replace(
            _general("create_system_auth", "POST", "A token of the system user (admin only).", body=True),
            parameters=(Parameter(name="scopes", type=Type.ARRAY, doc="What it may call."),),
        ),
    ),
    indexes=(("secret_hash",), ("owner_uuid",), ("container_uuid",)),
)

COLLECTIONS: Final = RecordType(
    plural="collections",
    singular="collection",
    infix=Infix.COLLECTION,
    doc="A directory tree whose content is named by its hash.",
    fields=(
        *_COMMON,
        _text("name"),
        _text("description"),
        _map("properties"),
        Field(name="portable_data_hash", null=False, doc="Hash of the content."),
        Field(name="manifest_text", default="", null=False, unlisted=True, doc="The content; signed when returned."),
        _derived("unsigned_manifest_text", unlisted=True, doc="The content without signatures."),
        _number("replication_desired", default=None),
        _number("replication_confirmed", default=None, readonly=True),
        _moment("replication_confirmed_at", readonly=True),
        _sequence("storage_classes_desired", default=["default"]),
        _sequence("storage_classes_confirmed", readonly=True),
        _moment("storage_classes_confirmed_at", readonly=True),
        _moment("trash_at", "When it goes to the trash."),
        _moment("delete_at", "When it is deleted for good."),
        _flag("is_trashed"),
        _number("version", "Grows when a past version is kept.", default=1, readonly=True),
        _text("current_version_uuid", "Of a past version the collection that it is one of.", readonly=True),
        _flag("preserve_version", "Keep the present state when it changes next."),
        _number("file_count", readonly=True),
        _number("file_size_total", readonly=True),
    ),
    actions=(
        *_READ,
        Action(name="create", method="POST", scope=Scope.COLLECTION, doc="Make one.", parameters=_SPLICE, body=True),
        Action(name="update", method="PUT", scope=Scope.MEMBER, doc="Change one.", parameters=_SPLICE, body=True),
        _CRUD[-1],
        _member("trash", doc="Put it in the trash."),
        _member("untrash", doc="Take it out of the trash."),
        _member(
            "provenance", "GET", "What its content came from: {uuid or hash: record}, itself included.", answer="object"
        ),
        _member("used_by", "GET", "What used its content: {uuid or hash: record}, itself included.", answer="object"),
    ),
    indexes=(
        ("portable_data_hash",),
        ("current_version_uuid",),
        ("owner_uuid", "modified_at"),
        ("modified_at", "uuid"),
        ("created_at", "uuid"),
    ),
    sparse=(("delete_at",), ("trash_at",)),
    unique=(("owner_uuid", "name"),),
)

_SPEC: Final = (
    _sequence("command", "Program and arguments."),
    _text("container_image", "Portable data hash, repository[:tag] or prefix of an image hash."),
    Field(name="cwd", default=".", doc='Working directory; "." is that of the image.'),
    _map("environment", "Environment variables."),
    _map("mounts", "What is mounted, by target."),
    _map("secret_mounts", "Mounts that are never shown.", sealed=True),
    _map("runtime_constraints", "ram, vcpus and other needs."),
    _map("scheduling_parameters", "Where and how long it may run."),
    _text("output_path", "The mount target whose content is kept."),
    _sequence("output_glob", "Patterns of files that are kept, 1,000 of 4,096 characters at most; none is all."),
    _sequence("output_storage_classes", default=["default"]),
    _map("output_properties", "Properties of the output collection."),
    Field(name="runtime_token", hidden=True, sealed=True, doc="Token that the container acts with."),
    _flag("service", "A service is wanted for running, not for its output."),
    _map("published_ports", "Ports that can be reached from outside."),
)

REQUESTS: Final = RecordType(
    plural="container_requests",
    singular="container_request",
    infix=Infix.REQUEST,
    doc="What a client wants to know the outcome of.",
    fields=(
        *_COMMON,
        _text("name"),
        _text("description"),
        _map("properties"),
        Field(name="state", default="Uncommitted", null=False, doc="Uncommitted, Committed or Final."),
        _text("requesting_container_uuid", "The container that asked for it."),
        _text("container_uuid", "The container that satisfies it."),
        _number("container_count_max", default=None),
        _number("container_count", "Containers tried so far."),
        _sequence("attempted_container_uuids", "Earlier containers, oldest first."),
        *_SPEC,
        _text("output_name"),
        _number("output_ttl", "Seconds until the output is trashed; 0 is never."),
        _number("priority", "0 to 1000; 0 is on hold or cancelled.", default=None),
        _flag("use_existing", "Whether finished or running work may be reused.", default=True),
        _moment("expires_at", "After it the priority counts as 0."),
        Field(name="filters", type=Type.ARRAY, doc="Further conditions on its container (as in lists)."),
        _sequence("depends_on", "Requests that must have ended well before it is run."),
        _moment("start_after", "It is not run before."),
        _text("log_uuid", "The log collection."),
        _text("output_uuid", "The output collection."),
        _money("cumulative_cost", "Dollars."),
        Field(name="committed_by_uuid", hidden=True, doc="The user who committed it."),
        Field(name="resolving", type=Type.BOOLEAN, default=False, null=False, hidden=True, doc="Container sought."),
    ),
    actions=(
        *_satisfiable(_CRUD),
        _member("cancel", doc="Set the priority to 0."),
        _member("satisfy", doc="Find or make its container: 200 when it has one, 202 while that takes longer."),
        _member("why", "GET", "Why it is where it is: what was reused and why, what it waits for.", answer="object"),
        _member("container_status", "GET", "State of its container and why it waits.", answer="object"),
        _general("preview", "POST", "What a create would do, without storing anything.", body=True, answer="object"),
        Action(
            name="log", method="GET", scope=Scope.MEMBER, path="log", rest=True, answer="bytes",
            doc="The logs of its containers, while they run and afterwards: log/{container uuid}/{path}.",
        ),
    ),
    indexes=(
        ("container_uuid", "state"),
        ("state", "created_at"),
        ("owner_uuid", "modified_at"),
        ("owner_uuid", "created_at"),
        ("modified_at", "uuid"),
        ("created_at", "uuid"),
    ),
    sparse=(("requesting_container_uuid", "state"), ("state", "expires_at"), ("state", "start_after")),
)  # fmt: skip

CONTAINERS: Final = RecordType(
    plural="containers",
    singular="container",
    infix=Infix.CONTAINER,
    doc="What is or was run, unambiguously.",
    fields=(
        *_COMMON,
        Field(name="state", default="Queued", null=False, doc="Queued, Locked, Running, Complete or Cancelled."),
        *_SPEC,
        Field(
            name="constraint_ranges", type=Type.OBJECT, default={}, readonly=True,
            doc="Ranges within which its dispatcher may choose how much of runtime_constraints it is given.",
        ),
        Field(name="priority", type=Type.INTEGER, default=0, doc="Computed from its requests, 64 bits."),
        _text("runtime_user_uuid", "The user that the container acts for."),
        Field(name="runtime_auth_scopes", type=Type.ARRAY, doc="Scopes of the container's token."),
        _text("locked_by_uuid", "The token that locked it."),
        _text("auth_uuid", "The container's own token."),
        _number("lock_count", "How often it was locked."),
        _map("runtime_status", "error, warning, activity, failure and their details."),
        Field(name="progress", type=Type.FLOAT, doc="Part of the work that is done, 0 to 1."),
        _text("log", "Portable data hash of the log."),
        _text("output", "Portable data hash of the output."),
        _number("exit_code", default=None),
        _money("cost", "Dollars."),
        _money("subrequests_cost", "Dollars that its own requests cost."),
        _moment("started_at"),
        _moment("finished_at"),
        Field(name="gateway_address", default="", doc="HOST:PORT of its gateway, or `tunnel [URL]`."),
        _flag("interactive_session_started"),
        _text("supervisor_auth_uuid", "The token of its supervisor.", hidden=True),
        Field(name="secret_mounts_md5", hidden=True, doc="Hash of the secret mounts, for reuse."),
        Field(name="reuse_key", hidden=True, doc="Hash of what is compared for reuse."),
        Field(name="broad_key", hidden=True, doc="The same without ram and vcpus, for requests with ranges."),
    ),
    actions=(
        *_CRUD,
        _member("lock", doc="Take a queued container to run it (dispatcher)."),
        _member("unlock", doc="Give a locked container back (dispatcher)."),
        _member("auth", "GET", "The container's own token (who locked it).", answer="ApiClientAuthorization"),
        _member("update_priority", doc="Compute its priority anew (admin)."),
        _member("secret_mounts", "GET", "Its secret mounts (its own token).", answer="object"),
        _member("progress", doc="Say which part of the work is done, 0 to 1 (its own token).", body=True),
        _member("accounting", "GET", "When it held resources, and for which requests.", answer="object"),
        _member("finish", doc="Report its end with small output and log (supervisor).", body=True, answer="object"),
        _general("current", "GET", "The container of this token."),
        Action(
            name="git_tree", method="GET", scope=Scope.MEMBER, path="git_tree", answer="bytes",
            doc="The tree (tar) or blob of one of its git_tree mounts (supervisor).",
            parameters=(Parameter(name="hash", required=True, doc="Of the tree or blob."),),
        ),
        Action(
            name="live", method="POST", scope=Scope.MEMBER, path="live", rest=True, answer="object",
            doc="Append to a live log: live/{file}?offset=N, raw body (supervisor).",
        ),
    ),
    indexes=(
        ("state", "priority"),
        ("broad_key", "reuse_key"),
        ("container_image", "created_at"),
        ("modified_at", "uuid"),
        ("created_at", "uuid"),
    ),
    sparse=(("auth_uuid",), ("locked_by_uuid",), ("output",), ("log",)),
    owned=False,
)  # fmt: skip

LINKS: Final = RecordType(
    plural="links",
    singular="link",
    infix=Infix.LINK,
    doc="A named relation between two records.",
    fields=(
        *_COMMON,
        Field(name="link_class", default="", doc="What kind of relation."),
        Field(name="name", default=""),
        _text("tail_uuid"),
        _derived("tail_kind"),
        _text("head_uuid"),
        _derived("head_kind"),
        _map("properties"),
    ),
    actions=_CRUD,
    indexes=(("link_class", "name"), ("head_uuid",), ("tail_uuid", "head_uuid"), ("owner_uuid",)),
)

WORKFLOWS: Final = RecordType(
    plural="workflows",
    singular="workflow",
    infix=Infix.WORKFLOW,
    doc="A workflow definition, for engines that run it.",
    fields=(
        *_COMMON,
        _text("name", "Taken from the definition when it is left blank."),
        _text("description", "Taken from the definition when it is left blank."),
        _text("definition", "A YAML or JSON document with a mapping at its top."),
        _text("collection_uuid", "Always null."),
    ),
    actions=_CRUD,
    indexes=(("owner_uuid",), ("modified_at", "uuid")),
)

CREDENTIALS: Final = RecordType(
    plural="credentials",
    singular="credential",
    infix=Infix.CREDENTIAL,
    doc="A secret of an outside service, which only running containers are told.",
    fields=(
        *_COMMON,
        _text("name"),
        _text("description"),
        _text("credential_class", "What kind of service it is for."),
        _sequence("scopes", "What it gives access to, such as addresses of buckets."),
        _text("external_id", "The public part, such as an access key id."),
        Field(name="secret", hidden=True, sealed=True, doc="The secret part; can be written, never read."),
        _moment("expires_at", "After it the secret is told nobody."),
    ),
    actions=(
        *_CRUD,
        _member("secret", "GET", "{external_id, secret}, for the token of a running container.", answer="object"),
    ),
    indexes=(("owner_uuid",), ("modified_at", "uuid")),
    unique=(("owner_uuid", "name"),),
)

LOGS: Final = RecordType(
    plural="logs",
    singular="log",
    infix=Infix.LOG,
    doc="Something that happened to a record.",
    fields=(
        Field(name="id", type=Type.INTEGER, null=False, readonly=True, doc="Grows with time."),
        *_COMMON,
        _text("object_uuid"),
        _text("object_owner_uuid", readonly=True),
        _derived("object_kind"),
        _moment("event_at"),
        _text("event_type"),
        _text("summary"),
        _map("properties"),
    ),
    actions=_CRUD[:3],
    indexes=(("object_uuid",),),
    numbered=True,
)

GROUPS: Final = RecordType(
    plural="groups",
    singular="group",
    infix=Infix.GROUP,
    doc="A project, which owns records; a role, which has members; or a filter group, which shows what matches.",
    fields=(
        *_COMMON,
        _text("name", "Unique for its owner; its uuid, if none is given."),
        _text("group_class", "project, role or filter; stays as it is."),
        _text("description"),
        _map("properties", "Of a filter group, `filters` are its conditions."),
        _moment("trash_at", "When it goes to the trash, with all that it owns."),
        _moment("delete_at", "When it is deleted for good, with all that it owns."),
        _flag("is_trashed"),
        _text("frozen_by_uuid", "Who froze the project; nothing in it can be written then."),
        _derived("writable_by", Type.ARRAY, "Some of those who may write it, if the caller may."),
        _derived("can_write", Type.BOOLEAN, "Whether the caller may write it."),
        _derived("can_manage", Type.BOOLEAN, "Whether the caller may share it."),
    ),
    actions=(
        *_CRUD,
        _member("trash", doc="Put it in the trash."),
        _member("untrash", doc="Take it out of the trash."),
        Action(
            name="contents", method="GET", scope=Scope.COLLECTION, path="contents", answer="object",
            doc="What a user or group owns, of several kinds; without a uuid all that the caller can read.",
            parameters=(
                Parameter(name="uuid", doc="The user or group."),
                *_LIST[:-1],
                Parameter(name="recursive", type=Type.BOOLEAN, default=False, doc="Also what its projects own."),
                Parameter(
                    name="exclude_home_project", type=Type.BOOLEAN, default=False, doc="Not what the caller owns."
                ),
                Parameter(name="include", type=Type.ARRAY, doc="owner_uuid, container_uuid: answer those records too."),
            ),
        ),
        Action(
            name="list_contents", method="GET", scope=Scope.MEMBER, path="contents", answer="object",
            doc="What a group owns, of several kinds.", parameters=_LIST,
        ),
        Action(
            name="shared", method="GET", scope=Scope.COLLECTION, path="shared", answer="List", parameters=_LIST,
            doc="Projects and filter groups that were shared with the caller; include=owner_uuid answers owners too.",
        ),
    ),
    indexes=(("owner_uuid",), ("modified_at", "uuid"), ("delete_at",)),
    unique=(("owner_uuid", "name"),),
)  # fmt: skip

COMPUTED_PERMISSIONS: Final = RecordType(
    plural="computed_permissions",
    singular="computed_permission",
    infix="",
    doc="What a user may do with a user, a group or a shared record (admin only).",
    fields=(
        _text("user_uuid", "Who may."),
        _text("target_uuid", "With what."),
        _text("perm_level", "can_read, can_write or can_manage."),
    ),
    actions=_READ[:1],
    owned=False,
    stored=False,
)

KEEP_SERVICES: Final = RecordType(
    plural="keep_services",
    singular="keep_service",
    infix=Infix.KEEP_SERVICE,
    doc="Where blocks are stored.",
    fields=(
        *_COMMON,
        _text("service_host"),
        _number("service_port", default=None),
        _flag("service_ssl_flag"),
        _text("service_type"),
        _flag("read_only"),
    ),
    actions=(*_READ, _general("accessible", "GET", "The services that this client can reach.", answer="List")),
    stored=False,
)

REPOSITORIES: Final = RecordType(
    plural="repositories",
    singular="repository",
    infix=Infix.REPOSITORY,
    doc="A git repository that git_tree mounts can name.",
    fields=(
        *_COMMON,
        _text("name", "How mounts name it."),
        _text("fetch_url", "Where it is fetched from."),
    ),
    actions=_CRUD,
    indexes=(("modified_at", "uuid"), ("owner_uuid",)),
    unique=(("name",),),
)

RECORDS: Final = (
    USERS,
    TOKENS,
    GROUPS,
    COLLECTIONS,
    REQUESTS,
    CONTAINERS,
    LINKS,
    WORKFLOWS,
    CREDENTIALS,
    LOGS,
    KEEP_SERVICES,
    REPOSITORIES,
    COMPUTED_PERMISSIONS,
)
BY_PLURAL: Final = {one.plural: one for one in RECORDS}
BY_SINGULAR: Final = {one.singular: one for one in RECORDS}
BY_INFIX: Final = {one.infix: one for one in RECORDS if one.infix}
KINDS: Final = {str(one.infix): one.kind for one in RECORDS if one.infix} | {
    str(Infix.VIRTUAL_MACHINE): "arvados#virtualMachine",
    str(Infix.AUTHORIZED_KEY): "arvados#authorizedKey",
}


def kind_of(uuid: str | None) -> str | None:
    """The kind of the record that `uuid` names; None when there is no such type."""
    return KINDS.get(uuid[6:11]) if uuid and len(uuid) == 27 else None
