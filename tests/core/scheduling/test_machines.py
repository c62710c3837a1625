"""Reports about machines: what is taken, who sees what, which orders are possible."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Conflict, Invalid, NotFound
from lading.core.resources import UNLIMITED, Resources
from lading.core.scheduling import machines as rules
from lading.core.scheduling.machines import (
    MachineAction,
    MachineAmount,
    MachineKind,
    MachineOrder,
    MachineReport,
    MachineState,
)

VM = MachineState(
    id="i-1", kind=MachineKind.VM, state="idle", address="10.0.0.1", note="broken",
    containers=("a", "b"), actions=(MachineAction.HOLD, MachineAction.KILL),
)  # fmt: skip


def test_a_report_is_read() -> None:
    given: Any = {"machines": [{"id": "i-1", "kind": "vm", "state": "idle", "total": {"vcpus": 2}}]}
    [found] = rules.read_report(given).machines
    assert (found.id, found.total.vcpus, found.behavior) == ("i-1", 2, "run")


@pytest.mark.parametrize(
    "report",
    [
        [],
        {"machines": [{"id": "x" * 401, "kind": "vm", "state": ""}]},
        {"machines": [{"id": "x", "kind": "other", "state": ""}]},
        {"machines": [{"id": "x", "kind": "vm", "state": "", "more": 1}]},
        {"machines": [{"id": "x", "kind": "vm", "state": "", "price": -1}]},
        {"machines": [{"id": "x", "kind": "vm", "state": ""}] * 2001},
        {"history": [{"at": "", "machine": "", "text": ""}] * 101},
    ],
)
def test_what_is_no_report(report: Any) -> None:
    with pytest.raises(Invalid, match="machines: "):
        rules.read_report(report)


def test_an_order_is_read() -> None:
    order = rules.read_order({"machine": "i-1", "action": "hold", "reason": "disk"})
    assert order == MachineOrder(machine="i-1", action=MachineAction.HOLD, reason="disk")
    for machine, action in (("i-1", "burn"), ("", "run")):
        with pytest.raises(Invalid):
            rules.read_order({"machine": machine, "action": action})


def test_an_order_must_be_possible() -> None:
    report = MachineReport(machines=(VM,))
    hold = MachineOrder(machine="i-1", action=MachineAction.HOLD)
    rules.check_order(report, hold)
    with pytest.raises(Conflict, match="possible: hold, kill"):
        rules.check_order(report, MachineOrder(machine="i-1", action=MachineAction.RUN))
    with pytest.raises(NotFound):
        rules.check_order(report, MachineOrder(machine="i-2", action=MachineAction.HOLD))
    with pytest.raises(NotFound):
        rules.check_order(None, hold)
    bare = MachineState(id="n", kind=MachineKind.NODE, state="")
    with pytest.raises(Conflict, match="possible: none"):
        rules.check_order(
            MachineReport(machines=(bare,)), MachineOrder(machine="n", action=MachineAction.HOLD)
        )


def test_readers_see_less_than_admins() -> None:
    assert rules.shown_to(VM, is_admin=True, readable=()) == VM
    seen = rules.shown_to(VM, is_admin=False, readable={"b", "c"})
    assert (seen.containers, seen.address, seen.note, seen.actions) == (("b",), "", "", ())
    assert seen.state == "idle"


def test_amounts() -> None:
    assert rules.amount(Resources(-1, 5, UNLIMITED, 2)) == MachineAmount(ram=5, gpus=2)
    assert rules.amount(Resources(1, 1, 7)).disk == 7


def test_an_answer_to_a_report_is_read() -> None:
    given: Any = {"known": True, "orders": [{"machine": "i-1", "action": "hold"}]}
    [order] = rules.read_answer(given).orders
    assert (order.machine, order.action) == ("i-1", MachineAction.HOLD)
    with pytest.raises(Invalid):
        rules.read_answer([])
