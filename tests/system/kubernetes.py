"""Containers over a real control plane of Kubernetes on this machine (`kubernetes_control`): on
nodes whose kubelets are played and run real supervisors (`kubernetes_nodes`), and on one with a
real kubelet (`kubernetes_kubelet`).

`python -m tests.system.kubernetes --containers 500 --kubelet 60` goes through all scenes:
manifests, rights, containers with a dispatcher that is killed, an API server that is restarted,
Pods that are deleted and evicted, a cancellation; and those of `kubernetes_real`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from lading.core.kubernetes.pod_manifest import CONTAINER
from lading.core.kubernetes.refusals import RIGHTS
from tests.system import kubernetes_real
from tests.system.desk import Desk, desk_of
from tests.system.kubernetes_control import KUBELET, ApiRefused
from tests.system.kubernetes_nodes import FIT
from tests.system.kubernetes_site import (
    CORE,
    DEPLOY,
    PLACES,
    RBAC,
    REAL,
    Site,
    eviction,
    running_site,
    states_of,
)

_ROLE = f"{RBAC}/roles/lading-dispatcher"
_CANCEL_LIMIT = 3.0
# Programs that the node with a real kubelet takes, beside root.
_PARTS = ("runc", "mmdebstrap", "nsenter", "ip", "gcc")


async def check_rights(site: Site) -> None:
    """`lading kubernetes test` names each verb that the Role lacks, and passes with all of them."""
    site.nodes.message = FIT
    role = await site.plane.ask("GET", _ROLE)
    for resource, verbs in RIGHTS.items():
        for verb in verbs:
            rules = [
                {
                    "apiGroups": [""], "resources": [kind],
                    "verbs": [one for one in has if (kind, one) != (resource, verb)],
                }
                for kind, has in RIGHTS.items()
            ]  # fmt: skip
            await site.plane.ask("PATCH", _ROLE, {"rules": rules})
            # The authorizer follows the Role by a watch.
            await asyncio.sleep(0.5)
            passes, said = await site.test("--no-server")
            assert not passes, said
            assert f"{verb} {resource}" in said or f"verb {verb} for {resource}" in said, said
            site.tell(f"rights: without {verb} {resource}: {_failure(said)}")
    await site.plane.ask("PATCH", _ROLE, {"rules": role["rules"]})
    await asyncio.sleep(0.5)
    passes, said = await site.test("--no-server")
    assert passes, said
    site.tell("rights: with all of them the test passes")


def _failure(said: str) -> str:
    return next((line for line in said.splitlines() if line.startswith("FAIL")), "").strip()


async def play(site: Site, desk: Desk, *, containers: int, kubelet: int) -> None:
    """Containers on the played nodes, and `kubelet` of them on the real one, with harm of all
    kinds. Each ends once, and nothing is left.
    """
    chance = random.Random(1)
    site.start()
    real = [
        await desk.submit(f"sleep 3; echo {number}", scheduling_parameters=REAL)
        for number in range(kubelet)
    ]
    uuids = [await desk.submit(f"sleep 1; echo {number}") for number in range(containers)]
    places = [KUBELET, ""] if kubelet else [""]
    harmed = 0
    for place in places:
        await site.until_running(2, node=place)
    site.kill()
    site.start()
    for place in places:
        harmed += await delete_pods(site, chance, node=place)
    site.tell(f"harm: the dispatcher is killed, {harmed} running Pods are deleted")
    site.plane.end("kube-apiserver")
    site.plane.start("kube-apiserver")
    await site.plane.until_ready()
    site.tell("harm: the API server is killed and started again")
    if site.node is not None:
        site.node.end("kubelet")
        site.node.start("kubelet")
        site.tell("harm: the kubelet is killed and started again")
    await check_budget(site)
    for place in places:
        evicted = await drain(site, node=place)
        harmed += evicted
        site.tell(f"harm: node {place or 'of any'} is drained, {evicted} of its Pods are evicted")
    site.kill()
    site.start()
    site.tell("harm: the dispatcher is killed again")
    again = 0
    for uuid in [*uuids, *real]:
        container = await desk.until(uuid, "Complete", "Cancelled")
        request = await desk.client.get("container_requests", uuid)
        assert (container["state"], container["exit_code"]) == ("Complete", 0), container
        states = await states_of(desk, container["uuid"])
        assert states.count("Running") == states.count("Complete") == 1, states
        again += request["container_count"] > 1
    site.tell(
        f"containers: {len(uuids)} requests on played kubelets and {len(real)} on the real one"
        f" ended Complete; {again} of them took two"
    )
    # Nobody else's container was lost.
    assert again <= harmed
    twice = [name for name, times in Counter(site.nodes.ran).items() if times > 1]
    assert not twice, twice


async def delete_pods(site: Site, chance: random.Random, *, node: str) -> int:
    """Delete two running Pods, and wait until they are gone; their number."""
    chosen = chance.sample(await site.until_running(4, node=node), 2)
    for pod in chosen:
        await site.plane.ask("DELETE", f"{CORE}/pods/{pod['metadata']['name']}")
    uids = {one["metadata"]["uid"] for one in chosen}
    while uids & {one["metadata"]["uid"] for one in await site.pods()}:
        await asyncio.sleep(0.1)
    return len(chosen)


async def check_budget(site: Site) -> None:
    """The budget of deploy/kubernetes forbids to evict a running Pod."""
    budgets = PLACES["PodDisruptionBudget"]
    (budget,) = [
        one
        for one in yaml.safe_load_all((DEPLOY / "disruption-budgets.yaml").read_text())
        if one["metadata"]["name"] == "lading-containers"
    ]
    await site.plane.ask("POST", budgets, budget)
    running = await site.until_running(1)
    try:
        await site.plane.ask("POST", *eviction(running[0]["metadata"]["name"]))
        raise AssertionError("the budget does not hold an eviction back")
    except ApiRefused as error:
        # 404: it has ended meanwhile.
        if error.status not in (404, 429):
            raise
        site.tell(f"drain: under the budget an eviction is answered with {error.status}")
    await site.plane.ask("DELETE", f"{budgets}/lading-containers")


async def drain(site: Site, *, node: str) -> int:
    """Close a node for new Pods and evict those on it, as `kubectl drain`; their number."""
    running = await site.until_running(1, node=node)
    node = running[0]["spec"]["nodeName"]
    await site.plane.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    evicted = 0
    for pod in await site.pods():
        name = pod["metadata"]["name"]
        is_there = pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running"
        if not is_there or "deletionTimestamp" in pod["metadata"]:
            continue
        try:
            await site.plane.ask("POST", *eviction(name))
            evicted += 1
        except ApiRefused as error:
            # 404: it has ended meanwhile.
            if error.status != 404:
                raise
    await site.plane.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    return evicted


async def check_cancel(site: Site, desk: Desk, **more: Any) -> None:
    """A container that runs is cancelled within the limit. `more`: fields of its request."""
    uuid = await desk.submit("sleep 600", **more)
    await desk.until(uuid, "Running")
    began = time.monotonic()
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")
    seconds = time.monotonic() - began
    site.tell(f"cancel{' on the real kubelet' if more else ''}: {seconds:.2f} s")
    assert seconds < _CANCEL_LIMIT, seconds


async def check_nothing_left(site: Site) -> None:
    """No Pod and no secret of a container are there after a while."""
    while True:
        secrets = (await site.plane.ask("GET", f"{CORE}/secrets"))["items"]
        left = [one for one in secrets if CONTAINER in one["metadata"].get("labels", {})]
        left += await site.pods()
        if not left:
            site.tell("removal: no Pod and no secret is left")
            return
        await asyncio.sleep(0.5)


async def run(root: Path, *, containers: int, kubelet: int, limit: float) -> None:
    """All scenes; those of a real kubelet with `kubelet` containers. Raises AssertionError."""
    async with running_site(root, with_kubelet=kubelet > 0) as site, asyncio.timeout(limit):
        await check_rights(site)
        async with desk_of(site.cluster, limit=limit) as desk:
            if kubelet:
                await kubernetes_real.check_isolations(site)
            await play(site, desk, containers=containers, kubelet=kubelet)
            await check_cancel(site, desk)
            if kubelet:
                await check_cancel(site, desk, scheduling_parameters=REAL)
                await kubernetes_real.play(site, desk)
        await check_nothing_left(site)


def missing_parts() -> list[str]:
    """What this machine lacks for a node with a real kubelet."""
    lacks = [
        one for one in _PARTS if shutil.which(one, path=f"{os.environ['PATH']}:/usr/sbin") is None
    ]
    return [*(["root"] if os.geteuid() else []), *lacks]


def main() -> int:
    """The large form; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.kubernetes", description=__doc__)
    parser.add_argument("--containers", type=int, default=500)
    parser.add_argument(
        "--kubelet", type=int, default=60, help="containers on a real kubelet; 0: without one"
    )
    parser.add_argument(
        "--limit", type=float, default=1800.0, help="seconds after which it has failed"
    )
    given = parser.parse_args()
    kubelet = given.kubelet
    if kubelet and (lacks := missing_parts()):
        sys.stdout.write(f"kubernetes: without a real kubelet, as there is no {', '.join(lacks)}\n")
        kubelet = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lading-kubernetes-") as folder:
        asyncio.run(
            run(Path(folder), containers=given.containers, kubelet=kubelet, limit=given.limit)
        )
    sys.stdout.write(f"kubernetes: {time.monotonic() - began:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
