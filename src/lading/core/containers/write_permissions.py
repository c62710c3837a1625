"""Write permissions on the attributes of a container.

* A container that is Locked or Running belongs to the token that locked it (`locked_by_uuid`) and
to the supervisor token created then. Nobody else may change any attribute of it, including other
admins ("only the indicated token can modify"); its requests can be cancelled, and the API's own
cascades change its priority and state.
* The token inside the container may write while it is Running, but neither `log` nor `priority`.
* All others may not write at all. Writing a value equal to the stored one is never an error.

See docs/spec/containers, section Writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from lading.core import values as attributes
from lading.core.containers.container import FIELDS, HIDDEN, Container, ContainerState
from lading.core.errors import Forbidden, Invalid
from lading.core.json_values import Json, JsonObject, same
from lading.core.values import humanised, printable

IGNORED = frozenset(
    {
        "kind",
        "etag",
        "href",
        "created_at",
        "modified_at",
        "modified_by_user_uuid",
        "modified_by_client_uuid",
    }
)
"""Attributes that a client may send and that are silently dropped."""

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

WRITABLE: Mapping[tuple[ContainerState, ContainerState], frozenset[str]] = MappingProxyType(
    {
        (ContainerState.QUEUED, ContainerState.QUEUED): frozenset({"priority"}),
        (ContainerState.QUEUED, ContainerState.LOCKED): frozenset(
            {"priority", "runtime_status", "log"}
        ),
        (ContainerState.QUEUED, ContainerState.CANCELLED): _EARLY_END,
        (ContainerState.LOCKED, ContainerState.LOCKED): frozenset(
            {"priority", "runtime_status", "log"}
        ),
        (ContainerState.LOCKED, ContainerState.QUEUED): frozenset({"priority"}),
        (ContainerState.LOCKED, ContainerState.RUNNING): PROGRESS | _SESSION | {"started_at"},
        (ContainerState.LOCKED, ContainerState.CANCELLED): _EARLY_END,
        (ContainerState.RUNNING, ContainerState.RUNNING): PROGRESS | _SESSION,
        (ContainerState.RUNNING, ContainerState.COMPLETE): PROGRESS | {"finished_at"},
        (ContainerState.RUNNING, ContainerState.CANCELLED): PROGRESS | {"finished_at"},
    }
)
"""Attributes that a write may change, by the stored and the new state; missing pairs allow the
state only.
"""

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
_NULLABLE = frozenset({"progress", "log", "output", "exit_code", "started_at", "finished_at"})
_DEFAULTS: Mapping[str, Json] = MappingProxyType(
    {
        "runtime_status": {},
        "output_properties": {},
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


class Role(StrEnum):
    """Relation of a caller to one container."""

    OWN = "own"  # the token inside the container
    SUPERVISOR = "supervisor"  # the token of its supervisor
    HOLDER = "holder"  # the token that locked it
    ADMIN = "admin"  # any other admin
    OTHER = "other"


FORBIDDEN: Mapping[Role, frozenset[str]] = MappingProxyType(
    {
        Role.OWN: frozenset({"log", "priority", "gateway_address", "interactive_session_started"}),
        Role.SUPERVISOR: frozenset({"priority", "interactive_session_started"}),
    }
)
"""Attributes that some writers may not write although the state allows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerWriter:
    """The caller.

    `is_own`: the token is the container's own runtime token (docs/spec/containers, section Tokens).
    """

    token_uuid: str
    is_admin: bool = False
    is_own: bool = False


def role_of(container: Container, caller: ContainerWriter) -> Role:
    """Relation of `caller` to `container`."""
    # The container's own token may belong to an admin, so it is tested first.
    if caller.is_own or caller.token_uuid == container.auth_uuid:
        return Role.OWN
    if caller.token_uuid == container.supervisor_auth_uuid:
        return Role.SUPERVISOR
    if not caller.is_admin:
        return Role.OTHER
    return Role.HOLDER if caller.token_uuid == container.locked_by_uuid else Role.ADMIN


def check_may_read_auth(container: Container, caller: ContainerWriter) -> None:
    """Allow GET auth for the lock holder and its supervisor only. Raises Forbidden "Not locked by
    your token".
    """
    if role_of(container, caller) not in (Role.HOLDER, Role.SUPERVISOR):
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
    if role is Role.OTHER or (role is Role.OWN and container.state is not ContainerState.RUNNING):
        raise Forbidden()
    return role


def differing(container: Container, changes: Mapping[str, Json]) -> JsonObject:
    """The attributes to write: checked values that differ from the stored ones, and attributes that
    are not writable at all.

    Raises Invalid for unknown attributes and values of the wrong type.
    """
    wanted: JsonObject = {}
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
            wanted[name] = checked
    return wanted


def _checked(name: str, value: Json) -> Json:
    if name not in CHECKS or (value is None and name in _NULLABLE):
        return value
    return CHECKS[name](name, _DEFAULTS.get(name) if value is None else value)


def check_writable(
    container: Container, wanted: Mapping[str, Json], *, state: ContainerState, role: Role
) -> None:
    """Check that a writer may make these changes on the way to `state`. Raises Invalid naming the
    attribute.
    """
    allowed = WRITABLE.get((container.state, state), frozenset())
    # Another admin: the lock protects every attribute.
    foreign = container.locked_by_uuid is not None and role is Role.ADMIN
    if foreign and "state" in wanted:
        raise Invalid(
            "State can only be modified by the token that locked the container; "
            "cancel its requests instead"
        )
    for name in wanted.keys() - {"state"}:
        if name not in allowed:
            raise Invalid(
                _READONLY.get(name) or f"{humanised(name)} cannot be modified in state '{state}'"
            )
        if name in FORBIDDEN.get(role, ()):
            raise Invalid(f"{humanised(name)} cannot be modified by this token")
        if foreign:
            raise Invalid(
                f"{humanised(name)} can only be modified by the token that locked the container"
            )
    if wanted.get("interactive_session_started") is False:
        raise Invalid("Interactive session started can only change to true")
