"""The record types: one table for the database schema, routes, discovery document and OpenAPI.

Rules about containers are in `lading.core.containers`. Source: docs/spec/api (all sections on
records); docs/spec/decisions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lading.core.ids import Infix
from lading.core.records.schema import (
    CANCEL_CONTAINER,
    COMMON,
    CRUD,
    EVIDENCE,
    EXPLANATION,
    LINEAGE,
    LIST,
    PLANNING,
    SPLICE,
    Field,
    KeyIndex,
    Parameter,
    RecordAction,
    RecordType,
    Scope,
    Type,
    crud,
    derived,
    flag,
    general,
    mapping,
    member,
    moment,
    money,
    number,
    satisfiable,
    sequence,
    text,
)
from lading.core.records.service_records import (
    AUTHORIZED_KEYS,
    COMPUTED_PERMISSIONS,
    CREDENTIALS,
    KEEP_SERVICES,
    QUOTAS,
    REPOSITORIES,
    VIRTUAL_MACHINES,
    WEBHOOKS,
)

USERS: Final = RecordType(
    plural="users",
    singular="user",
    infix=Infix.USER,
    doc="A person or service that owns records.",
    fields=(
        *COMMON,
        text("email"),
        text("username"),
        derived("full_name"),
        Field(name="first_name", default="", null=False),
        Field(name="last_name", default="", null=False),
        text("identity_url"),
        flag("is_active", "An inactive user can read only themselves.", default=True),
        flag("is_admin", "An admin may do everything."),
        derived("is_invited", Type.BOOLEAN),
        mapping("prefs"),
        derived("writable_by", Type.ARRAY),
        derived("can_write", Type.BOOLEAN),
        derived("can_manage", Type.BOOLEAN),
        text("redirect_to_user_uuid", "The user that this one was merged into.", hidden=True),
    ),
    actions=(
        *CRUD,
        general("current", "GET", "The user of this token."),
        RecordAction(
            name="authenticate", method="POST", scope=Scope.COLLECTION, path="authenticate",
            answer="ApiClientAuthorization",
            doc=(
                "A token of the user, for clients that ask for a name and a password: "
                "the password is a token."
            ),
            parameters=(
                Parameter(name="username", required=True, doc="The user's name or email address."),
                Parameter(name="password", required=True, doc="A token of that user."),
            ),
        ),
        general("system", "GET", "The system user (admin only)."),
        general(
            "setup", "POST", "Make a user, or set one up (admin only).", body=True,
            answer="object",
        ),
        RecordAction(
            name="merge", method="POST", scope=Scope.COLLECTION, path="merge",
            doc=(
                "Merge a user into another: all that the one owns, "
                "and with redirect_to_new_user all that it may do."
            ),
            parameters=(
                Parameter(
                    name="new_owner_uuid", required=True, doc="New owner of the records.",
                ),
                Parameter(
                    name="new_user_token",
                    doc="A token of the user that the caller is merged into.",
                ),
                Parameter(name="old_user_uuid", doc="The user that is merged (admin)."),
                Parameter(name="new_user_uuid", doc="The user into whom (admin)."),
                Parameter(
                    name="redirect_to_new_user", type=Type.BOOLEAN, default=False,
                    doc=(
                        "Tokens and permissions become the new user's; "
                        "the old one is inactive then."
                    ),
                ),
            ),
        ),
        general(
            "batch_update", "PATCH", "Change or make many users: `updates` by uuid (admin only).",
            answer="List",
        ),
        member("unsetup", doc="Take all away from a user, who is inactive then (admin only)."),
        member("activate", doc="Let an invited user in."),
    ),
    unique=(("username",), ("email",)),
)  # fmt: skip

TOKENS: Final = RecordType(
    plural="api_client_authorizations",
    singular="api_client_authorization",
    infix=Infix.TOKEN,
    doc="A token. Its secret is shown once, when it is made, and stored as a hash.",
    fields=(
        *COMMON,
        derived(
            "api_token",
            Type.STRING,
            "The secret; only in the answer to create and containers.auth.",
        ),
        text("created_by_ip_address"),
        moment("expires_at", "When it ends; null is never."),
        moment("last_used_at", readonly=True),
        text("last_used_by_ip_address", readonly=True),
        sequence("scopes", '["all"], or "METHOD /path" entries.', default=["all"]),
        text("secret_hash", "SHA-256 of the secret.", hidden=True),
        text("container_uuid", "The one container that this token is for.", hidden=True),
    ),
    actions=(
        *CRUD,
        general("current", "GET", "The token of this call."),
        replace(
            general(
                "create_system_auth", "POST", "A token of the system user (admin only).", body=True
            ),
            parameters=(Parameter(name="scopes", type=Type.ARRAY, doc="Calls that it permits."),),
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
        *COMMON,
        text("name"),
        text("description"),
        mapping("properties"),
        Field(name="portable_data_hash", null=False, doc="Hash of the content."),
        Field(
            name="manifest_text",
            default="",
            null=False,
            unlisted=True,
            doc="The content; signed when returned.",
        ),
        derived("unsigned_manifest_text", unlisted=True, doc="The content without signatures."),
        number("replication_desired", default=None),
        number("replication_confirmed", default=None, readonly=True),
        moment("replication_confirmed_at", readonly=True),
        sequence("storage_classes_desired", default=["default"]),
        sequence("storage_classes_confirmed", readonly=True),
        moment("storage_classes_confirmed_at", readonly=True),
        moment("trash_at", "When it goes to the trash."),
        moment("delete_at", "When it is deleted for good."),
        flag("is_trashed"),
        number("version", "Grows when a past version is kept.", default=1, readonly=True),
        text(
            "current_version_uuid",
            "Of a past version the collection that it is one of.",
            readonly=True,
        ),
        flag("preserve_version", "Keep the present state when it changes next."),
        number("file_count", readonly=True),
        number("file_size_total", readonly=True),
    ),
    actions=(
        *crud(SPLICE),
        member("trash", doc="Put it in the trash."),
        member("untrash", doc="Take it out of the trash."),
        *LINEAGE,
    ),
    indexes=(
        ("portable_data_hash",),
        ("current_version_uuid",),
        ("owner_uuid", "modified_at"),
        ("owner_uuid", "created_at"),
        ("modified_at", "uuid"),
        ("created_at", "uuid"),
    ),
    sparse=(("delete_at",), ("trash_at",)),
    unique=(("owner_uuid", "name"),),
)

# Attributes that a request and its container share.
_SPEC: Final = (
    sequence("command", "Program and arguments; null or empty: those of the image."),
    text(
        "container_image",
        "Portable data hash, uuid of a collection, repository[:tag] or prefix of an image hash.",
    ),
    Field(
        name="cwd", default=".", doc="Working directory, absolute or relative to that of the image."
    ),
    mapping("environment", "Environment variables."),
    mapping("mounts", "Mounts, by target."),
    mapping("secret_mounts", "Mounts that are never shown.", sealed=True),
    mapping("runtime_constraints", "ram, vcpus and other needs."),
    mapping("scheduling_parameters", "Limits on its machines and its time."),
    text("output_path", "The mount target whose content is kept."),
    sequence(
        "output_glob",
        "Patterns of files that are kept, 1,000 of 4,096 characters at most; none is all.",
    ),
    flag("strict_output", "Whether it fails if an entry of its output cannot be saved."),
    sequence("output_storage_classes", default=["default"]),
    mapping("output_properties", "Properties of the output collection."),
    Field(
        name="runtime_token", hidden=True, sealed=True, doc="Token that the container acts with."
    ),
    flag("service", "A service is wanted for running, not for its output."),
    mapping("published_ports", "Ports that can be reached from outside."),
    sequence("steps", "Commands that run one after another in place of `command`."),
)

REQUESTS: Final = RecordType(
    plural="container_requests",
    singular="container_request",
    infix=Infix.REQUEST,
    doc="A client's interest in the outcome of a computation.",
    fields=(
        *COMMON,
        text("name"),
        text("description"),
        mapping("properties"),
        Field(
            name="state", default="Uncommitted", null=False, doc="Uncommitted, Committed or Final.",
        ),
        text("requesting_container_uuid", "The container that asked for it."),
        text("container_uuid", "The container that satisfies it."),
        number("container_count_max", default=None),
        number("container_count", "Containers tried so far."),
        sequence("attempted_container_uuids", "Earlier containers, oldest first."),
        *_SPEC,
        text("output_name"),
        number("output_ttl", "Seconds until the output is trashed; 0 is never."),
        number("priority", "0 to 1000; 0 is on hold or cancelled.", default=None),
        flag("use_existing", "Whether finished or running work may be reused.", default=True),
        flag("match_resources", "Reuse finished work only if it had as much ram and vcpus."),
        flag("only_reproduced", "Reuse only what gave equal outputs each time that it was run."),
        moment("expires_at", "After it the priority counts as 0."),
        Field(name="filters", type=Type.ARRAY, doc="Further conditions on its container."),
        text("parallel_group", "The user's requests of this group take turns, see max_parallel."),
        number("max_parallel", "Containers of its group that run at a time; 0 is any number."),
        sequence("depends_on", "Requests that must have ended well before it is run."),
        moment("start_after", "It is not run before."),
        moment("retry_after", "It is not tried again before.", readonly=True),
        text("log_uuid", "The log collection."),
        text("output_uuid", "The output collection."),
        money("cumulative_cost", "Dollars."),
        text("committed_by_uuid", "The user who committed it.", readonly=True),
        sequence(
            "secrets_needed",
            "Its secret mounts without their contents: target, kind, environment_variable.",
            readonly=True,
        ),
        Field(name="resolving", type=Type.BOOLEAN, default=False, null=False, hidden=True),
    ),
    actions=(
        *satisfiable(CRUD),
        member("cancel", doc="Set the priority to 0."),
        member(
            "satisfy",
            doc="Find or make its container: 200 when it has one, 202 while that takes longer.",
        ),
        EXPLANATION,
        member(
            "container_status", "GET", "State of its container and why it waits.", answer="object",
        ),
        *PLANNING,
        RecordAction(
            name="log", method="GET", scope=Scope.MEMBER, path="log", rest=True, answer="bytes",
            doc=(
                "The logs of its containers, while they run and afterwards: "
                "log/{container uuid}/{path}."
            ),
        ),
    ),
    indexes=(
        ("container_uuid", "state"),
        ("state", "created_at"),
        ("state", "modified_at", "uuid"),
        ("owner_uuid", "modified_at"),
        ("owner_uuid", "created_at"),
        ("modified_at", "uuid"),
        ("created_at", "uuid"),
    ),
    sparse=(
        ("requesting_container_uuid", "state"), ("state", "expires_at"), ("state", "start_after"),
        ("state", "retry_after"),
        ("parallel_group", "state"),
    ),
)  # fmt: skip

CONTAINERS: Final = RecordType(
    plural="containers",
    singular="container",
    infix=Infix.CONTAINER,
    doc="One computation, described unambiguously.",
    fields=(
        *COMMON,
        Field(
            name="state", default="Queued", null=False,
            doc="Queued, Locked, Running, Complete or Cancelled.",
        ),
        *_SPEC,
        Field(
            name="constraint_ranges", type=Type.OBJECT, default={}, readonly=True,
            doc=(
                "Ranges within which its dispatcher may choose "
                "how much of runtime_constraints it is given."
            ),
        ),
        Field(
            name="priority", type=Type.INTEGER, default=0,
            doc="Computed from its requests, 64 bits.",
        ),
        text("runtime_user_uuid", "The user that the container acts for."),
        Field(name="runtime_auth_scopes", type=Type.ARRAY, doc="Scopes of the container's token."),
        text("locked_by_uuid", "The token that locked it."),
        text("auth_uuid", "The container's own token."),
        number("lock_count", "Number of times that it was locked."),
        mapping("runtime_status", "error, warning, activity, failure, omitted and details."),
        Field(name="progress", type=Type.FLOAT, doc="Part of the work that is done, 0 to 1."),
        text("log", "Portable data hash of the log."),
        text("output", "Portable data hash of the output."),
        number("exit_code", default=None),
        mapping("usage", "Use of its command: `memory`, bytes at most; `cpu`, seconds."),
        money("cost", "Dollars."),
        money("subrequests_cost", "Dollars that its own requests cost."),
        moment("started_at"),
        moment("finished_at"),
        Field(
            name="gateway_address", default="", doc="HOST:PORT of its gateway, or `tunnel [URL]`.",
        ),
        flag("interactive_session_started"),
        text("traceparent", "Trace context (W3C) of the call that made it.", readonly=True),
        moment("withdrawn_at", "When its result was withdrawn from reuse.", readonly=True),
        text("withdrawn_by_uuid", "User who withdrew it.", readonly=True),
        text("withdrawn_reason", "Why.", readonly=True),
        text("supervisor_auth_uuid", "The token of its supervisor.", hidden=True),
        text("last_locked_by_uuid", "The last token that locked it.", hidden=True),
        Field(name="secret_mounts_md5", hidden=True, doc="Hash of the secret mounts, for reuse."),
        Field(name="reuse_key", hidden=True, doc="Hash of the values compared for reuse."),
        Field(name="broad_key", hidden=True, doc="The same without ram and vcpus."),
        mapping("mount_contents", "Contents that mounts of files show, for reuse.", hidden=True),
    ),
    actions=(
        *CRUD,
        RecordAction(
            name="lock", method="POST", scope=Scope.MEMBER, path="lock",
            doc="Take a queued container to run it (dispatcher).",
            parameters=(
                Parameter(
                    name="alternatives", type=Type.ARRAY,
                    doc="Uuids of containers: the first one that can be locked is locked, where"
                    " this one cannot be.",
                ),
            ),
        ),
        member("unlock", doc="Give a locked container back (who locked it, admin)."),
        CANCEL_CONTAINER,
        member(
            "auth", "GET", "The container's own token (who locked it).",
            answer="ApiClientAuthorization",
        ),
        member("update_priority", doc="Compute its priority anew (admin)."),
        member("secret_mounts", "GET", "Its secret mounts (its own token).", answer="object"),
        member(
            "progress", doc="Report the finished part of the work, 0 to 1 (its own token).",
            body=True,
        ),
        member(
            "accounting", "GET", "When it held resources, and for which requests.", answer="object",
        ),
        member(
            "finish", doc="Report its end with small output and log (supervisor).", body=True,
            answer="object",
        ),
        general("current", "GET", "The container of this token."),
        *EVIDENCE,
        RecordAction(
            name="git_tree", method="GET", scope=Scope.MEMBER, path="git_tree", answer="bytes",
            doc="The tree (tar) or blob of one of its git_tree mounts (supervisor).",
            parameters=(Parameter(name="hash", required=True, doc="Of the tree or blob."),),
        ),
        RecordAction(
            name="live", method="POST", scope=Scope.MEMBER, path="live", rest=True, answer="object",
            doc="Append to a live log: live/{file}?offset=N, raw body (supervisor).",
        ),
    ),
    indexes=(
        ("state", "priority"),
        ("state", "modified_at", "uuid"),
        ("broad_key", "reuse_key"),
        ("container_image", "created_at"),
        ("modified_at", "uuid"),
        ("created_at", "uuid"),
    ),
    sparse=(
        ("auth_uuid",), ("locked_by_uuid",), ("output",), ("log",), ("withdrawn_at",),
        ("finished_at",),
    ),
    # Dispatchers look for the workflow runners among all that wait.
    key_indexes=(KeyIndex("scheduling_parameters", "supervisor", ("state", "priority")),),
    owned=False,
)  # fmt: skip

LINKS: Final = RecordType(
    plural="links",
    singular="link",
    infix=Infix.LINK,
    doc="A named relation between two records.",
    fields=(
        *COMMON,
        Field(name="link_class", default="", doc="Kind of the relation."),
        Field(name="name", default=""),
        text("tail_uuid"),
        derived("tail_kind"),
        text("head_uuid"),
        derived("head_kind"),
        mapping("properties"),
    ),
    actions=CRUD,
    indexes=(("link_class", "name"), ("head_uuid",), ("tail_uuid", "head_uuid"), ("owner_uuid",)),
)

WORKFLOWS: Final = RecordType(
    plural="workflows",
    singular="workflow",
    infix=Infix.WORKFLOW,
    doc="A workflow definition, for engines that run it.",
    fields=(
        *COMMON,
        text("name", "Taken from the definition when it is left blank."),
        text("description", "Taken from the definition when it is left blank."),
        text("definition", "A YAML or JSON document with a mapping at its top."),
        text("collection_uuid", "Always null."),
    ),
    actions=CRUD,
    indexes=(("owner_uuid",), ("modified_at", "uuid")),
)

LOGS: Final = RecordType(
    plural="logs",
    singular="log",
    infix=Infix.LOG,
    doc="An event of a record.",
    fields=(
        Field(name="id", type=Type.INTEGER, null=False, readonly=True, doc="Grows with time."),
        *COMMON,
        text("object_uuid"),
        text("object_owner_uuid", readonly=True),
        text("former_owner_uuid", "Of a move the owner before it.", hidden=True),
        derived("object_kind"),
        moment("event_at"),
        text("event_type"),
        text("summary"),
        mapping("properties"),
        text("shortened", "The properties in their short form, if so stored.", hidden=True),
    ),
    actions=CRUD[:3],
    indexes=(("object_uuid",),),
    numbered=True,
)

GROUPS: Final = RecordType(
    plural="groups",
    singular="group",
    infix=Infix.GROUP,
    doc=(
        "A project, which owns records; a role, which has members; "
        "or a filter group, which shows matching records."
    ),
    fields=(
        *COMMON,
        text("name", "Unique for its owner; its uuid, if none is given."),
        text("group_class", "project, role or filter; stays as it is."),
        text("description"),
        mapping("properties", "Of a filter group, `filters` are its conditions."),
        moment("trash_at", "When it goes to the trash, with all that it owns."),
        moment("delete_at", "When it is deleted for good, with all that it owns."),
        flag("is_trashed"),
        mapping(
            "container_policy",
            "Of a project: `retry` has rules for the requests in it, `share` is its weight.",
        ),
        text("frozen_by_uuid", "User who froze the project; nothing in it can be written then."),
        derived("writable_by", Type.ARRAY, "Some of those who may write it, if the caller may."),
        derived("can_write", Type.BOOLEAN, "Whether the caller may write it."),
        derived("can_manage", Type.BOOLEAN, "Whether the caller may share it."),
    ),
    actions=(
        *CRUD,
        member("trash", doc="Put it in the trash."),
        member("untrash", doc="Take it out of the trash."),
        RecordAction(
            name="contents", method="GET", scope=Scope.COLLECTION, path="contents", answer="object",
            doc=(
                "Records of a user or group, of several kinds; "
                "without a uuid all that the caller can read."
            ),
            parameters=(
                Parameter(name="uuid", doc="The user or group."),
                *LIST[:-1],
                Parameter(
                    name="recursive", type=Type.BOOLEAN, default=False,
                    doc="Records of its projects too.",
                ),
                Parameter(
                    name="exclude_home_project", type=Type.BOOLEAN, default=False,
                    doc="Leave out records that the caller owns.",
                ),
                Parameter(
                    name="include", type=Type.ARRAY,
                    doc="Answer too: owner_uuid, container_uuid, collection_uuid.",
                ),
            ),
        ),
        RecordAction(
            name="list_contents", method="GET", scope=Scope.MEMBER, path="contents",
            answer="object", doc="Records of a group, of several kinds.", parameters=LIST,
        ),
        RecordAction(
            name="shared", method="GET", scope=Scope.COLLECTION, path="shared", answer="List",
            parameters=LIST,
            doc=(
                "Projects and filter groups that were shared with the caller; "
                "include=owner_uuid answers owners too."
            ),
        ),
    ),
    indexes=(("owner_uuid",), ("modified_at", "uuid"), ("delete_at",)),
    unique=(("owner_uuid", "name"),),
)  # fmt: skip

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
    VIRTUAL_MACHINES,
    AUTHORIZED_KEYS,
    WEBHOOKS,
    QUOTAS,
    COMPUTED_PERMISSIONS,
)
BY_PLURAL: Final = {one.plural: one for one in RECORDS}
BY_INFIX: Final = {one.infix: one for one in RECORDS if one.infix}
KINDS: Final = {str(one.infix): one.kind for one in RECORDS if one.infix}


def kind_of(uuid: str | None) -> str | None:
    """Kind of the record with this `uuid`; None for an unknown type."""
    # 5 + 1 + 5 + 1 + 15 characters.
    return KINDS.get(uuid[6:11]) if uuid and len(uuid) == 27 else None
