"""Reports and orders, in memory and in a database that servers share."""

from __future__ import annotations

import pytest

from lading.api.server.machine_board import MachineBoard, OwnMachines, SharedMachines
from lading.core.scheduling.machines import (
    MachineAction,
    MachineKind,
    MachineOrder,
    MachineReport,
    MachineState,
)
from lading.testing.world import World

ONE, TWO = "zzzzz-gj3su-000000000000001", "zzzzz-gj3su-000000000000002"
NOW, LATER = "2026-01-02T03:04:05.000000000Z", "2026-01-02T03:10:05.000000000Z"
REPORT = MachineReport(machines=(MachineState(id="i-1", kind=MachineKind.VM, state="idle"),))


@pytest.fixture(params=["own", "shared"])
def board(it: World, request: pytest.FixtureRequest) -> MachineBoard:
    return OwnMachines() if request.param == "own" else SharedMachines(it.database)


async def test_the_last_report_of_each_dispatcher(board: MachineBoard) -> None:
    assert not await board.put(ONE, None, NOW)
    assert await board.put(ONE, REPORT, NOW)
    assert await board.put(TWO, MachineReport(), NOW)
    assert await board.put(ONE, None, LATER)
    [found] = await board.reports(LATER)
    assert (found.dispatcher, found.reported_at, found.report) == (ONE, LATER, REPORT)


async def test_an_order_is_taken_once_and_replaced_by_a_later_one(board: MachineBoard) -> None:
    hold = MachineOrder(machine="i-1", action=MachineAction.HOLD)
    kill = MachineOrder(machine="i-1", action=MachineAction.KILL)
    for order in (hold, kill):
        await board.order(ONE, order)
    assert await board.take_orders(TWO) == []
    assert await board.take_orders(ONE) == [kill]
    assert await board.take_orders(ONE) == []
