"""Common parts of the calls about a container: its record, its caller, and the storing of a change.

Source: docs/spec/api, section Containers.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from lading.api import authorization
from lading.api.background import cancellation_scope
from lading.api.events import audit
from lading.api.http import ApiCall
from lading.api.resources.dispatching import is_own_log
from lading.api.services import ApiServices
from lading.api.transaction import UnitOfWork
from lading.api.unit import Feature
from lading.core.containers import lifecycle, writers
from lading.core.containers.container import Container, ContainerState, DecisionKind
from lading.core.containers.writers import ContainerWriter
from lading.core.data import placement
from lading.core.errors import Failure, Invalid, NotFound
from lading.core.records.container_types import CONTAINERS
from lading.core.records.record_types import USERS
from lading.core.records.schema import Record
from lading.core.values import printable
from lading.store import contents, records
from lading.store.database import Transaction

_TAKEN: Final = (ContainerState.LOCKED, ContainerState.RUNNING)
_LOST: Final = (Failure.NODE, Failure.PREEMPTED, Failure.INFRASTRUCTURE)


async def find_container(tx: Transaction, call: ApiCall, *, raw: bool = False) -> Record:
    """The container that a call names. Raises NotFound unless the caller can read it.

    With `raw` nested values may be JSON texts, to be answered unchanged.
    """
    caller = call.caller
    # A container's own token and its supervisor's name it: no permission query is needed for the
    # most frequent calls.
    if call.uuid in (caller.container_uuid, caller.supervises):
        row = await records.get(tx, CONTAINERS, call.uuid)
        if row is not None:
            return row
    return await authorization.find_readable(
        tx, call.services.clock, call.services.config, CONTAINERS, call.uuid, caller, raw=raw
    )


def caller_of(call: ApiCall) -> ContainerWriter:
    """The caller, as the rules for writers of a container see it."""
    return writers.as_writer(call.caller, call.uuid)


async def username(tx: Transaction, call: ApiCall) -> str:
    """The name of the calling user."""
    user = await records.get(tx, USERS, call.caller.user_uuid)
    return str((user and user["username"]) or call.caller.user_uuid)


async def store_change(
    tx: Transaction,
    call: ApiCall,
    row: Record,
    change: lifecycle.ContainerChange,
    unit: UnitOfWork | None = None,
) -> Record:
    """Store a container's change and carry out its effects, by a unit of work of the caller if
    there is one; the new row. Raises Conflict when another call changed the container first, and
    BeingCancelled for a lock that comes too late.
    """
    unit = unit or UnitOfWork(tx, call.services, user_uuid=call.caller.user_uuid)
    is_taken = row["state"] == ContainerState.QUEUED and change.container.state in _TAKEN
    if is_taken and await unit.uses(Feature.CANCELLATIONS):
        await cancellation_scope.check_lock(unit, row["uuid"])
    row = await unit.change_container(row, _with_class_warning(call.services, change))
    await unit.settle()
    status = change.container.runtime_status
    if (
        change.changed.get("state") == ContainerState.CANCELLED
        and call.caller.supervises
        and status.get("failure") in _LOST
    ):
        # A dispatcher notes the reason when a supervisor ends without a report; here the supervisor
        # reports it itself.
        message = f"Cancelled: {status.get('error') or status['failure']}"
        await audit.note(
            tx,
            call.services,
            row,
            DecisionKind.CRASHED,
            message,
            {"text": message, "failure": status["failure"]},
        )
    return row


def _with_class_warning(
    services: ApiServices, change: lifecycle.ContainerChange
) -> lifecycle.ContainerChange:
    """The end of a container with a warning about output classes that the site does not have."""
    if change.changed.get("state") != ContainerState.COMPLETE:
        return change
    container, policy = change.container, services.policy
    status = placement.with_warning(
        container.runtime_status,
        container.output_storage_classes,
        site_classes=policy.storage_classes,
        default=policy.default_storage_classes,
    )
    if status is None:
        return change
    return replace(
        change,
        container=replace(container, runtime_status=status),
        changed={**change.changed, "runtime_status": status},
    )


async def output_readable(
    tx: Transaction, call: ApiCall, container: Container, attributes: Record
) -> bool:
    """Whether the container's user can read the output that the container has after a write of
    `attributes` (`lifecycle.output_of`). True without an output.

    The tokens of supervisors and dispatchers belong to the system user or to an admin: without this
    check a hostile machine could give its user any content whose hash it knows. Raises Invalid for
    such a log.
    """
    caller, output = call.caller, lifecycle.output_of(container, attributes)
    log = attributes.get("log") if caller.supervises or caller.is_dispatcher else None
    named = [pdh for pdh in (output, log) if isinstance(pdh, str)]
    if not named:
        return True
    reader = None if caller.is_admin else await _user(tx, call, container)
    readable = await contents.present(
        tx, named, call.services.clock.now(), reader=reader, trashed=True
    )
    # Arvados' crunch-run stores the log as the user of its dispatcher.
    if isinstance(log, str) and log not in readable and not await is_own_log(tx, call, log):
        raise Invalid(
            f"log: {printable(log)!r} is no collection that the container's user can read"
        )
    return output is None or output in readable


async def _user(tx: Transaction, call: ApiCall, container: Container) -> str | None:
    """The user whom a container acts for; None for a user who can read everything."""
    uuid = container.runtime_user_uuid or call.services.ids.system_user
    row = await records.get(tx, USERS, uuid)
    return (
        None
        if uuid == call.services.ids.system_user or (row is not None and row["is_admin"])
        else uuid
    )


def auth_token(call: ApiCall, container: Container) -> tuple[str, str]:
    """Uuid and secret of the container's own token. Raises NotFound."""
    if container.auth_uuid is None:
        raise NotFound(f"Path not found: container {container.uuid} has no token")
    return container.auth_uuid, call.services.ids.container_secret(container.auth_uuid)
