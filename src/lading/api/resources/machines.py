"""Machines of dispatchers: reports, what readers see of them, and the orders of admins.

All active users see the machines, their sizes and their reserved amounts, as these explain why work
waits. Addresses, faults and the history are for admins. Each reader sees the containers that the
reader may read. Orders are for admins: a dispatcher gets them with the answer to its next report.
Source: docs/spec/dispatch, section Machines.
"""

from __future__ import annotations

import logging

import msgspec

from lading.api.authorization import readable_uuids
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources.dispatching import check_lease
from lading.api.server.machine_board import MACHINES
from lading.core.errors import Invalid
from lading.core.ids import Infix, is_uuid
from lading.core.records import access
from lading.core.records.container_types import CONTAINERS
from lading.core.scheduling import machines as rules
from lading.process.telemetry import event

_logger = logging.getLogger("lading.api")


async def put_machines(call: ApiCall) -> ApiResponse:
    """Store a dispatcher's report about its machines: `report`, null where nothing has changed.

    The answer has the `orders` of admins, and `known`: false asks for the whole report.
    """
    access.check_dispatching(call.caller, "report machines")
    given = call.params.get("report")
    report = None if given is None else rules.read_report(given)
    async with call.services.database.reading() as tx:
        # The orders are for the process that works with the token.
        await check_lease(tx, call)
    board, dispatcher = call.services.features[MACHINES], call.caller.token_uuid
    known = await board.put(dispatcher, report, call.services.clock.now())
    orders = await board.take_orders(dispatcher)
    return ApiResponse(body={"known": known, "orders": msgspec.to_builtins(orders)})


async def list_machines(call: ApiCall) -> ApiResponse:
    """The machines of all dispatchers that have reported lately."""
    caller = call.caller
    access.check_user(caller)
    reports = await call.services.features[MACHINES].reports(call.services.clock.now())
    running = {
        uuid
        for entry in reports
        for machine in entry.report.machines
        for uuid in machine.containers
    }
    readable = running
    if not caller.is_admin:
        async with call.services.database.reading() as tx:
            readable = await readable_uuids(
                tx, call.services.clock, call.services.config, CONTAINERS, running, caller
            )
    items = [
        {
            "dispatcher": entry.dispatcher,
            "reported_at": entry.reported_at,
            "machines": [
                {
                    **msgspec.to_builtins(
                        rules.shown_to(machine, is_admin=caller.is_admin, readable=readable)
                    ),
                    "container_count": len(machine.containers),
                }
                for machine in entry.report.machines
            ],
            "history": msgspec.to_builtins(entry.report.history) if caller.is_admin else [],
        }
        for entry in reports
    ]
    return ApiResponse(body={"items": items})


async def order_machine(call: ApiCall) -> ApiResponse:
    """Order an action for a machine (admin only): `dispatcher`, `machine`, `action`, `reason`.
    Raises NotFound, Conflict.
    """
    access.check_admin(call.caller, "order actions of machines")
    dispatcher = call.params.get("dispatcher")
    if not isinstance(dispatcher, str) or not is_uuid(dispatcher, Infix.TOKEN):
        raise Invalid("dispatcher: must be the uuid of a dispatcher's token")
    order = rules.read_order(
        {name: call.params.get(name) or "" for name in ("machine", "action", "reason")}
    )
    reports = await call.services.features[MACHINES].reports(call.services.clock.now())
    reported = {entry.dispatcher: entry.report for entry in reports}
    rules.check_order(reported.get(dispatcher), order)
    await call.services.features[MACHINES].order(dispatcher, order)
    event(
        _logger, "machine ordered", machine=order.machine, action=order.action,
        user=call.caller.user_uuid, why=order.reason,
    )  # fmt: skip
    return ApiResponse(body=msgspec.to_builtins(order))
