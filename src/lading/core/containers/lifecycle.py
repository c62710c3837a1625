"""Events of a container's life: write, lock, unlock, cancel. `writers` says who may write what.

Each event returns the changed container (docs/spec/containers, section Container states):

- Locking creates two tokens: one for inside the container, one for its supervisor. Leaving Locked
  and Running revokes both, so a supervisor that lost the container can no longer write.
- A container that is given back too often is cancelled (`max_attempts`).
- A lock may give the container more resources, within its `constraint_ranges`; when given back, it
  has the minimum again.
- While it is Queued only the system writes its `runtime_status`: the warning that no machine can
  hold it.
- Times are filled in: `started_at` on Running, `finished_at` at the end, unless the supervisor
  reports them.
- `exit_code` is null if and only if the state is not Complete.
- A refused event changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec
from msgspec import structs

from lading.core.containers import sessions
from lading.core.containers.constraint_ranges import granted, least
from lading.core.containers.container import (
    FINAL,
    HELD,
    LIVE,
    TRANSITIONS,
    CancelChildren,
    Container,
    ContainerEffect,
    ContainerState,
    Finish,
    MintTokens,
    RefreshLog,
    Reprioritise,
    ReprioritiseChildren,
    RevokeTokens,
)
from lading.core.containers.mounting import mount_resolution
from lading.core.containers.recipe import resized
from lading.core.containers.sessions import NOWHERE, Places
from lading.core.containers.steps import image_names
from lading.core.containers.writers import (
    ContainerWriter,
    Role,
    check_writable,
    differing,
    kept_status,
    role_of,
    writer,
)
from lading.core.errors import Failure, Forbidden, IllegalTransition, Invalid
from lading.core.records import access
from lading.core.values import Json, JsonObject, same

GUARDED = ("state", "locked_by_uuid", "lock_count")
"""Attributes compared by compare-and-set: a container that was locked again is another attempt,
although its state is equal.
"""

_UNHELD: Mapping[str, Json] = MappingProxyType(
    {"locked_by_uuid": None, "auth_uuid": None, "supervisor_auth_uuid": None}
)
_ENDED: Mapping[str, Json] = MappingProxyType(
    {**_UNHELD, "secret_mounts": {}, "runtime_token": None}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokens:
    """Uuids for the tokens created by a lock."""

    auth_uuid: str
    supervisor_uuid: str


class ContainerChange(msgspec.Struct, frozen=True, kw_only=True):
    """A container after an event.

    `changed` has exactly the attributes that differ, as values to store; `expected` the stored
    values that must still hold for the change to apply (compare-and-set); `effects` the actions in
    the same transaction.
    """

    container: Container
    changed: JsonObject
    expected: JsonObject
    effects: tuple[ContainerEffect, ...] = ()


def update(
    container: Container,
    changes: Mapping[str, Json],
    *,
    caller: ContainerWriter,
    now: str,
    max_attempts: int = 10,
    tokens: NewTokens | None = None,
    output_readable: bool = True,
    places: Places = NOWHERE,
) -> ContainerChange:
    """The container after a client writes `changes` (PUT containers/{uuid}).

    `now` is an API timestamp. `tokens` are needed if the write may lock (state=Locked).
    `output_readable`: the container's user can read a collection, trashed or not, with the portable
    data hash that is the container's output after the write (`output_of`). `places` are the allowed
    gateway addresses. A give-back (Locked -> Queued) after `max_attempts` locks becomes Cancelled.

    Raises Forbidden, Invalid naming the attribute, IllegalTransition. Nothing is changed then.
    """
    role = writer(container, caller)
    wanted = differing(container, changes)
    state = _next_state(container, changes)
    check_writable(container, wanted, state=state, role=role)
    _check_exit_code(container, wanted, state=state)
    values = {name: value for name, value in wanted.items() if name != "state"}
    if not output_readable and ("output" in values or state is not container.state):
        raise Invalid("Output collection must exist and be readable by current user.")
    if "runtime_status" in values:
        values["runtime_status"] = kept_status(container, values["runtime_status"], role=role)
    if "gateway_address" in values:
        values["gateway_address"] = sessions.check_gateway_address(
            str(values["gateway_address"]),
            stored=container.gateway_address,
            places=places,
            is_holder=role is Role.HOLDER,
        )
    if state is container.state:
        return _change(container, values)
    if state is ContainerState.LOCKED:
        return _locked(container, values, caller=caller, tokens=tokens)
    if state is ContainerState.QUEUED:
        return _given_back(container, values, now=now, max_attempts=max_attempts)
    if state is ContainerState.RUNNING:
        # A time in `values` takes precedence.
        return _change(container, {"started_at": now, **values, "state": state})
    if state is ContainerState.CANCELLED:
        # Named here also where it equals the announced one, which `_ended` drops.
        values = {"output": output_of(container, changes), **values}
    return _ended(container, values, state=state, now=now)


def output_of(container: Container, changes: Mapping[str, Json]) -> str | None:
    """The portable data hash that is the output of the container after a write of `changes`: the
    one that they name, else the one that the container announced while it ran. A container that is
    Cancelled keeps what its supervisor reports with the end, and nothing that it announced.
    """
    announced = None if changes.get("state") == ContainerState.CANCELLED else container.output
    output = changes.get("output", announced)
    return output if isinstance(output, str) else None


def lock(
    container: Container,
    *,
    caller: ContainerWriter,
    tokens: NewTokens,
    amounts: Mapping[str, Json] = MappingProxyType({}),
) -> ContainerChange:
    """Queued -> Locked by `caller` (POST lock), which gives it `amounts` of ram and vcpus.

    Raises Forbidden, or Invalid "cannot lock when X", or for amounts outside the ranges.
    """
    if not (caller.is_dispatcher or caller.is_admin):
        raise Forbidden()
    if container.state is not ContainerState.QUEUED:
        raise Invalid(f"cannot lock when {container.state}")
    values: JsonObject = {}
    if amounts:
        sizes = granted(container.runtime_constraints, container.constraint_ranges, amounts)
        values = resized(container, sizes, container.constraint_ranges)
    return _locked(container, values, caller=caller, tokens=tokens)


def is_lockable(record: Mapping[str, Json]) -> bool:
    """Whether a lock of a container with these attributes succeeds, as far as state and priority
    decide it.
    """
    priority = record["priority"]
    return record["state"] == ContainerState.QUEUED and isinstance(priority, int) and priority > 0


def unlock(
    container: Container, *, caller: ContainerWriter, now: str, max_attempts: int = 10
) -> ContainerChange:
    """Locked -> Queued, or Cancelled after `max_attempts` locks (POST unlock), by its holders and
    by admins.

    Raises Invalid "cannot unlock when X", Forbidden "locked by a different token".
    """
    role = role_of(container, caller)
    # The order of these tests fixes which error Arvados' clients see.
    if role is Role.OTHER or role is Role.OWN:
        raise Forbidden()
    if container.state is not ContainerState.LOCKED:
        raise Invalid(f"cannot unlock when {container.state}")
    if role is Role.DISPATCHER:
        raise Forbidden("locked by a different token")
    return give_back(container, now=now, max_attempts=max_attempts)


def give_back(container: Container, *, now: str, max_attempts: int = 10) -> ContainerChange:
    """A Locked container is Queued again, or Cancelled after `max_attempts` locks."""
    return _given_back(container, {}, now=now, max_attempts=max_attempts)


def cancel(
    container: Container, *, now: str, reason: str = "", failure: Failure | None = None
) -> ContainerChange:
    """The system or an admin ends a container; `reason` goes to runtime_status.error, `failure` to
    runtime_status.failure, its priority becomes 0.

    Raises IllegalTransition when it has ended, also when it is Complete.
    """
    if container.state in FINAL:
        raise IllegalTransition(container.uuid, container.state, ContainerState.CANCELLED)
    status = {**container.runtime_status, "error": reason} if reason else container.runtime_status
    if failure is not None:
        status = {**status, "failure": failure}
    return _ended(
        container,
        {"runtime_status": status, "priority": 0},
        state=ContainerState.CANCELLED,
        now=now,
    )


def with_log(change: ContainerChange, log: str) -> ContainerChange:
    """The change of a container that ends, with the log that was saved for it."""
    return structs.replace(
        change,
        container=structs.replace(change.container, log=log),
        changed={**change.changed, "log": log},
    )


def cancelled_waiting(status: JsonObject, *, now: str, reason: str) -> JsonObject:
    """Attributes of a container that the system cancels while it is Queued; `status` is its
    `runtime_status` before.
    """
    return {
        "runtime_status": {**status, "error": reason},
        "priority": 0,
        "finished_at": now,
        **_ENDED,
        "state": ContainerState.CANCELLED,
    }


def warn(container: Container, warning: str) -> ContainerChange:
    """The waiting container with `warning` as runtime_status.warning, "" for none.

    Raises Invalid unless it is Queued: later its status belongs to its supervisor.
    """
    if container.state is not ContainerState.QUEUED:
        raise Invalid(
            f"{container.uuid}: is {container.state}; only one that waits is warned about"
        )
    status = {name: value for name, value in container.runtime_status.items() if name != "warning"}
    return _change(
        container, {"runtime_status": {**status, "warning": warning} if warning else status}
    )


def enter(container: Container) -> ContainerChange:
    """The container after the server lets a user in; the token of the lock does not matter. Raises
    Invalid unless it is Running.
    """
    if container.state is not ContainerState.RUNNING:
        raise Invalid(
            f"{container.uuid}: is {container.state}; there are sessions in running containers only"
        )
    return _change(container, {"interactive_session_started": True})


def _check_exit_code(
    container: Container, changes: Mapping[str, Json], *, state: ContainerState
) -> None:
    """Check that a container has an exit code if and only if it is Complete: an end that was forced
    on the command is no result of it. Raises Invalid.
    """
    if state is ContainerState.COMPLETE:
        if changes.get("exit_code", container.exit_code) is None:
            raise Invalid("Exit code must be a number when the state is Complete")
    elif changes.get("exit_code") is not None:
        raise Invalid(
            f"Exit code must be null when the state is {state}; send it with the state Complete"
        )


def _next_state(container: Container, changes: Mapping[str, Json]) -> ContainerState:
    named = changes.get("state", container.state)
    # To write Locked is to lock: of several writers one succeeds, also if all have the same token.
    if "state" in changes and named == container.state == ContainerState.LOCKED:
        raise Invalid("cannot lock when Locked")
    if named not in tuple(ContainerState):
        raise Invalid(
            f"State {named!r} is not a state of a container; use one of {', '.join(ContainerState)}"
        )
    state = ContainerState(str(named))
    if state is not container.state and state not in TRANSITIONS[container.state]:
        raise IllegalTransition(container.uuid, container.state, state)
    return state


def _given_back(
    container: Container, values: JsonObject, *, now: str, max_attempts: int
) -> ContainerChange:
    if container.lock_count < max_attempts:
        room = container.constraint_ranges
        sizes = resized(container, least(container.runtime_constraints, room), room) if room else {}
        return _change(
            container,
            {
                **values,
                **_UNHELD,
                **sizes,
                "runtime_status": {},
                "gateway_address": "",
                "state": ContainerState.QUEUED,
            },
            _revoked(container),
            # Another container of its group may be first now.
            Reprioritise((container.uuid,)),
        )
    status: JsonObject = {
        "error": "Failed to start container.  "
        "Cancelled after exceeding 'Containers.MaxDispatchAttempts' "
        f"(lock_count={container.lock_count})",
        "failure": container.runtime_status.get("failure", Failure.INFRASTRUCTURE),
    }
    if (detail := container.runtime_status.get("errorDetail")) is not None:
        status["errorDetail"] = detail
    return _ended(
        container,
        {"runtime_status": status, "priority": 0},
        state=ContainerState.CANCELLED,
        now=now,
    )


def _ended(
    container: Container, values: JsonObject, *, state: ContainerState, now: str
) -> ContainerChange:
    # A result is withdrawn from reuse: everything else ended before.
    if container.state is ContainerState.COMPLETE:
        return _change(container, {"state": state, "exit_code": None})
    wiped: JsonObject = {**_ENDED, "state": state}
    effects: list[ContainerEffect] = [Finish(container.uuid), CancelChildren(container.uuid)]
    # Only a held container has tokens.
    if container.state in HELD:
        effects.insert(0, _revoked(container))
    # The supervisor knows the time of the end, which may be long before its report; it is bounded
    # by the present and the start.
    finished = max(min(str(values.get("finished_at") or now), now), container.started_at or "")
    if state is ContainerState.CANCELLED:
        values = {"output": None, **values, "exit_code": None}
    return _change(container, {**values, "finished_at": finished, **wiped}, *effects)


def _revoked(container: Container) -> RevokeTokens:
    return RevokeTokens(
        tuple(uuid for uuid in (container.auth_uuid, container.supervisor_auth_uuid) if uuid)
    )


def _change(
    container: Container, values: Mapping[str, Json], *effects: ContainerEffect
) -> ContainerChange:
    changed = {
        name: value for name, value in values.items() if not same(value, getattr(container, name))
    }
    after = structs.replace(container, **changed)
    extra: list[ContainerEffect] = []
    if "priority" in changed:
        extra.append(ReprioritiseChildren(container.uuid))
    if after.log is not None and "log" in changed and after.state in LIVE:
        extra.append(RefreshLog(container.uuid, after.log))
    expected: JsonObject = {name: getattr(container, name) for name in GUARDED}
    return ContainerChange(
        container=after, changed=changed, expected=expected, effects=(*effects, *extra)
    )


def _locked(
    container: Container, values: JsonObject, *, caller: ContainerWriter, tokens: NewTokens | None
) -> ContainerChange:
    priority = values.get("priority", container.priority)
    if not isinstance(priority, int) or priority <= 0:
        raise Invalid("cannot lock when priority<=0")
    # Only the lock call brings tokens.
    if tokens is None:
        raise Invalid(
            "State cannot be written as Locked; "
            f"use POST /arvados/v1/containers/{container.uuid}/lock"
        )
    # Also where the request brought a runtime token, whose rights the new one has: a token that a
    # user knows must not be the container's own.
    minted = MintTokens(
        container_uuid=container.uuid,
        auth_uuid=tokens.auth_uuid,
        supervisor_uuid=tokens.supervisor_uuid,
        user_uuid=container.runtime_user_uuid or "",
        scopes=access.data_scopes(
            container.uuid,
            has_api=container.runtime_constraints.get("API") is True,
            granted=container.runtime_auth_scopes,
            collections=(
                container.container_image,
                *(image_names(container.steps) if container.steps else ()),
                *mount_resolution.named_hashes(container.mounts),
            ),
        ),
    )
    implied: JsonObject = {
        # A warning that no machine can hold it is obsolete.
        "runtime_status": values.get("runtime_status", {}),
        "state": ContainerState.LOCKED,
        "locked_by_uuid": caller.token_uuid,
        "auth_uuid": tokens.auth_uuid,
        "supervisor_auth_uuid": tokens.supervisor_uuid,
        "last_locked_by_uuid": caller.token_uuid,
        "lock_count": container.lock_count + 1,
    }
    return _change(container, {**values, **implied}, minted)
