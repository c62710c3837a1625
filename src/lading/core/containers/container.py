"""The container record, its states, and the effects that a change of it or of a request has.

    (new) -> Queued -> Locked -> Running -> Complete -> Cancelled
    Locked -> Queued (unlock), Queued | Locked | Running -> Cancelled

- Only the system creates containers; they describe the computation without ambiguity.
- Complete: the command ran and exited, with any code. Cancelled: there is no result.
- Complete -> Cancelled removes a result from the reuse pool.
- `locked_by_uuid`, `auth_uuid`, `supervisor_auth_uuid` are null outside Locked and Running;
  `last_locked_by_uuid` stays, so that a dispatcher can read and explain what it has run. Secrets
  are erased at the end, except the digest that reuse compares.

Events and write permissions are in `lifecycle`. The diagram in the documentation is drawn from
TRANSITIONS. Source: docs/spec/containers, section Container states.

An effect is an action that a change requests from the server in the same transaction, as a value:
`core` decides, the server acts. Effects are carried out in the order in which their classes stand
here. Decisions of dispatchers about containers are recorded as rows in `logs` (`DecisionKind`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import field

from lading.core.errors import Failure
from lading.core.values import EMPTY_OBJECT_DIGEST, JsonObject

NOT_STARTED = "the command cannot be started"
"""Beginning of the error of a container whose command was refused."""
# Exit codes of a shell for such a command (POSIX, 2.8.2).
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
TUNNEL = "tunnel"
"""The `gateway_address` of a container whose supervisor connects to the server."""
HIDDEN = frozenset(
    {
        "secret_mounts",
        "secret_mounts_md5",
        "runtime_token",
        "supervisor_auth_uuid",
        "last_locked_by_uuid",
        "mount_contents",
        "reuse_key",
        "broad_key",
    }
)
"""Columns that no response of the API shows."""
IGNORED = frozenset(
    {
        "kind", "etag", "href", "created_at", "modified_at", "modified_by_user_uuid",
        "modified_by_client_uuid",
    }
)  # fmt: skip
"""Attributes of a container or request that a client may send and that are silently dropped."""
RECIPE_FIELDS = (
    "command",
    "container_image",
    "cwd",
    "environment",
    "mounts",
    "output_path",
    "output_glob",
    "strict_output",
    "runtime_constraints",
    "constraint_ranges",
    "scheduling_parameters",
    "output_storage_classes",
    "runtime_user_uuid",
    "runtime_auth_scopes",
    "runtime_token",
    "secret_mounts",
    "secret_mounts_md5",
    "service",
    "published_ports",
    "steps",
    "mount_contents",
    "reuse_key",
    "broad_key",
)
"""Attributes set at creation that never change, except that secrets are erased, sizes change within
ranges, and a waiting container may pass to another user (`reuse_rights.heir`).
"""
OMITTED = "omitted"
"""Key of `runtime_status` with the number of entries of the output that were not saved."""
# The warning of containers from before the number was recorded.
_OMITTED_WARNING = re.compile(r"(?:^|; )output: ([\d,]+) entr(?:y|ies) not saved")


class ContainerState(StrEnum):
    """The states of a container (docs/spec/containers, section Container states)."""

    QUEUED = "Queued"
    LOCKED = "Locked"
    RUNNING = "Running"
    COMPLETE = "Complete"
    CANCELLED = "Cancelled"


TRANSITIONS: Mapping[ContainerState, tuple[ContainerState, ...]] = MappingProxyType(
    {
        ContainerState.QUEUED: (ContainerState.LOCKED, ContainerState.CANCELLED),
        ContainerState.LOCKED: (
            ContainerState.QUEUED,
            ContainerState.RUNNING,
            ContainerState.CANCELLED,
        ),
        ContainerState.RUNNING: (ContainerState.COMPLETE, ContainerState.CANCELLED),
        ContainerState.COMPLETE: (ContainerState.CANCELLED,),
        ContainerState.CANCELLED: (),
    }
)
INITIAL = ContainerState.QUEUED
# States that never change again, states with a dispatcher's lock, and states that may still have a
# result.
FINAL = frozenset({ContainerState.COMPLETE, ContainerState.CANCELLED})
HELD = frozenset({ContainerState.LOCKED, ContainerState.RUNNING})
LIVE = frozenset({ContainerState.QUEUED, ContainerState.LOCKED, ContainerState.RUNNING})


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container record: the attributes of docs/spec/containers, section Container
    attributes, and the hidden columns.

    Timestamps are API texts. Common columns that no rule needs (owner, etag, modified_*) are left
    out.
    """

    uuid: str
    created_at: str = ""
    state: ContainerState = ContainerState.QUEUED
    command: list[str] = field(default_factory=list)
    container_image: str = ""
    cwd: str = "."
    environment: JsonObject = field(default_factory=dict)
    mounts: JsonObject = field(default_factory=dict)
    output_path: str = ""
    output_glob: list[str] = field(default_factory=list)
    strict_output: bool = False
    runtime_constraints: JsonObject = field(default_factory=dict)
    constraint_ranges: JsonObject = field(default_factory=dict)
    scheduling_parameters: JsonObject = field(default_factory=dict)
    output_storage_classes: list[str] = field(default_factory=list)
    runtime_user_uuid: str | None = None
    runtime_auth_scopes: list[str] = field(default_factory=lambda: ["all"])
    service: bool = False
    published_ports: JsonObject = field(default_factory=dict)
    steps: list[JsonObject] = field(default_factory=list)
    priority: int = 0
    locked_by_uuid: str | None = None
    auth_uuid: str | None = None
    lock_count: int = 0
    runtime_status: JsonObject = field(default_factory=dict)
    progress: float | None = None
    log: str | None = None
    output: str | None = None
    output_properties: JsonObject = field(default_factory=dict)
    exit_code: int | None = None
    usage: JsonObject = field(default_factory=dict)
    cost: float = 0.0
    subrequests_cost: float = 0.0
    started_at: str | None = None
    finished_at: str | None = None
    gateway_address: str = ""
    interactive_session_started: bool = False
    withdrawn_at: str | None = None
    withdrawn_by_uuid: str | None = None
    withdrawn_reason: str | None = None
    secret_mounts: JsonObject = field(default_factory=dict)
    secret_mounts_md5: str = EMPTY_OBJECT_DIGEST
    runtime_token: str | None = None
    supervisor_auth_uuid: str | None = None
    last_locked_by_uuid: str | None = None
    mount_contents: JsonObject = field(default_factory=dict)
    reuse_key: str | None = None
    broad_key: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Container:
        """The container in a row; unknown columns are ignored, null or missing ones take their
        default.
        """
        given = {name: value for name in FIELDS if (value := record.get(name)) is not None}
        # A row is trusted: its attributes were checked when they were written.
        given["state"] = ContainerState(record.get("state") or INITIAL)
        return cls(**given)

    @property
    def nodes(self) -> int:
        """The nodes that it takes; 1 unless it is a gang."""
        nodes = self.scheduling_parameters.get("nodes", 1)
        return nodes if isinstance(nodes, int) else 1

    def to_record(self) -> JsonObject:
        """Every attribute, hidden ones too, ready to be stored."""
        return msgspec.structs.asdict(self)

    def shown(self) -> JsonObject:
        """Every attribute that clients may see."""
        return {name: getattr(self, name) for name in FIELDS if name not in HIDDEN}


FIELDS: tuple[str, ...] = Container.__struct_fields__


def failure_of(container: Container) -> Failure | None:
    """The failure class in `runtime_status`, if one was recorded."""
    named = container.runtime_status.get("failure")
    # `runtime_status` is written by supervisors, older and newer ones too: an unknown class counts
    # as none.
    return Failure(named) if isinstance(named, str) and named in tuple(Failure) else None


def has_succeeded(ended: Container) -> bool:
    """Whether the command of a container ended with exit code 0."""
    return ended.state is ContainerState.COMPLETE and ended.exit_code == 0


def omitted_of(container: Container) -> int:
    """Number of entries of the output that could not be saved."""
    omitted = container.runtime_status.get(OMITTED)
    if isinstance(omitted, int):
        return omitted
    told = _OMITTED_WARNING.search(str(container.runtime_status.get("warning") or ""))
    return int(told[1].replace(",", "")) if told else 0


class StartRefusal(msgspec.Struct, frozen=True):
    """A command that cannot be started: the exit code that a shell gives, and the reason."""

    exit_code: int
    reason: str


def start_refusal(record: Mapping[str, Any]) -> StartRefusal | None:
    """The refusal to start the command of a container's record: 127 where it was not found, 126
    where it cannot be executed. None where it was started, or ended for another reason.
    """
    error = str((record.get("runtime_status") or {}).get("error") or "")
    # The engines of supervisors begin the message so; the rest is that of crun or of the daemon.
    if record["state"] != ContainerState.CANCELLED or NOT_STARTED not in error:
        return None
    is_missing = re.search("not found|no such file", error, re.IGNORECASE)
    code = _NOT_FOUND if is_missing and "chdir" not in error else _NOT_EXECUTABLE
    return StartRefusal(code, error)


class DecisionKind(StrEnum):
    """The `event_type` of such a row."""

    RUN = "decided_to_run"
    NOT_RUN = "decided_not_to_run"
    """For example: no worker has these resources."""
    LOCK_FAILED = "lock_failed"
    DISPATCHED = "dispatched"
    """A supervisor was started, or a job for one submitted."""
    NOT_DISPATCHED = "dispatch"
    """Locked, but no supervisor could be started (Arvados' name for it)."""
    CRASHED = "cleaned_up_crashed"
    """Its supervisor ended, or the batch system reports the end of its job, and the record was not
    final.
    """
    ABANDONED = "cleaned_up_abandoned"
    """The container was locked by this dispatcher, and neither the dispatcher nor the batch system
    had a supervisor for it.
    """


class MintTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Store the two tokens of a container that was just locked. Source: docs/spec/api, section
    Authentication; docs/spec/decisions.

    `auth_uuid` acts for `user_uuid` with `scopes`; `supervisor_uuid` may change this one container
    and nothing else.
    """

    container_uuid: str
    auth_uuid: str
    supervisor_uuid: str
    user_uuid: str
    scopes: tuple[str, ...]


class RevokeTokens(msgspec.Struct, frozen=True):
    """Let these tokens expire now."""

    token_uuids: tuple[str, ...]


class RefreshLog(msgspec.Struct, frozen=True):
    """Update the log collection of every Committed request of the container
    (`finalize.refresh_log`).
    """

    container_uuid: str
    log: str


class Finish(msgspec.Struct, frozen=True):
    """The container ended: retry or finalize its Committed requests (`retry.plan_retries`, then
    `finalize.finalize`).
    """

    container_uuid: str


class CancelChildren(msgspec.Struct, frozen=True):
    """The container ended: cancel every Committed request that it made (`request.cancel`)."""

    container_uuid: str


class Reprioritise(msgspec.Struct, frozen=True):
    """Recompute the priority of these containers, unless they have ended, and of their children.
    See `priority`.
    """

    container_uuids: tuple[str, ...]


class ReprioritiseChildren(msgspec.Struct, frozen=True):
    """The priority of the container was set by hand: recompute its children."""

    container_uuid: str


class Resolve(msgspec.Struct, frozen=True):
    """Find or create the container of a request (`recipe_resolution.resolve`, `reuse.choose`), then
    `request.assign`.
    """


class Adopt(msgspec.Struct, frozen=True):
    """The client chose a container: load it if the client can read it, `recipe.check_adoption`,
    `request.assign`.
    """

    container_uuid: str


class Confirm(msgspec.Struct, frozen=True):
    """A draft is committed with its assigned container: check that it still satisfies the request,
    or resolve.
    """

    container_uuid: str


ContainerEffect: TypeAlias = (
    MintTokens
    | RevokeTokens
    | RefreshLog
    | Finish
    | CancelChildren
    | Reprioritise
    | ReprioritiseChildren
)
RequestEffect: TypeAlias = Resolve | Adopt | Confirm | Reprioritise
