"""Gangs that no one VM can hold, from the first VM that is made for them to the last one that is
removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lading.core.containers.container import ContainerState
from lading.core.resources import GIB
from lading.core.scheduling.instance_lifecycle import Behavior
from lading.net.rpc import LineChannel
from lading.testing.cloud import FakeVm
from lading.testing.cloud_troubles import Troubles
from lading.testing.simulated_loop import pass_time
from tests.dispatch.fleets.cloud.scene import Scene, most, staged


def gang(scene: Scene, nodes: int = 3, vcpus: int = 10) -> str:
    return scene.server.add(vcpus=vcpus, ram=GIB, scheduling_parameters={"nodes": nodes})


def where(scene: Scene) -> list[FakeVm]:
    """The VMs that the gang is on, that of its supervisor first."""
    vms = list(scene.cloud.vms.values())
    return [one for one in vms if one.lives] + [one for one in vms if one.posts and not one.lives]


def test_it_starts_when_all_its_vms_are_ready_and_frees_them_when_it_has_ended() -> None:
    async def acts(scene: Scene) -> None:
        uuid = gang(scene)
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        assert [(list(vm.lives), vm.posts) for vm in where(scene)] == [
            ([uuid], {}),
            ([], {uuid: 1}),
            ([], {uuid: 1}),
        ]
        shown = scene.fleet.view().processes[uuid]
        assert {shown.worker, *shown.others} == set(scene.cloud.vms)
        assert all(machine.posts or machine.containers for machine in scene.machines)
        await scene.until_over()
        await scene.until_empty()
        assert (scene.state(uuid), scene.cloud.most, scene.cloud.gangs) == (
            ContainerState.COMPLETE,
            3,
            1,
        )

    staged(Scene(), acts)


def test_the_vms_that_are_ready_stay_while_others_boot() -> None:
    def late(vm: FakeVm, number: int) -> None:
        # Far beyond the time after which an idle one goes.
        vm.ready = vm.created_at + 250.0 * number

    async def acts(scene: Scene) -> None:
        uuid = gang(scene, nodes=2)
        await scene.until(lambda: "Waiting for 1 of its 2 instances" in scene.told(uuid))
        await scene.until_over()
        assert (scene.state(uuid), scene.cloud.most) == (ContainerState.COMPLETE, 2)

    staged(Scene(made=late, times=replace(Scene().settings.times, booting=1000.0)), acts)


def test_a_vm_is_kept_for_it_that_was_asked_for_at_the_same_moment() -> None:
    async def acts(scene: Scene) -> None:
        await scene.until_over()
        assert {scene.state(uuid) for uuid in scene.server.records} == {ContainerState.COMPLETE}
        assert scene.cloud.most == 3

    scene = Scene(limits=most(3))
    # It takes a VM of the kind that the gang needs, of which there may be no more than that needs.
    scene.server.add(vcpus=10, ram=GIB, priority=2)
    gang(scene)
    staged(scene, acts)


def test_another_dispatcher_finds_it_and_leaves_it_in_peace() -> None:
    async def acts(scene: Scene) -> None:
        uuid = gang(scene)
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        before = scene.fleet.view().processes[uuid]
        await scene.close()
        scene.open()
        await scene.until(lambda: scene.fleet.view().is_known and not scene.fleet.view().unasked)
        found = scene.fleet.view().processes[uuid]
        assert (found.worker, set(found.others), found.alive) == (
            before.worker,
            set(before.others),
            True,
        )
        await scene.until(
            lambda: all(machine.posts or machine.containers for machine in scene.machines)
        )
        await scene.until_over()
        await scene.until_empty()
        assert (scene.state(uuid), scene.cloud.gangs) == (ContainerState.COMPLETE, 1)

    staged(Scene(seconds=300.0), acts)


def test_when_the_vm_of_its_supervisor_is_gone_the_others_are_cleared() -> None:
    async def acts(scene: Scene) -> None:
        uuid = gang(scene)
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        first, *others = where(scene)
        scene.cloud.take(first.instance.id)
        await scene.until(lambda: scene.state(uuid) is ContainerState.CANCELLED)
        assert [vm.posts for vm in others] == [{}, {}]
        await scene.until_empty()

    staged(Scene(), acts)


def test_a_further_vm_that_is_gone_is_the_gangs_own_affair() -> None:
    async def acts(scene: Scene) -> None:
        uuid = gang(scene)
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        gone = where(scene)[1].instance.id
        scene.cloud.take(gone)
        await scene.until(lambda: gone not in {machine.name for machine in scene.machines})
        assert len(scene.fleet.view().processes[uuid].others) == 1
        await scene.until_over()
        assert scene.state(uuid) is ContainerState.COMPLETE
        await scene.until_empty()

    staged(Scene(seconds=200.0), acts)


def test_ranks_without_a_supervisor_are_cleared_after_a_restart() -> None:
    async def acts(scene: Scene) -> None:
        uuid = gang(scene)
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        first, *others = where(scene)
        await scene.close()
        scene.cloud.take(first.instance.id)
        for vm in others:
            # As if they had not noticed.
            vm.posts[uuid + ""] = 1
        scene.cloud.posts_stay = True
        scene.open()
        await scene.until(lambda: scene.state(uuid) is ContainerState.CANCELLED)
        await scene.until(lambda: all(not vm.posts for vm in others))
        await scene.until_empty()

    staged(Scene(), acts)


def test_a_vm_that_takes_no_ranks_is_said_and_all_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    request = LineChannel.request

    async def refuse(self: LineChannel, op: str, **more: Any) -> Any:
        asked.append(op)
        if asked.count("admit") == 1 == (op == "admit"):
            return {"op": "refused", "error": "no"}
        return await request(self, op, **more)

    monkeypatch.setattr(LineChannel, "request", refuse)

    async def acts(scene: Scene) -> None:
        uuid = gang(scene)
        await scene.until(lambda: "takes no ranks of the gang: no" in scene.told(uuid))
        assert scene.cloud.gangs == 0
        await scene.until_over()
        assert scene.state(uuid) is ContainerState.COMPLETE
        await scene.until_empty()

    staged(Scene(), acts)


def test_it_waits_for_the_quota_and_is_not_starved_by_small_ones() -> None:
    async def acts(scene: Scene) -> None:
        for _ in range(6):
            scene.server.add(vcpus=2, ram=GIB)
        await scene.until(lambda: len(scene.cloud.vms) == 3)
        uuid = gang(scene)
        for _ in range(100):
            scene.server.add(vcpus=2, ram=GIB)
            await pass_time(5.0)
            if scene.state(uuid) is ContainerState.COMPLETE:
                break
        assert scene.state(uuid) is ContainerState.COMPLETE

    staged(Scene(limits=most(3), troubles=Troubles(boot=(5.0, 10.0))), acts)


def test_a_vm_on_hold_takes_no_ranks() -> None:
    async def acts(scene: Scene) -> None:
        first = gang(scene)
        await scene.until(lambda: scene.state(first) is ContainerState.RUNNING)
        held = scene.machines[0]
        await scene.fleet.pool.hold(held, Behavior.HOLD)
        second = gang(scene)
        await scene.until(lambda: scene.state(second) is ContainerState.RUNNING)
        shown = scene.fleet.view().processes[second]
        assert held.name not in (shown.worker, *shown.others)
        await scene.fleet.pool.hold(held, Behavior.RUN)
        await scene.until_over()
        await scene.until_empty()

    staged(Scene(), acts)
