from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from lading.core.containers.container import ContainerState
from lading.core.errors import Unavailable
from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase, InstanceTimes
from lading.dispatch.fleets.cloud.instance_journal import CONSOLE, InstanceJournal
from lading.dispatch.fleets.cloud.machine_states import describe_machine
from lading.dispatch.fleets.cloud.management import shown
from lading.dispatch.fleets.cloud.supervisor_assignment import spent
from lading.testing.cloud_troubles import Troubles
from lading.testing.simulated_loop import pass_time
from tests.simulation.cloud_scenario import SETTINGS, TYPES

from .scene import Scene, staged

QUICK = Troubles(boot=(5.0, 10.0))


def test_a_vm_that_was_made_though_the_cloud_said_no_is_found_and_used() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until_over()
        assert scene.cloud.refused["pretended"] >= 1
        assert scene.server.locks[uuid] == 1
        scene.cloud.troubles.create_pretends = 0.0
        await scene.until_empty()

    staged(Scene(troubles=Troubles(boot=(5.0, 10.0), create_pretends=1.0)), acts)


def test_the_cost_of_a_vm_goes_on_after_a_restart() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        now = asyncio.get_running_loop().time
        await pass_time(100.0)
        before = spent(scene.machines[0], now=now(), wall=now())
        await scene.close()
        scene.open()
        await scene.until(lambda: scene.phases() == [InstancePhase.RUNNING])
        assert spent(scene.machines[0], now=now(), wall=now()) >= before > 0

    staged(Scene(troubles=QUICK, seconds=1000.0), acts)


def test_calls_that_hang_are_given_up() -> None:
    async def acts(scene: Scene) -> None:
        await scene.until(lambda: scene.fleet.pool.listed)
        scene.cloud.troubles.hangs = 1.0
        uuid = scene.server.add()
        await scene.until(lambda: "did not answer in 30 s" in scene.told(uuid))
        scene.cloud.troubles.hangs = 0.0
        await scene.until_over()

    staged(Scene(troubles=QUICK), acts)


def test_creations_wait_while_the_cloud_wants_fewer_calls() -> None:
    async def acts(scene: Scene) -> None:
        for _ in range(6):
            scene.server.add(vcpus=4)
        await scene.until_over()
        assert scene.cloud.refused["rate"] <= 15

    staged(Scene(troubles=Troubles(boot=(5.0, 10.0), gap=5.0)), acts)


def test_no_more_are_asked_for_at_once_than_may_be() -> None:
    async def acts(scene: Scene) -> None:
        for _ in range(9):
            scene.server.add(vcpus=16)
        await scene.until(lambda: scene.cloud.calls.get("create"))
        assert scene.cloud.calls["create"] == 2
        await scene.until_over()

    staged(Scene(troubles=QUICK, concurrent_creates=2), acts)


def test_one_that_nobody_needs_any_more_is_not_asked_for() -> None:
    async def acts(scene: Scene) -> None:
        uuids = [scene.server.add(vcpus=16) for _ in range(9)]
        await scene.until(lambda: len(scene.machines) == 9)
        for uuid in uuids:
            scene.server.change_priority(uuid, 0)
        await scene.until(lambda: len(scene.machines) <= 1)
        await scene.until_empty()
        assert scene.cloud.calls["create"] <= 2

    staged(Scene(troubles=QUICK, concurrent_creates=1), acts)


def test_tags_that_could_not_be_set_or_were_changed_are_set_again() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        (one,), (vm,) = scene.machines, scene.cloud.vms.values()
        assert scene.cloud.calls.get("tag") is None
        scene.cloud.troubles.tag_fails = 1.0
        # Whoever orders it hears that a later dispatcher would not know of it.
        for _ in range(2):
            with pytest.raises(Unavailable, match="the cloud did not take its tag"):
                await scene.fleet.pool.hold(one, Behavior.HOLD)
        assert one.behavior is Behavior.HOLD
        await pass_time(10.0)
        assert vm.instance.tags["ArvadosIdleBehavior"] == "run"
        scene.cloud.troubles.tag_fails = 0.0
        await pass_time(70.0)
        assert vm.instance.tags["ArvadosIdleBehavior"] == "hold"
        vm.instance = replace(
            vm.instance, tags={**vm.instance.tags, "ArvadosInstanceType": "other"}
        )
        await pass_time(70.0)
        assert vm.instance.tags["ArvadosInstanceType"] == one.type
        assert scene.cloud.calls["tag"] <= 7
        # Answered once the tag is set; the same order again costs no call.
        await scene.fleet.pool.hold(one, Behavior.RUN)
        before = scene.cloud.calls["tag"]
        await scene.fleet.pool.hold(one, Behavior.RUN)
        assert scene.cloud.calls["tag"] == before

    staged(Scene(troubles=QUICK), acts)


def test_what_a_vm_does_is_unknown_while_it_cannot_be_reached() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        (one,) = scene.machines
        assert shown(one, now=0.0)["worker_state"] == "running"
        link, one.link = one.link, None
        assert shown(one, now=0.0)["worker_state"] == "unknown"
        assert describe_machine(one, lambda _: None, now=0.0, wall=0.0).state == "unknown"
        one.link = link

    staged(Scene(troubles=QUICK), acts)


def test_one_that_lists_leave_out_and_show_again_has_no_more_time_to_boot() -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add()
        await scene.until(lambda: scene.cloud.vms)
        (vm,) = scene.cloud.vms.values()
        vm.ready = vm.dies
        for _ in range(10):
            await pass_time(SETTINGS.times.booting / 2)
            vm.hidden = SETTINGS.misses + 2
        assert vm.gone < SETTINGS.times.booting * 2

    staged(Scene(troubles=QUICK), acts)


def test_one_that_is_to_go_is_not_used_when_a_list_shows_it_again() -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add()
        await scene.until_over()
        (vm,), (one,) = scene.cloud.vms.values(), scene.machines
        scene.cloud.troubles.destroy_fails = 1.0
        scene.fleet.pool.shut_down(one, "killed by an operator: it is odd")
        vm.hidden = SETTINGS.misses + 2
        await scene.until(lambda: one.phase is InstancePhase.GONE)
        scene.cloud.troubles.destroy_fails = 0.0
        await scene.until(lambda: scene.machines)
        assert scene.phases() == [InstancePhase.SHUTDOWN]
        await scene.until_empty()
        assert vm.used == 1

    staged(Scene(troubles=QUICK, times=InstanceTimes(idle=9999.0)), acts)


def test_removal_is_asked_for_until_it_is_gone() -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add()
        await scene.until_over()
        scene.cloud.troubles.destroy_fails = 1.0
        await scene.until(lambda: scene.phases() == [InstancePhase.SHUTDOWN])
        await pass_time(100.0)
        assert scene.cloud.refused["destroy"] > 3
        scene.cloud.troubles.destroy_fails = 0.0
        await scene.until_empty()

    staged(Scene(troubles=QUICK), acts)


@pytest.mark.parametrize("before", [True, False])
def test_a_vm_of_a_type_that_is_not_configured_any_more_is_let_go(before: bool) -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add(vcpus=1)
        await scene.until(lambda: scene.phases() == [InstancePhase.RUNNING])
        await scene.close()
        scene.settings = replace(scene.settings, types=TYPES[2:])
        scene.open()
        await scene.until_over()
        (one,) = scene.machines
        await scene.until_empty()
        assert one.why == "its type is not configured any more"

    staged(Scene(troubles=QUICK, seconds=100.0 if before else 300.0), acts)


def test_an_operator_may_remove_one_whatever_it_does() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.phases() == [InstancePhase.RUNNING])
        scene.fleet.pool.shut_down(scene.machines[0], "killed by an operator: why not")
        await scene.until_over()
        assert (
            "killed by an operator" in scene.server.records[uuid]["runtime_status"]["errorDetail"]
        )
        assert set(scene.fleet.pool.by_name()) <= {"i-1"}

    staged(Scene(troubles=QUICK, seconds=9999.0), acts)


def test_the_defaults_are_those_of_the_configuration() -> None:
    assert SETTINGS.misses == 4


@pytest.mark.parametrize(
    ("troubles", "why"),
    [
        (Troubles(boot=(5.0, 10.0), never_boots=1.0), "it did not"),
        (Troubles(boot=(5.0, 10.0), taken=1.0, life=60.0), "it disappeared while"),
        (Troubles(boot=(5.0, 10.0), breaks=1.0, life=60.0), "it says so"),
    ],
)
def test_a_vm_that_fails_leaves_its_console(tmp_path: Path, troubles: Troubles, why: str) -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add()
        logs = scene.journal.logs
        await scene.until(lambda: any(why in one.why for one in logs.records()))
        record = next(one for one in logs.records() if why in one.why)
        assert logs.find(record.id)[1] == {CONSOLE: f"{record.id} boots"}

    scene = Scene(troubles=troubles, seconds=100.0)
    scene.journal = InstanceJournal(tmp_path / "instances.json")
    staged(scene, acts)


def test_a_vm_that_is_needed_no_more_leaves_no_console(tmp_path: Path) -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add()
        await scene.until_over()
        await scene.until_empty()
        assert scene.journal.logs.records() == []

    scene = Scene(troubles=QUICK)
    scene.journal = InstanceJournal(tmp_path / "instances.json")
    staged(scene, acts)
