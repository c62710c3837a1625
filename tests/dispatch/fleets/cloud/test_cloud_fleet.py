from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from lading.core.containers.container import ContainerState
from lading.core.errors import Conflict, Unavailable
from lading.core.resources import GIB, Resources
from lading.core.scheduling.cloud_limits import Pressure
from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase, InstanceTimes
from lading.core.scheduling.planning import FleetWorker, Snapshot, StartDecision, TrackedContainer
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.metrics import PREFIX
from lading.testing.cloud import FakeCloud
from lading.testing.cloud_troubles import Troubles
from lading.testing.simulated_loop import pass_time, play
from tests.simulation.cloud_scenario import SETTINGS, TYPES

from .scene import Scene, most, staged

QUICK = Troubles(boot=(5.0, 10.0))


def test_a_vm_is_made_used_and_removed() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add(vcpus=2, ram=GIB)
        await scene.until(lambda: scene.machines)
        assert scene.machines[0].type == "type2"
        await scene.until(lambda: "Waiting for a type2 instance to boot" in scene.told(uuid))
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        assert scene.phases() == [InstancePhase.RUNNING]
        await scene.until_over()
        await scene.until(lambda: scene.phases() == [InstancePhase.IDLE])
        await scene.until_empty()
        assert scene.machines == [] or scene.machines[0].why == "it was idle for 60 s"

    staged(Scene(troubles=QUICK), acts)


def test_several_containers_share_a_vm() -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add(vcpus=8, ram=GIB)
        await scene.until_over()
        for _ in range(8):
            scene.server.add(vcpus=1, ram=GIB)
        await scene.until_over()
        assert len(scene.cloud.vms) == 1

    staged(Scene(troubles=QUICK, types=(TYPES[5],)), acts)


def test_a_small_one_starts_while_a_big_one_waits_for_its_vm() -> None:
    async def acts(scene: Scene) -> None:
        first = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(first) is ContainerState.COMPLETE)
        scene.cloud.troubles.boot = (200.0, 210.0)
        big = scene.server.add(vcpus=16, ram=GIB, priority=9)
        small = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(small) is ContainerState.COMPLETE, limit=60.0)
        assert scene.state(big) is ContainerState.QUEUED

    staged(Scene(troubles=QUICK), acts)


def test_at_quota_idle_vms_go_at_once_for_those_that_are_needed() -> None:
    async def acts(scene: Scene) -> None:
        small = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(small) is ContainerState.COMPLETE)
        big = scene.server.add(vcpus=16, ram=GIB)
        await scene.until(lambda: scene.state(big) is ContainerState.COMPLETE, limit=400.0)

    staged(Scene(troubles=QUICK, limits=most(1), times=InstanceTimes(idle=9999.0)), acts)


def test_what_fits_no_type_stays_queued_with_the_reason() -> None:
    async def acts(scene: Scene) -> None:
        giant = scene.server.add(vcpus=99, ram=GIB)
        await scene.until(
            lambda: "No instance type can hold it: it needs 99 VCPUs" in scene.told(giant)
        )
        assert "the nearest, type16," in scene.told(giant)
        assert scene.state(giant) is ContainerState.QUEUED
        assert scene.cloud.vms == {}

    staged(Scene(), acts)


def test_a_vm_that_a_container_is_on_its_way_to_is_not_idle() -> None:
    async def acts() -> None:
        cloud = FakeCloud(troubles=QUICK)
        settings = replace(SETTINGS, times=InstanceTimes(idle=20.0))
        fleet = CloudFleet(settings, cloud, cloud.reach, clock=asyncio.get_running_loop().time)
        serving = asyncio.create_task(fleet.serve())
        while not fleet.view().is_known:
            await fleet.changed()
        fleet.pool.create("vm-1", TYPES[0])
        while not fleet.view().workers:
            await fleet.changed()
        (found,) = fleet.view().workers
        worker = FleetWorker(id=found.id, capacity=TYPES[0].resources)
        one = TrackedContainer(uuid="one", priority=1, created_at="1", need=Resources(1, GIB))
        assert fleet.plan(Snapshot(queue=(one,), workers=(worker,))).starts == (
            StartDecision("one", worker.id),
        )
        # Locking it takes longer than the VM may be idle.
        await pass_time(100.0)
        assert [one.phase for one in fleet.pool.machines.values()] == [InstancePhase.RUNNING]
        fleet.plan(Snapshot(queue=(), workers=(worker,)))
        assert [one.phase for one in fleet.pool.machines.values()] == [InstancePhase.IDLE]
        await pass_time(40.0)
        assert cloud.vms == {}
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    play(acts())


def test_nothing_is_started_on_a_vm_that_is_to_go() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add(vcpus=1, ram=GIB)
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        (one,) = scene.machines
        scene.fleet.pool.shut_down(one, "a test says so")
        with pytest.raises(Unavailable, match="cannot take a container now"):
            await scene.fleet.start(StartRequest(uuid="another", worker=one.name, token="t"))

    staged(Scene(troubles=QUICK), acts)


def test_a_restart_finds_vms_and_containers_again() -> None:
    async def acts(scene: Scene) -> None:
        uuids = [scene.server.add(vcpus=4, ram=GIB) for _ in range(5)]
        await scene.until(
            lambda: all(scene.state(uuid) is ContainerState.RUNNING for uuid in uuids)
        )
        before = set(scene.cloud.vms)
        for _ in range(2):
            await scene.close()
            scene.open()
            await scene.until(lambda: scene.phases().count(InstancePhase.RUNNING) == len(before))
        await scene.until_over()
        assert all(scene.state(uuid) is ContainerState.COMPLETE for uuid in uuids)
        assert set(scene.cloud.vms) == before
        assert set(scene.server.locks.values()) == {1}
        await scene.until_empty()

    staged(Scene(troubles=QUICK, seconds=200.0), acts)


def test_a_vm_of_somebody_else_is_left_alone() -> None:
    async def acts(scene: Scene) -> None:
        scene.cloud.foreign("i-theirs")
        uuid = scene.server.add()
        await scene.until_over()
        assert scene.state(uuid) is ContainerState.COMPLETE
        await scene.until(lambda: set(scene.cloud.vms) == {"i-theirs"})

    staged(Scene(troubles=QUICK), acts)


def test_a_vm_that_is_missing_from_a_few_lists_is_not_gone() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        (vm,) = scene.cloud.vms.values()
        vm.hidden = 3
        await scene.until_over()
        assert scene.state(uuid) is ContainerState.COMPLETE

    staged(Scene(troubles=QUICK, seconds=300.0), acts)


def test_a_vm_that_is_gone_takes_its_containers_along() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        scene.cloud.take(next(iter(scene.cloud.vms)))
        await scene.until(lambda: scene.state(uuid) is ContainerState.CANCELLED)
        assert scene.server.records[uuid]["runtime_status"]["failure"] == "node"
        detail = scene.server.records[uuid]["runtime_status"]["errorDetail"]
        assert "is gone: the cloud does not list it any more." in detail

    staged(Scene(troubles=QUICK, seconds=9999.0), acts)


def test_a_preemptible_vm_that_is_gone_was_taken_away() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add(scheduling_parameters={"preemptible": True})
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        scene.cloud.take(next(iter(scene.cloud.vms)))
        await scene.until(lambda: scene.state(uuid) is ContainerState.CANCELLED)
        assert scene.server.records[uuid]["runtime_status"]["failure"] == "preempted"

    spot = tuple(structs.replace(one, preemptible=True) for one in TYPES)
    staged(Scene(troubles=QUICK, seconds=9999.0, types=spot), acts)


def test_an_image_that_never_boots_is_said_and_tried_less_and_less() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: "did not become ready within 30 s (last: " in scene.told(uuid))
        assert "no ssh connection: refused" in scene.told(uuid)
        await scene.until_empty()
        made = scene.cloud.calls["create"]
        await pass_time(50.0)
        assert scene.cloud.calls["create"] == made
        assert (
            f'{PREFIX}boot_outcomes_total{{outcome="failure"}} 1.0'
            in scene.fleet.counts.text().decode()
        )

    staged(Scene(troubles=Troubles(never_boots=1.0), times=InstanceTimes(booting=30.0)), acts)


def test_a_cloud_that_cannot_be_asked_is_said() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(
            lambda: (
                "the instances cannot be listed: the fake cloud lists nothing now"
                in scene.told(uuid)
            )
        )
        assert 'operations_total{error="1",operation="List"}' in scene.fleet.counts.text().decode()
        scene.cloud.troubles.list_fails = 0.0
        await scene.until_over()
        assert scene.cloud.calls["create"] == 1

    staged(Scene(troubles=Troubles(list_fails=1.0, boot=(1.0, 2.0))), acts)


def test_a_vm_of_an_earlier_dispatcher_that_does_not_answer_stops_nothing_else() -> None:
    async def acts(scene: Scene) -> None:
        first = scene.server.add()
        await scene.until(lambda: scene.state(first) is ContainerState.RUNNING)
        (vm,) = scene.cloud.vms.values()
        await scene.close()
        vm.ready = 1e9
        second = scene.server.add()
        scene.open()
        await scene.until(lambda: scene.state(second) is ContainerState.COMPLETE)
        seen = scene.fleet.view()
        assert seen.unasked == (vm.instance.id,)
        assert f"{vm.instance.id} ({vm.instance.id}: no ssh connection: refused)" in seen.trouble
        await scene.until_over()

    staged(Scene(troubles=QUICK, seconds=9.0), acts)


def test_a_cloud_that_refuses_is_said() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(
            lambda: "the cloud has none to give: the fake cloud made nothing" in scene.told(uuid)
        )
        assert scene.cloud.vms == {}

    staged(Scene(troubles=Troubles(create_fails=1.0)), acts)


def test_a_broken_vm_is_let_go_once_it_is_empty() -> None:
    async def acts(scene: Scene) -> None:
        first = scene.server.add()
        await scene.until(lambda: scene.state(first) is ContainerState.RUNNING)
        (vm,) = scene.cloud.vms.values()
        vm.breaks = 0.0
        await scene.until(lambda: scene.machines[0].broken)
        second = scene.server.add()
        await scene.until_over()
        assert scene.state(first) is scene.state(second) is ContainerState.COMPLETE
        assert vm.used == 1

    staged(Scene(troubles=QUICK, seconds=100.0), acts)


def test_hold_and_drain_are_kept_in_tags_and_over_a_restart() -> None:
    async def acts(scene: Scene) -> None:
        first = scene.server.add()
        await scene.until(lambda: scene.state(first) is ContainerState.COMPLETE)
        (one,) = scene.machines
        await scene.fleet.pool.hold(one, Behavior.HOLD)
        second = scene.server.add()
        await scene.until(lambda: scene.state(second) is ContainerState.COMPLETE)
        await pass_time(200.0)
        assert list(scene.cloud.vms) == [one.name]
        await scene.close()
        scene.open()
        await scene.until(lambda: scene.phases() == [InstancePhase.IDLE])
        (one,) = scene.machines
        assert one.behavior is Behavior.HOLD
        await scene.fleet.pool.hold(one, Behavior.DRAIN)
        await scene.until_empty()
        assert one.why == "it is drained"

    staged(Scene(troubles=QUICK), acts)


def test_a_lost_connection_does_not_lose_the_container() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        scene.cloud.troubles.loses_link = 0.7
        await pass_time(100.0)
        scene.cloud.troubles.loses_link = 0.0
        await scene.until_over()
        assert scene.state(uuid) is ContainerState.COMPLETE

    staged(Scene(troubles=QUICK, seconds=150.0), acts)


def test_a_request_that_is_cancelled_stops_its_supervisor() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        scene.server.change_priority(uuid, 0)
        await scene.until(lambda: scene.state(uuid) is ContainerState.CANCELLED)

    staged(Scene(troubles=QUICK, seconds=9999.0), acts)


def test_what_cannot_be_reached_is_not_taken_for_gone() -> None:
    async def acts(scene: Scene) -> None:
        fleet, uuid = scene.fleet, scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        (one,) = scene.machines
        with pytest.raises(Conflict, match="an earlier supervisor"):
            await fleet.start(StartRequest(uuid=uuid, worker=one.name, token="t"))
        with pytest.raises(Unavailable, match="cannot take a container now"):
            await fleet.start(StartRequest(uuid="other", worker="nowhere", token="t"))
        link, one.link = one.link, None
        fleet.ended(one, uuid)
        with pytest.raises(Unavailable, match="may still be there"):
            await fleet.clean(uuid)
        one.link = link
        assert fleet.place(uuid) is one

    staged(Scene(troubles=QUICK, seconds=9999.0), acts)


def test_figures_count_vms_and_containers() -> None:
    async def acts(scene: Scene) -> None:
        scene.server.add(vcpus=2)
        scene.server.add(vcpus=3)
        await scene.until(lambda: len(scene.machines) == 1)
        waiting = scene.server.add(vcpus=16)
        await scene.until(lambda: scene.phases() == [InstancePhase.RUNNING])
        found = scene.fleet.figures()
        assert [one.category for one in found.machines] == ["inuse"]
        assert (found.at_quota, found.over_quota, found.most) == (True, 2, 0)
        assert found.queue == (
            ("Queued", "type16", 1),
            ("Queued", "type4", 1),
            ("Running", "type4", 1),
        )
        assert "no further instance can be had: 1 of at most 1 instances" in scene.told(waiting)

    staged(Scene(troubles=QUICK, seconds=100.0, limits=most(1), types=TYPES[3:4] + TYPES[6:]), acts)


def test_a_busy_api_gets_fewer_containers_at_a_time() -> None:
    async def acts(scene: Scene) -> None:
        for _ in range(6):
            scene.server.add(vcpus=1)
        await scene.until(lambda: scene.fleet.figures().running == 1)
        assert scene.fleet.figures().most == 1
        waiting = [
            uuid for uuid in scene.server.records if scene.state(uuid) is ContainerState.QUEUED
        ]
        await scene.until(
            lambda: "as many containers run as the API can take now" in scene.told(waiting[-1])
        )
        scene.server.down = True
        await scene.until(lambda: scene.fleet.figures().busy_at)
        scene.server.down = False
        assert scene.fleet.figures().most == 1
        await scene.until_over()

    staged(Scene(troubles=QUICK, seconds=200.0, pressure=Pressure(most=1, since=1e9)), acts)
