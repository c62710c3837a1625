"""Who may write which attributes of a container: a table of roles (docs/spec/containers, section
Writers).

- A role is the relation of a token to one container. RIGHTS lists the attributes that a role may
write; a write of any other is refused. WRITABLE lists what the state allows; both must allow a
change. - A container that is Locked or Running belongs to the token that locked it
(`locked_by_uuid`) and to the supervisor token created then. Nobody else may change any attribute of
it, including other admins ("only the indicated token can modify"); its requests can be cancelled,
an admin can give it back or end it (`unlock`, `cancel`), and the API's own cascades change its
priority and state. - A dispatcher takes what waits and writes what it holds; an admin's other
tokens write what nobody holds. - The token inside the container reports its results and its
progress, and decides neither on its state nor on how it ended: whatever runs in a container is
trusted with its output alone. - Writing a value equal to the stored one is never an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from lading.core import values as attributes
from lading.core.containers.container import (
    FIELDS,
    HELD,
    HIDDEN,
    IGNORED,
    OMITTED,
    Container,
    ContainerState,
)
from lading.core.errors import Forbidden, Invalid
from lading.core.records.access import Principal
from lading.core.values import Json, JsonObject, humanised, printable, same

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
"""Attributes reported about the run; with a lock, only its holders may write them."""

_SESSION = frozenset({"priority", "gateway_address", "interactive_session_started"})
# A container that ends before it runs has no result.
_EARLY_END = frozenset({"finished_at", "log", "runtime_status", "cost"})
_QUEUED, _LOCKED, _RUNNING = ContainerState.QUEUED, ContainerState.LOCKED, ContainerState.RUNNING
_COMPLETE, _CANCELLED = ContainerState.COMPLETE, ContainerState.CANCELLED

WRITABLE: Mapping[tuple[ContainerState, ContainerState], frozenset[str]] = MappingProxyType(
    {
        (_QUEUED, _QUEUED): frozenset({"priority"}),
        (_QUEUED, _LOCKED): frozenset({"priority", "runtime_status", "log"}),
        (_QUEUED, _CANCELLED): _EARLY_END,
        (_LOCKED, _LOCKED): frozenset({"priority", "runtime_status", "log", "gateway_address"}),
        (_LOCKED, _QUEUED): frozenset({"priority"}),
        (_LOCKED, _RUNNING): PROGRESS | _SESSION | {"started_at"},
        (_LOCKED, _CANCELLED): _EARLY_END,
        (_RUNNING, _RUNNING): PROGRESS | _SESSION,
        (_RUNNING, _COMPLETE): PROGRESS | {"finished_at", "usage"},
        (_RUNNING, _CANCELLED): PROGRESS | {"finished_at", "usage"},
    }
)
"""Attributes that a write may change, by the stored and the new state; missing pairs allow the
state only.
"""

_RUNS = frozenset(
    {
        (_LOCKED, _QUEUED),
        (_LOCKED, _RUNNING),
        (_LOCKED, _CANCELLED),
        (_RUNNING, _COMPLETE),
        (_RUNNING, _CANCELLED),
    }
)
_REPORTED = PROGRESS | {"started_at", "finished_at", "usage", "gateway_address"}
FAILURE = "failure"
"""Key of `runtime_status`: the class of the failure, on which retries and costs depend."""
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
        "usage": attributes.amounts,
        "started_at": attributes.moment,
        "finished_at": attributes.moment,
        "gateway_address": attributes.text,
        "interactive_session_started": attributes.flag,
    }
)
"""The check of every attribute that a write may change."""
_NULLABLE = frozenset({"progress", "log", "output", "exit_code", "started_at", "finished_at"})
_DEFAULTS: Mapping[str, Json] = MappingProxyType(
    {
        "runtime_status": {},
        "output_properties": {},
        "usage": {},
        "gateway_address": "",
        "subrequests_cost": 0.0,
        "cost": 0.0,
    }
)
_READONLY: Mapping[str, str] = MappingProxyType(
    {
        "auth_uuid": "Auth uuid is readonly",
        "locked_by_uuid": "Locked by uuid cannot be written; lock and unlock set it",
    }
)
_OF_SUPERVISOR: Final = (FAILURE, OMITTED)
"""Keys of `runtime_status` that say how the container ended; only its supervisor writes them."""


class Role(StrEnum):
    """Relation of a caller to one container."""

    OWN = "own"  # the token inside the container
    SUPERVISOR = "supervisor"  # the token of its supervisor
    HOLDER = "holder"  # the token that locked it
    DISPATCHER = "dispatcher"  # the token of a dispatcher that does not hold it
    ADMIN = "admin"  # any other token of an admin
    OTHER = "other"


HOLDERS = frozenset({Role.HOLDER, Role.SUPERVISOR})
"""The roles of who is responsible for a container that is Locked or Running."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a role: attributes, and changes of the state (from, to). `states` are those in
    which it may write at all.
    """

    attributes: frozenset[str]
    transitions: frozenset[tuple[ContainerState, ContainerState]]
    states: frozenset[ContainerState] = frozenset(ContainerState)


RIGHTS: Mapping[Role, Rights] = MappingProxyType(
    {
        Role.OWN: Rights(
            frozenset({"output", "output_properties", "runtime_status", "progress"}),
            frozenset(),
            frozenset({_RUNNING}),
        ),
        Role.SUPERVISOR: Rights(_REPORTED, _RUNS),
        Role.HOLDER: Rights(_REPORTED | _SESSION, _RUNS),
        # It takes what waits; priority and end of what it does not hold are not its own.
        Role.DISPATCHER: Rights(frozenset(), frozenset({(_QUEUED, _LOCKED)})),
        # Of containers that nobody holds.
        Role.ADMIN: Rights(
            _EARLY_END | {"priority"},
            frozenset({(_QUEUED, _LOCKED), (_QUEUED, _CANCELLED), (_COMPLETE, _CANCELLED)}),
        ),
        Role.OTHER: Rights(frozenset(), frozenset(), frozenset()),
    }
)
"""The attributes of a container that each role may write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerWriter:
    """The caller.

    `is_dispatcher`: the token is for a dispatcher, and `is_admin` is False then, whoever owns it.
    `is_own`: the token is the container's own runtime token (docs/spec/containers, section Tokens).
    """

    token_uuid: str
    is_admin: bool = False
    is_dispatcher: bool = False
    is_own: bool = False


def as_writer(principal: Principal, container_uuid: str) -> ContainerWriter:
    """A principal as a writer of the container with this uuid."""
    return ContainerWriter(
        token_uuid=principal.token_uuid,
        is_admin=principal.is_admin,
        is_dispatcher=principal.is_dispatcher,
        is_own=principal.container_uuid == container_uuid,
    )


def role_of(container: Container, caller: ContainerWriter) -> Role:
    """Relation of `caller` to `container`."""
    # The container's own token may belong to an admin, so it is tested first.
    if caller.is_own or caller.token_uuid == container.auth_uuid:
        return Role.OWN
    if caller.token_uuid == container.supervisor_auth_uuid:
        return Role.SUPERVISOR
    if not (caller.is_admin or caller.is_dispatcher):
        return Role.OTHER
    if caller.token_uuid == container.locked_by_uuid:
        return Role.HOLDER
    return Role.DISPATCHER if caller.is_dispatcher else Role.ADMIN


def concerns(container: Container, caller: ContainerWriter) -> bool:
    """Whether a container concerns a dispatcher, which may read it then, and whose word about it
    counts: it waits, or this dispatcher was the last to lock it. All containers concern an admin.
    """
    return (
        caller.is_admin
        or container.state is ContainerState.QUEUED
        or caller.token_uuid in (container.locked_by_uuid, container.last_locked_by_uuid)
    )


def check_may_read_auth(container: Container, caller: ContainerWriter) -> None:
    """Allow GET auth for the lock holder and its supervisor only. Raises Forbidden "Not locked by
    your token".
    """
    if role_of(container, caller) not in HOLDERS:
        raise Forbidden("Not locked by your token")


def check_may_read_secrets(container: Container, caller: ContainerWriter) -> None:
    """Allow GET secret_mounts for the container's own token only, not for admins. Raises
    Forbidden.
    """
    if role_of(container, caller) is not Role.OWN:
        raise Forbidden("Token is not associated with this container.")


def writer(container: Container, caller: ContainerWriter) -> Role:
    """The role in which `caller` may write to `container`. Raises Forbidden."""
    role = role_of(container, caller)
    if container.state not in RIGHTS[role].states:
        raise Forbidden()
    return role


def differing(container: Container, changes: Mapping[str, Json]) -> JsonObject:
    """The attributes to write: checked values that differ from the stored ones, and attributes that
    are not writable at all.

    Raises Invalid for unknown attributes and values of the wrong type.
    """
    changed: JsonObject = {}
    for name, value in changes.items():
        if name in IGNORED or name == "owner_uuid":
            continue
        if name not in FIELDS or name in HIDDEN:
            raise Invalid(f"unknown attribute '{printable(name)}' for Container.")
        stored = getattr(container, name)
        if same(value, stored):
            continue
        checked = _checked(name, value)
        if not same(checked, stored):
            changed[name] = checked
    return changed


def _checked(name: str, value: Json) -> Json:
    if name not in CHECKS or (value is None and name in _NULLABLE):
        return value
    return CHECKS[name](name, _DEFAULTS.get(name) if value is None else value)


def check_writable(
    container: Container, changes: Mapping[str, Json], *, state: ContainerState, role: Role
) -> None:
    """Check that a writer may make these changes on the way to `state`. Raises Invalid naming the
    attribute.
    """
    rights = RIGHTS[role]
    # Of others' containers the lock protects every attribute.
    foreign = role in (Role.DISPATCHER, Role.ADMIN) and container.state in HELD
    if "state" in changes:
        _check_transition(container, state, rights, foreign=foreign)
    allowed = WRITABLE.get((container.state, state), frozenset())
    for name in changes.keys() - {"state"}:
        if name not in allowed:
            raise Invalid(
                _READONLY.get(name) or f"{humanised(name)} cannot be modified in state '{state}'"
            )
        if foreign:
            raise Invalid(
                f"{humanised(name)} can only be modified by the token that locked the container"
            )
        if name not in rights.attributes:
            raise Invalid(f"{humanised(name)} cannot be modified by this token")
    if changes.get("interactive_session_started") is False:
        raise Invalid("Interactive session started can only change to true")
    if role is Role.OWN:
        _check_own_status(container, changes)


def _check_transition(
    container: Container, state: ContainerState, rights: Rights, *, foreign: bool
) -> None:
    if foreign:
        raise Invalid(
            "State can only be modified by the token that locked the container; cancel its "
            "requests instead, or end it as an admin with 'lading admin end'"
        )
    if (container.state, state) not in rights.transitions:
        raise Invalid("State cannot be modified by this token")


def _check_own_status(container: Container, changes: Mapping[str, Json]) -> None:
    status, stored = changes.get("runtime_status"), container.runtime_status
    if not isinstance(status, dict):
        return
    for name in _OF_SUPERVISOR:
        if status.get(name, stored.get(name)) != stored.get(name):
            raise Invalid(
                f"Runtime status [{name}] cannot be modified by this token; "
                "the supervisor reports how the container ended"
            )


def kept_status(container: Container, status: Json, *, role: Role) -> Json:
    """A `runtime_status` to store, written by `role`: with the keys of its supervisor, which the
    container itself can neither set nor remove.
    """
    stored = container.runtime_status
    kept = {name: stored[name] for name in _OF_SUPERVISOR if name in stored}
    if role is not Role.OWN or not kept or not isinstance(status, dict):
        return status
    return {**status, **kept}
