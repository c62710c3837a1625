from __future__ import annotations

from lading.core.containers.container import ContainerState
from lading.core.scheduling.instance_lifecycle import InstancePhase, InstanceTimes
from lading.testing.cloud_troubles import Troubles

from .scene import Scene, staged

QUICK = Troubles(boot=(5.0, 10.0))


def test_a_removal_and_a_lost_connection_are_no_failed_probes() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.state(uuid) is ContainerState.RUNNING)
        (vm,) = scene.cloud.vms.values()
        for agent in list(vm.agents):
            agent.close()
        await scene.until_over()
        await scene.until_empty()
        counted = [
            line
            for line in scene.fleet.counts.text().decode().splitlines()
            if "probe_duration" in line
        ]
        assert next(line for line in counted if 'count{outcome="fail"}' in line).endswith(" 0.0")

    staged(Scene(troubles=QUICK), acts)


def test_a_vm_that_stops_answering_is_removed() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.phases() == [InstancePhase.RUNNING])
        (vm,) = scene.cloud.vms.values()
        vm.dies = 0.0
        (one,) = scene.machines
        await scene.until(lambda: one.why)
        assert one.why == "it has not answered for 120 s"
        await scene.until_over()
        assert scene.server.records[uuid]["runtime_status"]["failure"] == "node"

    staged(Scene(troubles=QUICK, seconds=9999.0), acts)


def test_one_whose_secret_is_wrong_gets_nothing_and_goes() -> None:
    async def acts(scene: Scene) -> None:
        uuid = scene.server.add()
        await scene.until(lambda: scene.cloud.vms)
        next(iter(scene.cloud.vms.values())).secret = "other"
        await scene.until(lambda: "does not know the secret" in scene.told(uuid))
        assert next(iter(scene.cloud.vms.values())).used == 0
        await scene.until_over()

    staged(Scene(troubles=QUICK, times=InstanceTimes(booting=60.0)), acts)
