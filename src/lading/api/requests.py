"""Container requests: made, committed, changed, cancelled (api-contract 1.1-1.4)."""

from __future__ import annotations

from typing import Final

from lading.api import audit, generic
from lading.api.exchange import Answer, Call
from lading.api.ledger import Ledger
from lading.api.resolving import commit
from lading.api.shape import show
from lading.core import access, request
from lading.core.container import Container
from lading.core.errors import Invalid
from lading.core.filters import check_select
from lading.core.ids import Infix
from lading.core.records import REQUESTS
from lading.core.request import ContainerRequest, Parent
from lading.core.schema import Record
from lading.store import records
from lading.store.database import Transaction


async def list_requests(call: Call) -> Answer:
    """A page of requests."""
    return await generic.list_records(call, REQUESTS)


async def get_request(call: Call) -> Answer:
    """One request."""
    return await generic.get_record(call, REQUESTS)


async def create_request(call: Call) -> Answer:
    """A new request; committed, it has a container when this answers."""
    request.check_parameters(call.params)
    select = check_select(call.params.get("select"), REQUESTS)
    services, caller = call.services, call.caller
    given = call.attributes(REQUESTS)
    async with services.database.writing() as tx:
        ledger = Ledger(tx, services, user_uuid=caller.user_uuid)
        change = request.create(
            given,
            uuid=services.new_uuid(Infix.REQUEST),
            owner_uuid=caller.user_uuid,
            user_uuid=caller.user_uuid,
            now=ledger.now,
            policy=services.policy,
            parent=await find_parent(tx, call, given),
        )
        await generic.check_owner(tx, call, change.request.owner_uuid)
        change = await commit(ledger, change, caller)
        record: Record = {**change.request.to_record(), "modified_at": ledger.now}
        await records.insert(tx, REQUESTS, record)
        await audit.created(tx, services, REQUESTS, record, user_uuid=caller.user_uuid)
        await ledger.settle()
    return Answer(body=_shown(record, select))


async def update_request(call: Call) -> Answer:
    """Change a request; committing it finds its container."""
    request.check_parameters(call.params)
    select = check_select(call.params.get("select"), REQUESTS)
    services, caller = call.services, call.caller
    async with services.database.writing() as tx:
        row = await generic.find_readable(tx, services, REQUESTS, call.uuid, caller)
        access.check_writable(caller, row)
        ledger = Ledger(tx, services, user_uuid=caller.user_uuid)
        subject = ContainerRequest.from_record(row)
        change = request.update(
            subject,
            call.attributes(REQUESTS),
            policy=services.policy,
            user_uuid=caller.user_uuid,
            admin=caller.is_admin,
        )
        if change.request.owner_uuid != subject.owner_uuid:
            await generic.check_owner(tx, call, change.request.owner_uuid)
        row = await ledger.change_request(row, await commit(ledger, change, caller))
        if subject.state is request.State.COMMITTED and change.request.state is request.State.FINAL:
            await _let_go(ledger, subject)
        await ledger.settle()
    return Answer(body=_shown(row, select))


async def cancel_request(call: Call) -> Answer:
    """Set the priority to 0, and end the request if nothing has started for it."""
    services, caller = call.services, call.caller
    async with services.database.writing() as tx:
        row = await generic.find_readable(tx, services, REQUESTS, call.uuid, caller)
        access.check_writable(caller, row)
        ledger = Ledger(tx, services, user_uuid=caller.user_uuid)
        row = await ledger.cancel(row)
        await ledger.settle()
    return Answer(body=_shown(row, check_select(call.params.get("select"), REQUESTS)))


async def delete_request(call: Call) -> Answer:
    """Remove a request; its container stops if nobody else wants it."""
    services, caller = call.services, call.caller
    async with services.database.writing() as tx:
        row = await generic.find_readable(tx, services, REQUESTS, call.uuid, caller)
        access.check_writable(caller, row)
        ledger = Ledger(tx, services, user_uuid=caller.user_uuid)
        await generic.remove(tx, call, REQUESTS, row)
        if row["container_uuid"] is not None:
            await _let_go(ledger, ContainerRequest.from_record(row))
        await ledger.settle()
    return Answer(body=_shown(row, None))


async def find_parent(tx: Transaction, call: Call, given: Record) -> Parent | None:
    """The container that makes a request: the token's own, or for an admin the one that is named. Raises Invalid."""
    uuid = call.caller.container_uuid
    named = given.get("requesting_container_uuid")
    if uuid is None and named is not None and call.caller.is_admin:
        uuid = named
    if not isinstance(uuid, str):
        return None
    row = await Ledger(tx, call.services, user_uuid=call.caller.user_uuid).container(uuid)
    if row is None:
        raise Invalid(f"requesting_container_uuid: '{uuid}' not found")
    wanting = await records.matching(tx, REQUESTS, container_uuid=uuid)
    highest = max((one["priority"] or 0 for one in wanting), default=0)
    return Parent(container_uuid=uuid, state=Container.from_record(row).state, priority=highest)


async def _let_go(ledger: Ledger, subject: ContainerRequest) -> None:
    if subject.container_uuid is not None:
        ledger.stale([subject.container_uuid])
        await ledger.abandon(subject.container_uuid)


def _shown(record: Record, select: tuple[str, ...] | None) -> Record:
    shown = show(REQUESTS, record, select)
    if shown.get("container_count_max") == 0:
        shown["container_count_max"] = None
    return shown


HANDLERS: Final = {
    "container_requests.list": list_requests,
    "container_requests.get": get_request,
    "container_requests.create": create_request,
    "container_requests.update": update_request,
    "container_requests.delete": delete_request,
    "container_requests.cancel": cancel_request,
}
