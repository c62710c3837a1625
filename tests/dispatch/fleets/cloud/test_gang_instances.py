from __future__ import annotations

from lading.dispatch.fleets.cloud.drivers.driver import Instance
from lading.dispatch.fleets.cloud.gang_instances import Crews
from lading.dispatch.fleets.cloud.machine import Machine


def test_each_vm_counts_as_often_as_it_has_ranks() -> None:
    crews = Crews()
    one = Machine(key="one", type="t", secret="s", instance=Instance(id="i-1"), posts={"g": 2})
    two = Machine(key="two", type="t", secret="s", posts={"g": 1, "h": 1})
    for uuid, machine in (("g", one), ("g", two), ("h", two), ("g", one)):
        crews.join(uuid, machine)
    assert (list(crews), crews.names("g"), crews.machines("h")) == (
        ["g", "h"],
        ["i-1", "i-1", "two"],
        [two],
    )
    crews.leave("g", one)
    crews.leave("g", one)
    crews.leave("h", two)
    crews.leave("unheard of", two)
    assert (list(crews), crews.names("g"), crews.names("h")) == (["g"], ["two"], [])
