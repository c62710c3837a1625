"""Containers: the record of one computation, its states, and who may write what when.

    (new) -> Queued -> Locked -> Running -> Complete -> Cancelled
    Locked -> Queued (unlock), Queued | Locked | Running -> Cancelled

* Only the system creates containers; they say without ambiguity what was run (seed 002, "Container" schema).
* A container that is Locked or Running belongs to the token that locked it (`locked_by_uuid`) and to the supervisor
  token minted then. Another admin may change state and priority, not the progress attributes (api-contract 1.5).
* The token inside the container may write while it is Running, but neither `log` nor `priority`.
* Complete -> Cancelled takes a result out of the reuse pool.
* `locked_by_uuid`, `auth_uuid`, `supervisor_auth_uuid` are null outside Locked and Running; secrets are wiped at the end.
* Writing a value equal to the stored one is never an error.

Source: api-contract 1.5, 1.14, 2.1-2.4; dispatch-contract 0.1. The diagram in the documentation is drawn from TRANSITIONS.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from lading.core.effects import (
    CancelChildren,
    ContainerEffect,
    Finish,
    MintTokens,
    RefreshLog,
    Reprioritise,
    RevokeTokens,
)
from lading.core import values as attributes
from lading.core.errors import Failure, Forbidden, IllegalTransition, Invalid
from lading.core.jsonvalue import EMPTY_OBJECT_DIGEST, Json, JsonObject, same
from lading.core.values import humanised


class State(StrEnum):
    """The states of a container (seed 002; `Failed` does not exist, see decisions.md)."""

    QUEUED = "Queued"
    LOCKED = "Locked"
    RUNNING = "Running"
    COMPLETE = "Complete"
    CANCELLED = "Cancelled"


TRANSITIONS: Mapping[State, tuple[State, ...]] = MappingProxyType(
    {
        State.QUEUED: (State.LOCKED, State.CANCELLED),
        State.LOCKED: (State.QUEUED, State.RUNNING, State.CANCELLED),
        State.RUNNING: (State.COMPLETE, State.CANCELLED),
        State.COMPLETE: (State.CANCELLED,),
        State.CANCELLED: (),
    }
)
INITIAL = State.QUEUED
FINAL = frozenset({State.COMPLETE, State.CANCELLED})
HELD = frozenset({State.LOCKED, State.RUNNING})
LIVE = frozenset({State.QUEUED, State.LOCKED, State.RUNNING})

HIDDEN = frozenset({"secret_mounts", "secret_mounts_md5", "runtime_token", "supervisor_auth_uuid", "reuse_key"})
"""Columns that no answer of the API shows."""

IGNORED = frozenset(
    {"kind", "etag", "href", "created_at", "modified_at", "modified_by_user_uuid", "modified_by_client_uuid"}
)
"""Attributes that a client may send and that are silently dropped (api-contract 4.3)."""

PROGRESS = frozenset(
    {
        "progress",
        "runtime_status",
        "subrequests_cost",
        "cost",
        "log",
        "output",
        "output_properties",
        "exit_code",
    }
)
"""What is reported about the run; with a lock, only its holders may write it."""

_SESSION = frozenset({"priority", "gateway_address", "interactive_session_started"})
_EARLY_END = frozenset({"finished_at", "log", "runtime_status", "cost"})

WRITABLE: Mapping[tuple[State, State], frozenset[str]] = MappingProxyType(
    {
        (State.QUEUED, State.QUEUED): frozenset({"priority"}),
        (State.QUEUED, State.LOCKED): frozenset({"priority", "runtime_status", "log"}),
        (State.QUEUED, State.CANCELLED): _EARLY_END,
        (State.LOCKED, State.LOCKED): frozenset({"priority", "runtime_status", "log"}),
        (State.LOCKED, State.QUEUED): frozenset({"priority"}),
        (State.LOCKED, State.RUNNING): PROGRESS | _SESSION | {"started_at"},
        (State.LOCKED, State.CANCELLED): _EARLY_END,
        (State.RUNNING, State.RUNNING): PROGRESS | _SESSION,
        (State.RUNNING, State.COMPLETE): PROGRESS | {"finished_at"},
        (State.RUNNING, State.CANCELLED): PROGRESS | {"finished_at"},
    }
)
"""Attributes that a write may change, by the stored and the new state; pairs left out allow nothing but the state."""

RECIPE_FIELDS = (
    "command",
    "container_image",
    "cwd",
    "environment",
    "mounts",
    "output_path",
    "output_glob",
    "runtime_constraints",
    "scheduling_parameters",
    "output_storage_classes",
    "runtime_user_uuid",
    "runtime_auth_scopes",
    "runtime_token",
    "secret_mounts",
    "secret_mounts_md5",
    "service",
    "published_ports",
    "reuse_key",
)
"""Attributes that are given at creation and never change (but for the wiping of secrets)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container record: the attributes of api-contract 1.5 and the hidden columns.

    Timestamps are API texts. Common columns that rules do not need (owner, etag, modified_*) are left out.
    """

    uuid: str
    created_at: str = ""
    state: State = State.QUEUED
    command: list[str] = field(default_factory=list)
    container_image: str = ""
    cwd: str = "."
    environment: JsonObject = field(default_factory=dict)
    mounts: JsonObject = field(default_factory=dict)
    output_path: str = ""
    output_glob: list[str] = field(default_factory=list)
    runtime_constraints: JsonObject = field(default_factory=dict)
    scheduling_parameters: JsonObject = field(default_factory=dict)
    output_storage_classes: list[str] = field(default_factory=list)
    runtime_user_uuid: str | None = None
    runtime_auth_scopes: list[str] = field(default_factory=lambda: ["all"])
    service: bool = False
    published_ports: JsonObject = field(default_factory=dict)
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
    cost: float = 0.0
    subrequests_cost: float = 0.0
    started_at: str | None = None
    finished_at: str | None = None
    gateway_address: str = ""
    interactive_session_started: bool = False
    secret_mounts: JsonObject = field(default_factory=dict)
    secret_mounts_md5: str = EMPTY_OBJECT_DIGEST
    runtime_token: str | None = None
    supervisor_auth_uuid: str | None = None
    reuse_key: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Container:
        """The container in a row; unknown columns are ignored, null or missing ones take their default."""
        known = {name: record[name] for name in FIELDS if record.get(name) is not None}
        return cls(**{**known, "state": State(known.get("state", INITIAL))})

    def to_record(self) -> JsonObject:
        """Every attribute, hidden ones too, ready to be stored."""
        return {name: getattr(self, name) for name in FIELDS}

    def shown(self) -> JsonObject:
        """Every attribute that clients may see."""
        return {name: getattr(self, name) for name in FIELDS if name not in HIDDEN}


FIELDS: tuple[str, ...] = tuple(one.name for one in dataclasses.fields(Container))


CHECKS: Mapping[str, attributes.Check] = MappingProxyType(
    {
        "priority": attributes.whole(0, (1 << 63) - 1),
        "progress": attributes.between(0, 1),
        "runtime_status": attributes.runtime_status,
        "subrequests_cost": attributes.between(0, 1e15),
        "cost": attributes.between(0, 1e15),
        "log": attributes.pdh,
        "output": attributes.pdh,
        "output_properties": attributes.json_object,
        "exit_code": attributes.whole(-(1 << 31), (1 << 31) - 1),
        "started_at": attributes.moment,
        "finished_at": attributes.moment,
        "gateway_address": attributes.text,
        "interactive_session_started": attributes.flag,
    }
)
"""The check of every attribute that a write may change."""
GUARDED = ("state", "locked_by_uuid", "lock_count")
"""What compare-and-set compares: a container locked again is another attempt, although its state is equal."""

_UNHELD: Mapping[str, Json] = MappingProxyType(
    {"locked_by_uuid": None, "auth_uuid": None, "supervisor_auth_uuid": None}
)
_READONLY: Mapping[str, str] = MappingProxyType(
    {
        "auth_uuid": "Auth uuid is readonly",
        "locked_by_uuid": "Locked by uuid cannot be written; lock and unlock set it",
    }
)
_FAILURES = frozenset(Failure)
_NULLABLE = frozenset({"progress", "log", "output", "exit_code", "started_at", "finished_at"})
_DEFAULTS: Mapping[str, Json] = MappingProxyType(
    {"runtime_status": {}, "output_properties": {}, "gateway_address": "", "subrequests_cost": 0.0, "cost": 0.0}
)


class Role(StrEnum):
    """What a caller is to one container."""

    OWN = "own"  # the token inside the container
    SUPERVISOR = "supervisor"  # the token of its supervisor
    HOLDER = "holder"  # the token that locked it
    ADMIN = "admin"  # any other admin
    OTHER = "other"


FORBIDDEN: Mapping[Role, frozenset[str]] = MappingProxyType(
    {Role.OWN: frozenset({"log", "priority"}), Role.SUPERVISOR: frozenset({"priority"})}
)
"""What some writers may not write although the state allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking.

    `is_own`: the token is the container's own runtime token (api-contract 2.4).
    """

    token_uuid: str
    is_admin: bool = False
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokens:
    """Uuids for the tokens that a lock mints."""

    auth_uuid: str
    supervisor_uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A container after an event.

    `changed` holds exactly the attributes that differ, as values to store; `expected` what must still be stored for
    the change to apply (compare-and-set); `effects` what to do in the same transaction.
    """

    container: Container
    changed: JsonObject
    expected: JsonObject
    effects: tuple[ContainerEffect, ...] = ()


def role_of(container: Container, caller: Caller) -> Role:
    """What `caller` is to `container`."""
    if caller.is_own or caller.token_uuid == container.auth_uuid:
        return Role.OWN
    if caller.token_uuid == container.supervisor_auth_uuid:
        return Role.SUPERVISOR
    if not caller.is_admin:
        return Role.OTHER
    return Role.HOLDER if caller.token_uuid == container.locked_by_uuid else Role.ADMIN


def update(
    container: Container,
    changes: Mapping[str, Json],
    *,
    caller: Caller,
    now: str,
    max_attempts: int = 10,
    tokens: NewTokens | None = None,
    output_readable: bool = True,
) -> Change:
    """The container after a client writes `changes` (PUT containers/{uuid}).

    `now` is an API timestamp. `tokens` are needed if the write may lock (state=Locked). `output_readable`: the caller
    can read a collection, trashed or not, whose portable data hash is the `output` being written.
    A give-back (Locked -> Queued) after `max_attempts` locks becomes Cancelled.
    Raises Forbidden, Invalid naming the attribute, IllegalTransition. Nothing is changed then.
    """
    role = _writer(container, caller)
    wanted = _differing(container, changes)
    state = _next_state(container, wanted)
    _check_writable(container, wanted, state=state, role=role)
    values = {name: value for name, value in wanted.items() if name != "state"}
    if values.get("output") is not None and not output_readable:
        raise Invalid("Output collection must exist and be readable by current user.")
    if state is container.state:
        return _change(container, values)
    if state is State.LOCKED:
        return _locked(container, values, caller=caller, tokens=tokens)
    if state is State.QUEUED:
        return _given_back(container, values, now=now, max_attempts=max_attempts)
    if state is State.RUNNING:
        return _change(container, {"started_at": now, **values, "state": state})
    return _ended(container, values, state=state, now=now)


def lock(container: Container, *, caller: Caller, tokens: NewTokens) -> Change:
    """Queued -> Locked by `caller` (POST lock). Raises Forbidden, or Invalid "cannot lock when X"."""
    if not caller.is_admin:
        raise Forbidden()
    if container.state is not State.QUEUED:
        raise Invalid(f"cannot lock when {container.state}")
    return _locked(container, {}, caller=caller, tokens=tokens)


def unlock(container: Container, *, caller: Caller, now: str, max_attempts: int = 10) -> Change:
    """Locked -> Queued, or Cancelled after `max_attempts` locks (POST unlock).

    Raises Invalid "cannot unlock when X", Forbidden "locked by a different token".
    """
    role = role_of(container, caller)
    if role is Role.OTHER or role is Role.OWN:
        raise Forbidden()
    if container.state is not State.LOCKED:
        raise Invalid(f"cannot unlock when {container.state}")
    if role is Role.ADMIN:
        raise Forbidden("locked by a different token")
    return _given_back(container, {}, now=now, max_attempts=max_attempts)


def cancel(container: Container, *, now: str, reason: str = "") -> Change:
    """The system cancels a container that nothing wants; `reason` goes to runtime_status.error.

    Raises IllegalTransition when it has ended already, be it Complete.
    """
    if container.state in FINAL:
        raise IllegalTransition(container.uuid, container.state, State.CANCELLED)
    status = {**container.runtime_status, "error": reason} if reason else container.runtime_status
    return _ended(container, {"runtime_status": status}, state=State.CANCELLED, now=now)


def check_may_read_auth(container: Container, caller: Caller) -> None:
    """GET auth is for the lock holder and its supervisor only. Raises Forbidden "Not locked by your token"."""
    if role_of(container, caller) not in (Role.HOLDER, Role.SUPERVISOR):
        raise Forbidden("Not locked by your token")


def check_may_read_secrets(container: Container, caller: Caller) -> None:
    """GET secret_mounts is for the container's own token only, not even for admins. Raises Forbidden."""
    if role_of(container, caller) is not Role.OWN:
        raise Forbidden("Token is not associated with this container.")


def failure_of(container: Container) -> Failure | None:
    """The failure class in `runtime_status`, if one was recorded."""
    named = container.runtime_status.get("failure")
    return Failure(named) if isinstance(named, str) and named in _FAILURES else None


def _writer(container: Container, caller: Caller) -> Role:
    role = role_of(container, caller)
    if role is Role.OTHER or (role is Role.OWN and container.state is not State.RUNNING):
        raise Forbidden()
    return role


def _differing(container: Container, changes: Mapping[str, Json]) -> JsonObject:
    """The attributes to write: checked values that differ from the stored ones, and whatever is not writable at all."""
    wanted: JsonObject = {}
    for name, value in changes.items():
        if name in IGNORED or name == "owner_uuid":
            continue
        if name not in FIELDS or name in HIDDEN:
            raise Invalid(f"unknown attribute '{name}' for Container.")
        stored = getattr(container, name)
        if same(value, stored):
            continue
        checked = _checked(name, value)
        if not same(checked, stored):
            wanted[name] = checked
    return wanted


def _checked(name: str, value: Json) -> Json:
    if name not in CHECKS or (value is None and name in _NULLABLE):
        return value
    return CHECKS[name](name, _DEFAULTS.get(name) if value is None else value)


def _next_state(container: Container, wanted: Mapping[str, Json]) -> State:
    named = wanted.get("state", container.state)
    if named not in tuple(State):
        raise Invalid(f"State {named!r} is not a state of a container; use one of {', '.join(State)}")
    state = State(str(named))
    if state is not container.state and state not in TRANSITIONS[container.state]:
        raise IllegalTransition(container.uuid, container.state, state)
    return state


def _check_writable(container: Container, wanted: Mapping[str, Json], *, state: State, role: Role) -> None:
    allowed = WRITABLE.get((container.state, state), frozenset())
    foreign = container.locked_by_uuid is not None and role is Role.ADMIN
    for name in wanted.keys() - {"state"}:
        if name not in allowed:
            raise Invalid(_READONLY.get(name) or f"{humanised(name)} cannot be modified in state '{state}'")
        if name in FORBIDDEN.get(role, ()):
            raise Invalid(f"{humanised(name)} cannot be modified by this token")
        if foreign and name in PROGRESS:
            raise Invalid(f"{humanised(name)} can only be modified by the token that locked the container")
    if wanted.get("interactive_session_started") is False:
        raise Invalid("Interactive session started can only change to true")


def _given_back(container: Container, values: JsonObject, *, now: str, max_attempts: int) -> Change:
    if container.lock_count < max_attempts:
        return _change(
            container, {**values, **_UNHELD, "runtime_status": {}, "state": State.QUEUED}, _revoked(container)
        )
    status: JsonObject = {
        "error": "Failed to start container.  Cancelled after exceeding 'Containers.MaxDispatchAttempts' "
        f"(lock_count={container.lock_count})",
        "failure": container.runtime_status.get("failure", Failure.INFRASTRUCTURE),
    }
    return _ended(container, {"runtime_status": status}, state=State.CANCELLED, now=now)


def _ended(container: Container, values: JsonObject, *, state: State, now: str) -> Change:
    if container.state is State.COMPLETE:
        return _change(container, {**values, "state": state})
    wiped: JsonObject = {**_UNHELD, "secret_mounts": {}, "runtime_token": None, "state": state}
    effects: list[ContainerEffect] = [Finish(container.uuid), CancelChildren(container.uuid)]
    if container.state in HELD:
        effects.insert(0, _revoked(container))
    return _change(container, {"finished_at": now, **values, **wiped}, *effects)


def _revoked(container: Container) -> RevokeTokens:
    return RevokeTokens(tuple(uuid for uuid in (container.auth_uuid, container.supervisor_auth_uuid) if uuid))


def _change(container: Container, values: Mapping[str, Json], *effects: ContainerEffect) -> Change:
    changed = {name: value for name, value in values.items() if not same(value, getattr(container, name))}
    after = dataclasses.replace(container, **changed)  # type: ignore[arg-type]
    extra: list[ContainerEffect] = []
    if "priority" in changed:
        extra.append(Reprioritise((container.uuid,)))
    if after.log is not None and "log" in changed and after.state in LIVE:
        extra.append(RefreshLog(container.uuid, after.log))
    expected: JsonObject = {name: getattr(container, name) for name in GUARDED}
    return Change(container=after, changed=changed, expected=expected, effects=(*effects, *extra))


def _locked(container: Container, values: JsonObject, *, caller: Caller, tokens: NewTokens | None) -> Change:
    priority = values.get("priority", container.priority)
    if not isinstance(priority, int) or priority <= 0:
        raise Invalid("cannot lock when priority<=0")
    if tokens is None:
        raise Invalid(f"State cannot be written as Locked; use POST /arvados/v1/containers/{container.uuid}/lock")
    auth_uuid = None if container.runtime_token else tokens.auth_uuid
    minted = MintTokens(
        container_uuid=container.uuid,
        auth_uuid=auth_uuid,
        supervisor_uuid=tokens.supervisor_uuid,
        user_uuid=container.runtime_user_uuid or "",
        scopes=tuple(container.runtime_auth_scopes),
    )
    implied: JsonObject = {
        "state": State.LOCKED,
        "locked_by_uuid": caller.token_uuid,
        "auth_uuid": auth_uuid,
        "supervisor_auth_uuid": tokens.supervisor_uuid,
        "lock_count": container.lock_count + 1,
    }
    return _change(container, {**values, **implied}, minted)
