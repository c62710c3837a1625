"""The record types of container requests and containers.

Rules about containers are in `lading.core.containers`. Source: docs/spec/api, section Records;
docs/spec/containers.
"""

from __future__ import annotations

from typing import Final

from lading.core.ids import Infix
from lading.core.records.record_actions import (
    CANCEL_CONTAINER,
    CRUD,
    EVIDENCE,
    EXPLANATION,
    PLANNING,
    general,
    member,
    satisfiable,
)
from lading.core.records.run_actions import RUN_READING
from lading.core.records.schema import (
    COMMON,
    Field,
    KeyIndex,
    Parameter,
    RecordAction,
    RecordType,
    Scope,
    Type,
    flag,
    mapping,
    moment,
    money,
    number,
    sequence,
    text,
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
        *RUN_READING,
        RecordAction(
            name="log", method="GET", scope=Scope.MEMBER, path="log", has_subpath=True,
            answer="bytes",
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
    # Lists of runs have the workflow runners.
    key_indexes=(KeyIndex("scheduling_parameters", "supervisor", ("created_at", "uuid")),),
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
            name="live", method="POST", scope=Scope.MEMBER, path="live", has_subpath=True,
            answer="object",
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
