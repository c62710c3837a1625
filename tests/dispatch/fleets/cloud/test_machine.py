from __future__ import annotations

import pytest

from lading.core.errors import IllegalTransition
from lading.core.resources import Resources
from lading.core.scheduling.instance_lifecycle import Behavior, InstanceEvent, InstancePhase
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import Instance
from lading.dispatch.fleets.cloud.machine import CloudMachine, GangInstances

KIND = InstanceType(name="small", provider_type="t3", resources=Resources(1, 1 << 30))


def machine(phase: InstancePhase = InstancePhase.CREATING) -> CloudMachine:
    return CloudMachine(key="vm-1", type="small", secret="hush", kind=KIND, phase=phase)


def test_it_is_called_by_our_name_until_the_cloud_has_one() -> None:
    one = machine()
    assert (one.name, one.address) == ("vm-1", "")
    one.instance = Instance(id="i-1", address="10.0.0.1")
    assert (one.name, one.address) == ("i-1", "10.0.0.1")


def test_a_phase_begins_when_it_changes() -> None:
    one = machine()
    one.take(InstanceEvent.CREATED, now=5.0)
    assert (one.phase, one.since) == (InstancePhase.BOOTING, 5.0)
    assert not one.changed.is_set()
    one.take(InstanceEvent.CONDEMNED, now=6.0)
    assert one.going
    assert one.changed.is_set()
    with pytest.raises(IllegalTransition):
        one.take(InstanceEvent.READY, now=7.0)


def test_it_can_be_used_only_while_it_is_reached_and_well() -> None:
    one = machine(InstancePhase.IDLE)
    assert (one.ready, one.usable) == (True, False)
    one.link = object()  # type: ignore[assignment]
    assert (one.ready, one.usable) == (True, True)
    for name, value, back in (
        ("behavior", Behavior.HOLD, Behavior.RUN),
        ("broken", "yes", ""),
        ("kind", None, KIND),
    ):
        setattr(one, name, value)
        assert not one.usable
        setattr(one, name, back)


def test_its_secret_is_not_shown() -> None:
    assert "hush" not in repr(machine())


def test_each_vm_counts_as_often_as_it_has_ranks() -> None:
    gangs = GangInstances()
    one = CloudMachine(key="one", type="t", secret="s", instance=Instance(id="i-1"), posts={"g": 2})
    two = CloudMachine(key="two", type="t", secret="s", posts={"g": 1, "h": 1})
    for uuid, machine in (("g", one), ("g", two), ("h", two), ("g", one)):
        gangs.join(uuid, machine)
    assert (list(gangs), gangs.names("g"), gangs.machines("h")) == (
        ["g", "h"],
        ["i-1", "i-1", "two"],
        [two],
    )
    gangs.leave("g", one)
    gangs.leave("g", one)
    gangs.leave("h", two)
    gangs.leave("unheard of", two)
    assert (list(gangs), gangs.names("g"), gangs.names("h")) == (["g"], ["two"], [])
