"""VMs in reports, and orders for them."""

from __future__ import annotations

import msgspec
import pytest

from lading.core.errors import NotFound
from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase
from lading.core.scheduling.machines import MachineAction, MachineReport
from lading.dispatch.fleet import StartRequest

from .scene import fleet_with_a_vm

UUID = "zzzzz-dz642-000000000000001"


async def test_a_vm_with_a_container() -> None:
    async with fleet_with_a_vm() as (fleet, vms):
        await fleet.start(StartRequest(uuid=UUID, worker="i-1", token="t"))
        report = fleet.machine_source.machines()
        [found] = report.machines
        assert (found.id, found.state, found.behavior) == ("i-1", "running", "run")
        assert (found.containers, found.actions) == ((UUID,), ("hold", "drain", "kill"))
        assert found.total.vcpus > 0
        assert any(one.sentence.endswith(" made") for one in report.history)
    vms.take("i-1")


async def test_orders() -> None:
    async with fleet_with_a_vm() as (fleet, vms):
        source = fleet.machine_source
        [machine] = fleet.pool.machines.values()
        await source.act("i-1", MachineAction.HOLD, "to look at it")
        assert machine.behavior is Behavior.HOLD
        assert source.machines().history[-1].sentence == "hold: to look at it"
        assert source.machines().machines[0].actions == ("drain", "run", "kill")
        with pytest.raises(NotFound):
            await source.act("i-2", MachineAction.HOLD, "")
        await source.act("i-1", MachineAction.KILL, "broken")
        assert machine.phase is InstancePhase.SHUTDOWN
        [found] = source.machines().machines
        assert (found.actions, "killed by an operator: broken" in found.note) == ((), True)
    vms.take("i-1")


async def test_long_texts_are_cut_to_what_a_report_may_have() -> None:
    async with fleet_with_a_vm() as (fleet, vms):
        [machine] = fleet.pool.machines.values()
        machine.why = machine.type = "x" * 1000
        [found] = msgspec.convert(
            msgspec.to_builtins(fleet.machine_source.machines()), MachineReport
        ).machines
        assert {len(text) for text in (found.note, found.type)} == {400}
    vms.take("i-1")
