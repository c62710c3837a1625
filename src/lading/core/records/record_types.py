"""The record types: one table for the database schema, routes, discovery document and OpenAPI.

`container_types` has those of container requests and containers; rules about containers are in
`lading.core.containers`. Source: docs/spec/api (all sections on records); docs/spec/decisions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lading.core.ids import Infix
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_actions import (
    CRUD,
    LINEAGE,
    LIST,
    SPLICE,
    creatable_by_digest,
    crud,
    general,
    member,
)
from lading.core.records.run_actions import RUN_READING, RUN_WRITING
from lading.core.records.schema import (
    COMMON,
    Field,
    KeyIndex,
    Parameter,
    RecordAction,
    RecordType,
    Scope,
    Type,
    derived,
    flag,
    mapping,
    moment,
    number,
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
from lading.core.runs.attempts import RUN

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
        flag(
            "is_s3_key",
            "Whether it is a key of S3, too; its secret is then stored encrypted beside its hash.",
        ),
        text("secret_hash", "SHA-256 of the secret.", hidden=True),
        Field(name="s3_secret", doc="The secret of a key of S3.", hidden=True, sealed=True),
        text("container_uuid", "The one container that this token is for.", hidden=True),
    ),
    actions=(
        *creatable_by_digest(CRUD),
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
        *RUN_WRITING,
        *RUN_READING,
    ),
    indexes=(("owner_uuid",), ("modified_at", "uuid"), ("delete_at",)),
    key_indexes=(KeyIndex("properties", RUN, ("modified_at", "uuid")),),
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
BY_PLURAL: Final = {record_type.plural: record_type for record_type in RECORDS}
BY_INFIX: Final = {record_type.infix: record_type for record_type in RECORDS if record_type.infix}
KINDS: Final = {
    str(record_type.infix): record_type.kind for record_type in RECORDS if record_type.infix
}


def kind_of(uuid: str | None) -> str | None:
    """Kind of the record with this `uuid`; None for an unknown type."""
    # 5 + 1 + 5 + 1 + 15 characters.
    return KINDS.get(uuid[6:11]) if uuid and len(uuid) == 27 else None
