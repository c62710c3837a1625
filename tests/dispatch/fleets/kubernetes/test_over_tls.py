"""The fleet over TLS to a server on this machine, with the access of a kubeconfig."""

from __future__ import annotations

import asyncio
from pathlib import Path
from signal import Signals

from lading.config.site import load
from lading.core.resources import MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleet import FleetSite, StartRequest
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import open_kubernetes
from lading.testing.containers import TOKEN
from lading.testing.kubernetes import FakeCluster
from tests.kubernetes_clusters import kubeconfig, serving

UUID = "zzzzz-dz642-000000000000001"


async def test_a_container_is_started_followed_and_removed(tmp_path: Path) -> None:
    cluster = FakeCluster()
    async with asyncio.timeout(60), serving(cluster, tmp_path) as url:
        section = {
            "Image": "lading:1",
            "Kubeconfig": str(kubeconfig(tmp_path, url)),
            "Nodes": {"plain": {"VCPUs": 4, "RAM": "8GiB", "Scratch": "8GiB"}},
        }
        site = FleetSite(
            config=load(overrides={"Containers": {"Kubernetes": section}}),
            token=TOKEN,
            run_directory=tmp_path,
            cache_directory=tmp_path,
            template={},
            api_url="https://server",
        )
        async with open_kubernetes(site) as fleet:
            while not fleet.view().workers:
                await fleet.changed()
            need = TrackedContainer(uuid=UUID, need=Resources(1, MIB))
            request = StartRequest(uuid=UUID, worker="plain", token="t", container=need)
            await fleet.start(request)
            while "Started by Kubernetes" not in fleet.view().processes[UUID].note:
                await fleet.changed()
            await fleet.signal(UUID, Signals.SIGKILL)
            while fleet.view().processes[UUID].alive:
                await fleet.changed()
            await fleet.clean(UUID)
            assert not fleet.view().processes
        await cluster.close()
    assert not cluster.pods
    assert set(cluster.tokens) == {"Bearer abc"}
