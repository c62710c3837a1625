"""Containers over a real control plane of Kubernetes on this machine (`kubernetes_control`), on
nodes whose kubelets are played and run real supervisors (`kubernetes_nodes`).

`python -m tests.system.kubernetes --containers 500` goes through all scenes: manifests, rights,
containers with a dispatcher that is killed, an API server that is restarted, Pods that are deleted
and evicted, and a cancellation.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from lading.core.kubernetes.pod_manifest import CONTAINER
from lading.core.kubernetes.refusals import RIGHTS
from tests.system.cluster import LADING, Cluster, running_cluster
from tests.system.desk import Desk, desk_of
from tests.system.environments import ROOT
from tests.system.kubernetes_control import ApiRefused, ControlPlane, running_control_plane
from tests.system.kubernetes_nodes import FIT, Nodes, launching, playing_nodes

NAMESPACE = "lading"
DEPLOY = ROOT / "deploy" / "kubernetes"
_CORE = f"/api/v1/namespaces/{NAMESPACE}"
_RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
_PLACES = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": f"{_CORE}/configmaps",
    "Service": f"{_CORE}/services",
    "ServiceAccount": f"{_CORE}/serviceaccounts",
    "Role": f"{_RBAC}/roles",
    "RoleBinding": f"{_RBAC}/rolebindings",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "StatefulSet": f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
}
# The others are accepted by a dry run only: their Pods need the image, and a real kubelet.
_MADE = ("Namespace", "ServiceAccount", "Role", "RoleBinding")
_ACCOUNT = f"{_CORE}/serviceaccounts/lading-dispatcher/token"
_ROLE = f"{_RBAC}/roles/lading-dispatcher"
_CANCEL_LIMIT = 3.0


@dataclass
class Site:
    """A control plane with nodes, a server, and a dispatcher between them, since `began`."""

    root: Path
    plane: ControlPlane
    nodes: Nodes
    cluster: Cluster
    config: Path
    dispatcher: subprocess.Popen[bytes] | None = None
    began: float = field(default_factory=time.monotonic)

    def tell(self, text: str) -> None:
        """Show a finding, with the seconds until it."""
        sys.stdout.write(f"{time.monotonic() - self.began:6.1f} s  {text}\n")
        sys.stdout.flush()

    def start(self) -> None:
        """Start the dispatcher."""
        with (self.root / "dispatcher.log").open("ab") as log:
            self.dispatcher = subprocess.Popen(
                [
                    LADING, "dispatch", "--join", str(self.root / "join"), "--fleet", "kubernetes",
                    "--data", str(self.root / "d"), "--config", str(self.config),
                ],
                stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        """Kill the dispatcher."""
        process, self.dispatcher = self.dispatcher, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(30)

    async def pods(self) -> list[dict[str, Any]]:
        """All Pods of the namespace."""
        return list((await self.plane.ask("GET", f"{_CORE}/pods"))["items"])

    async def until_running(self, count: int) -> list[dict[str, Any]]:
        """The running Pods, once there are so many."""
        while True:
            found = [one for one in await self.pods() if one["status"]["phase"] == "Running"]
            found = [one for one in found if "deletionTimestamp" not in one["metadata"]]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.1)


async def apply_manifests(plane: ControlPlane) -> int:
    """Have the API server check each manifest of deploy/kubernetes strictly, and make those of the
    namespace and its rights; the number of objects.
    """
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    objects = [one for name in listed for one in yaml.safe_load_all((DEPLOY / name).read_text())]
    for one in objects:
        path = f"{_PLACES[one['kind']]}?fieldValidation=Strict"
        if one["kind"] == "Namespace":
            await plane.ask("POST", path, one)
            continue
        await plane.ask("POST", f"{path}&dryRun=All", one)
        if one["kind"] in _MADE:
            await plane.ask("POST", path, one)
    return len(objects)


async def check_rights(site: Site) -> None:
    """`lading kubernetes test` names each verb that the Role lacks, and passes with all of them."""
    command = ("kubernetes", "test", "--config", str(site.config), "--no-server")
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
            done = await asyncio.to_thread(site.cluster.lading, *command, check=False)
            said = done.stdout + done.stderr
            assert done.returncode != 0, said
            assert f"{verb} {resource}" in said or f"verb {verb} for {resource}" in said, said
            site.tell(f"rights: without {verb} {resource}: {_failure(said)}")
    await site.plane.ask("PATCH", _ROLE, {"rules": role["rules"]})
    await asyncio.sleep(0.5)
    done = await asyncio.to_thread(site.cluster.lading, *command, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    site.tell("rights: with all of them the test passes")


def _failure(said: str) -> str:
    return next((line for line in said.splitlines() if line.startswith("FAIL")), "").strip()


async def play(site: Site, desk: Desk, *, containers: int) -> None:
    """Containers, with harm of all kinds. Each ends once, and nothing is left."""
    chance = random.Random(1)
    site.start()
    uuids = [await desk.submit(f"sleep 1; echo {number}") for number in range(containers)]
    await site.until_running(2)
    site.kill()
    site.start()
    deleted = await delete_pods(site, chance)
    site.tell(f"harm: the dispatcher is killed, {deleted} running Pods are deleted")
    site.plane.end("kube-apiserver")
    site.plane.start("kube-apiserver")
    await site.plane.until_ready()
    site.tell("harm: the API server is killed and started again")
    evicted = await drain(site)
    site.tell(f"harm: a node is drained, {evicted} of its Pods are evicted")
    site.kill()
    site.start()
    site.tell("harm: the dispatcher is killed again")
    again = 0
    for uuid in uuids:
        container = await desk.until(uuid, "Complete", "Cancelled")
        request = await desk.client.get("container_requests", uuid)
        assert (container["state"], container["exit_code"]) == ("Complete", 0), container
        states = await states_of(desk, container["uuid"])
        assert states.count("Running") == states.count("Complete") == 1, states
        again += request["container_count"] > 1
    site.tell(f"containers: {containers} requests ended Complete; {again} of them took two")
    # Nobody else's container was lost.
    assert again <= deleted + evicted
    twice = [name for name, times in Counter(site.nodes.ran).items() if times > 1]
    assert not twice, twice


async def states_of(desk: Desk, container: str) -> list[str]:
    """The states that a container has had, each as often as it came to it."""
    told = await desk.client.list("logs", filters=[["object_uuid", "=", container]], limit=100)
    changes = [one["properties"].get("new_attributes", {}).get("state") for one in told]
    return [state for state, _ in groupby(one for one in changes if one)]


async def delete_pods(site: Site, chance: random.Random) -> int:
    """Delete two running Pods, and wait until they are gone; their number."""
    chosen = chance.sample(await site.until_running(4), 2)
    for pod in chosen:
        await site.plane.ask("DELETE", f"{_CORE}/pods/{pod['metadata']['name']}")
    uids = {one["metadata"]["uid"] for one in chosen}
    while uids & {one["metadata"]["uid"] for one in await site.pods()}:
        await asyncio.sleep(0.1)
    return len(chosen)


async def drain(site: Site) -> int:
    """Close a node for new Pods and evict those on it, as `kubectl drain`; their number. The budget
    of deploy/kubernetes forbids it first.
    """
    budgets = _PLACES["PodDisruptionBudget"]
    (budget,) = [
        one
        for one in yaml.safe_load_all((DEPLOY / "disruption-budgets.yaml").read_text())
        if one["metadata"]["name"] == "lading-containers"
    ]
    await site.plane.ask("POST", budgets, budget)
    running = await site.until_running(1)
    try:
        await site.plane.ask("POST", *_eviction(running[0]["metadata"]["name"]))
        raise AssertionError("the budget does not hold an eviction back")
    except ApiRefused as error:
        # 404: it has ended meanwhile.
        if error.status not in (404, 429):
            raise
        site.tell(f"drain: under the budget an eviction is answered with {error.status}")
    await site.plane.ask("DELETE", f"{budgets}/lading-containers")
    running = await site.until_running(1)
    node = running[0]["spec"]["nodeName"]
    await site.plane.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    evicted = 0
    for pod in await site.pods():
        name = pod["metadata"]["name"]
        is_there = pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running"
        if not is_there or "deletionTimestamp" in pod["metadata"]:
            continue
        try:
            await site.plane.ask("POST", *_eviction(name))
            evicted += 1
        except ApiRefused as error:
            # 404: it has ended meanwhile.
            if error.status != 404:
                raise
    await site.plane.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    return evicted


def _eviction(pod: str) -> tuple[str, dict[str, Any]]:
    """Path and body of the eviction of a Pod."""
    metadata = {"name": pod, "namespace": NAMESPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return f"{_CORE}/pods/{pod}/eviction", body


async def check_cancel(site: Site, desk: Desk) -> None:
    """A container that runs is cancelled within the limit."""
    uuid = await desk.submit("sleep 600")
    await desk.until(uuid, "Running")
    began = time.monotonic()
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")
    seconds = time.monotonic() - began
    site.tell(f"cancel: {seconds:.2f} s")
    assert seconds < _CANCEL_LIMIT, seconds


async def check_nothing_left(site: Site) -> None:
    """No Pod and no secret of a container are there after a while."""
    while True:
        secrets = (await site.plane.ask("GET", f"{_CORE}/secrets"))["items"]
        left = [one for one in secrets if CONTAINER in one["metadata"].get("labels", {})]
        left += await site.pods()
        if not left:
            site.tell("removal: no Pod and no secret is left")
            return
        await asyncio.sleep(0.5)


def write_config(path: Path, kubeconfig: Path) -> None:
    """The configuration of the dispatcher, and of the test of a configuration."""
    path.write_text(
        yaml.safe_dump(
            {
                "Containers": {
                    "ReserveExtraRAM": 0,
                    "Kubernetes": {
                        "Image": "lading:test",
                        "Kubeconfig": str(kubeconfig),
                        "Nodes": {"plain": {"VCPUs": 16, "RAM": "64GiB", "Scratch": "100GiB"}},
                    },
                }
            }
        )
    )


async def run(root: Path, *, containers: int, limit: float) -> None:
    """All scenes. Raises AssertionError."""
    async with AsyncExitStack() as stack:
        (root / "plane").mkdir()
        plane = await stack.enter_async_context(running_control_plane(root / "plane"))
        objects = await apply_manifests(plane)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await plane.ask("POST", _ACCOUNT, review)
        token = str(answer["status"]["token"])
        config = root / "dispatch.yml"
        write_config(config, plane.kubeconfig("dispatcher", token, namespace=NAMESPACE))
        server = "Containers: {Dispatcher: none, StopGracePeriod: 300ms}\n"
        cluster = stack.enter_context(running_cluster(root / "data", server))
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep")
        join = str(root / "join")
        cluster.lading("admin", "dispatcher-token", join, "--data", str(cluster.data))
        nodes = await stack.enter_async_context(
            playing_nodes(plane, NAMESPACE, launching(root), count=3, most=8)
        )
        site = Site(root, plane, nodes, cluster, config)
        stack.callback(site.kill)
        site.tell(f"manifests: {objects} objects are accepted with strict validation")
        async with asyncio.timeout(limit):
            await check_rights(site)
            async with desk_of(cluster, limit=limit) as desk:
                await play(site, desk, containers=containers)
                await check_cancel(site, desk)
            await check_nothing_left(site)


def main() -> int:
    """The large form; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.kubernetes", description=__doc__)
    parser.add_argument("--containers", type=int, default=500)
    parser.add_argument(
        "--limit", type=float, default=1800.0, help="seconds after which it has failed"
    )
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lading-kubernetes-") as folder:
        asyncio.run(run(Path(folder), containers=given.containers, limit=given.limit))
    sys.stdout.write(f"kubernetes: {time.monotonic() - began:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
