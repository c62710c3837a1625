"""Record types for block services, git repositories, virtual machines, login keys, credentials,
webhooks, quotas, and computed permissions.

`record_types` includes them in its table. Source: docs/spec/api, section Other records.
"""

from __future__ import annotations

from typing import Final

from lading.core.ids import Infix
from lading.core.records.record_actions import CRUD, READ, WRITE, general, member
from lading.core.records.schema import (
    COMMON,
    Field,
    Parameter,
    RecordAction,
    RecordType,
    Scope,
    Type,
    flag,
    moment,
    number,
    sequence,
    text,
)

KEEP_SERVICES: Final = RecordType(
    plural="keep_services",
    singular="keep_service",
    infix=Infix.KEEP_SERVICE,
    doc="A service that stores blocks.",
    fields=(
        *COMMON,
        text("service_host"),
        number("service_port", default=None),
        flag("service_ssl_flag"),
        text("service_type"),
        flag("read_only"),
    ),
    actions=(
        *READ,
        general("accessible", "GET", "The services that this client can reach.", answer="List"),
    ),
    stored=False,
)

REPOSITORIES: Final = RecordType(
    plural="repositories",
    singular="repository",
    infix=Infix.REPOSITORY,
    doc="A git repository that git_tree mounts can name.",
    fields=(
        *COMMON,
        text("name", "Name that mounts use for it."),
        text("fetch_url", "URL to fetch it from."),
    ),
    actions=CRUD,
    indexes=(("modified_at", "uuid"), ("owner_uuid",)),
    unique=(("name",),),
)

VIRTUAL_MACHINES: Final = RecordType(
    plural="virtual_machines",
    singular="virtual_machine",
    infix=Infix.VIRTUAL_MACHINE,
    doc=(
        "A machine that users log in to, outside of this system; "
        "permission links can_login allow it (admin writes)."
    ),
    fields=(*COMMON, text("hostname", "Its name; unique.")),
    actions=(
        *CRUD,
        member(
            "logins",
            "GET",
            "Users who may log in to it, with their login names and keys (admin).",
            answer="object",
        ),
        general(
            "get_all_logins", "GET", "The logins of all virtual machines (admin).", answer="object"
        ),
    ),
    indexes=(("owner_uuid",), ("modified_at", "uuid")),
    unique=(("hostname",),),
)

AUTHORIZED_KEYS: Final = RecordType(
    plural="authorized_keys",
    singular="authorized_key",
    infix=Infix.AUTHORIZED_KEY,
    doc="A public SSH key of a user, for logins to virtual machines.",
    fields=(
        *COMMON,
        text("name"),
        text("key_type", "SSH."),
        text("authorized_user_uuid", "The user whose key it is; only admins may name another."),
        text("public_key", "One line, as ssh-keygen writes it; unique."),
        moment("expires_at", "End of logins with the key."),
    ),
    actions=CRUD,
    indexes=(("owner_uuid",), ("authorized_user_uuid",), ("modified_at", "uuid")),
)

CREDENTIALS: Final = RecordType(
    plural="credentials",
    singular="credential",
    infix=Infix.CREDENTIAL,
    doc="A secret of an outside service, which running containers and transfers of tasks get.",
    fields=(
        *COMMON,
        text("name"),
        text("description"),
        text("credential_class", "Kind of its service."),
        sequence("scopes", "Objects that it gives access to, such as addresses of buckets."),
        text("external_id", "The public part, such as an access key id."),
        Field(
            name="secret",
            hidden=True,
            sealed=True,
            doc="The secret part; can be written, never read.",
        ),
        moment("expires_at", "End of access to the secret."),
    ),
    actions=(
        *CRUD,
        member(
            "secret",
            "GET",
            "{external_id, secret}, for the token of a running container, and the server itself.",
            answer="object",
        ),
    ),
    indexes=(("owner_uuid",), ("modified_at", "uuid")),
    unique=(("owner_uuid", "name"),),
)

KEEP_FORMER: Final = 86400
"""Seconds for which the former secret of a webhook is valid, if the call names no other time."""

WEBHOOKS: Final = RecordType(
    plural="webhooks",
    singular="webhook",
    infix=Infix.WEBHOOK,
    doc="A receiver outside, to which events of a user or a project are sent.",
    fields=(
        *COMMON,
        text("name"),
        Field(
            name="url", null=False, unlogged=True,
            doc="Target of the events: https://HOST/PATH, or mailto:NAME@HOST for e-mail.",
        ),
        Field(
            name="format", default="cloudevents", null=False, doc="cloudevents, slack or email.",
        ),
        sequence(
            "event_types", "Types of CloudEvents that are sent; `*` stands for any text.",
            default=["lading.container_request.*"],
        ),
        sequence("states", "With it only changes to one of these states are sent."),
        text("project_uuid", "With it only events of records in this project, or below it."),
        Field(
            name="state", default="Active", null=False, readonly=True, doc="Active or Paused.",
        ),
        text("paused_reason", "Why it is paused.", readonly=True),
        text(
            "subscriber_uuid", "The user whose permissions decide which events it gets.",
            readonly=True,
        ),
        Field(
            name="secret", hidden=True, sealed=True,
            doc="Key of its signatures; only in the answers to create and rotate.",
        ),
        Field(
            name="former_secret", hidden=True, sealed=True,
            doc="Key of its signatures before the last rotation.",
        ),
        moment(
            "former_secret_until", "Deliveries are signed with the former secret too until then.",
            readonly=True,
        ),
    ),
    actions=(
        *CRUD,
        member("test", doc="Send a test event now; how it ended.", answer="object"),
        RecordAction(
            name="pause", method="POST", scope=Scope.MEMBER, path="pause",
            doc="Send nothing any more; events are kept in the log.",
            parameters=(Parameter(name="reason", doc="Why; 1,000 characters at most."), *WRITE[:1]),
        ),
        RecordAction(
            name="resume", method="POST", scope=Scope.MEMBER, path="resume",
            doc="Send again, from where it was paused.",
            parameters=(
                Parameter(
                    name="skip", type=Type.BOOLEAN, default=False,
                    doc="Leave out the events since it was paused.",
                ),
                *WRITE[:1],
            ),
        ),
        RecordAction(
            name="rotate", method="POST", scope=Scope.MEMBER, path="rotate",
            doc="Make a new secret, which the answer has; the former one is valid for a while.",
            parameters=(
                Parameter(
                    name="keep", type=Type.INTEGER, default=KEEP_FORMER,
                    doc="Seconds for which the former secret is valid too.",
                ),
                *WRITE[:1],
            ),
        ),
        RecordAction(
            name="progress", method="GET", scope=Scope.COLLECTION, path="progress", answer="object",
            doc="Positions of several webhooks in the log, with their last faults.",
            parameters=(
                Parameter(name="uuids", type=Type.ARRAY, doc="The webhooks; 1,000 at most."),
            ),
        ),
        member(
            "deliveries", "GET",
            "Its position in the log, its last fault, its dead letters and its latest attempts.",
            answer="object",
        ),
        RecordAction(
            name="redeliver", method="POST", scope=Scope.MEMBER, path="redeliver",
            answer="object", doc="Send dead letters again.",
            parameters=(
                Parameter(
                    name="log_ids", type=Type.ARRAY,
                    doc="Numbers of their events; all dead letters without it.",
                ),
            ),
        ),
    ),
    indexes=(("owner_uuid",), ("modified_at", "uuid"), ("state",)),
)  # fmt: skip

_LIMIT: Final = "null is no limit"

QUOTAS: Final = RecordType(
    plural="quotas",
    singular="quota",
    infix=Infix.QUOTA,
    doc="Limits on what a user, a role's users or a project may use (admin writes).",
    fields=(
        *COMMON,
        Field(
            name="subject_uuid", null=False,
            doc=(
                "The user, the role or the project that is limited, or the request whose tree has "
                "a budget; one quota each."
            ),
        ),
        text("name", "How messages name the subject; by default as it is called."),
        number("containers", f"Containers that are Locked or Running; {_LIMIT}.", default=None),
        number("vcpus", f"Their virtual CPUs; {_LIMIT}.", default=None),
        number("ram", f"Their bytes of RAM; {_LIMIT}.", default=None),
        number("gpus", f"Their GPUs; {_LIMIT}.", default=None),
        number("queued", f"Committed requests that have not started; {_LIMIT}.", default=None),
        number("bytes_stored", f"Bytes in its collections; {_LIMIT}.", default=None),
        Field(name="money", type=Type.FLOAT, doc=f"Dollars in each period; {_LIMIT}."),
        Field(name="period", default="month", null=False, doc="day, week or month."),
        Field(name="budget", type=Type.FLOAT, doc=f"Dollars in all; {_LIMIT}."),
        Field(
            name="warn_share", type=Type.FLOAT, default=0.8, null=False,
            doc="Share of money or budget at which is warned.",
        ),
        flag("stop", "Whether containers that run are stopped at the end of money or budget, too."),
        text("contact", "Whom to ask for more, for messages."),
    ),
    actions=(
        *CRUD,
        RecordAction(
            name="uses", method="GET", scope=Scope.COLLECTION, path="uses", answer="object",
            doc="The present use of several quotas.",
            parameters=(
                Parameter(name="uuids", type=Type.ARRAY, doc="The quotas; 1,000 at most."),
            ),
        ),
    ),
    indexes=(("owner_uuid",), ("modified_at", "uuid")),
    unique=(("subject_uuid",),),
)  # fmt: skip

COMPUTED_PERMISSIONS: Final = RecordType(
    plural="computed_permissions",
    singular="computed_permission",
    infix="",
    doc="Level of a user on a user, a group or a shared record (admin only).",
    fields=(
        text("user_uuid", "Who may."),
        text("target_uuid", "With what."),
        text("perm_level", "can_read, can_write or can_manage."),
    ),
    actions=READ[:1],
    owned=False,
    stored=False,
)
