"""A site with Kubernetes for tests: a real control plane, its nodes, a server, and a dispatcher
with the rights of `deploy/kubernetes`.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from lading.core.kubernetes.pod_manifest import CONTAINER
from tests.system import kubernetes_kubelet, kubernetes_nodes
from tests.system.cluster import LADING, Cluster, free_address, running_cluster
from tests.system.desk import Desk
from tests.system.environments import ROOT
from tests.system.kubernetes_control import ControlPlane, running_control_plane
from tests.system.kubernetes_image import image_archive
from tests.system.kubernetes_kubelet import ADDRESS, CPUS, KubeletNode, running_kubelet
from tests.system.kubernetes_nodes import Nodes, launching, playing_nodes

NAMESPACE = "lading"
DEPLOY = ROOT / "deploy" / "kubernetes"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
PLACES = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": f"{CORE}/configmaps",
    "Service": f"{CORE}/services",
    "ServiceAccount": f"{CORE}/serviceaccounts",
    "Role": f"{RBAC}/roles",
    "RoleBinding": f"{RBAC}/rolebindings",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "StatefulSet": f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
}
REAL = {"partitions": ["kubelet"]}
"""Scheduling parameters of requests for the node with a real kubelet."""
URGENT = {"partitions": ["urgent"]}
"""Those of requests for the same node, whose Pods have the priority class `urgent`."""
# The others are accepted by a dry run only.
_MADE = ("Namespace", "ServiceAccount", "Role", "RoleBinding")
_ACCOUNT = f"{CORE}/serviceaccounts/lading-dispatcher/token"
# Few attempts: the last one of a container that cannot begin has the class of its failure.
_SERVER = "Containers: {Dispatcher: none, StopGracePeriod: 300ms, MaxDispatchAttempts: 5}\n"
_EXTRA_RAM = "256MiB"


@dataclass
class Site:
    """A control plane with nodes, a server, and a dispatcher between them, since `began`. `node` is
    the one with a real kubelet, if there is one; `image` the supervisor's there.
    """

    root: Path
    plane: ControlPlane
    nodes: Nodes
    cluster: Cluster
    kubeconfig: Path
    node: KubeletNode | None = None
    image: str = "lading:test"
    dispatcher: subprocess.Popen[bytes] | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def config(self) -> Path:
        """The configuration of the dispatcher, and of the test of a configuration."""
        return self.root / "dispatch.yml"

    def tell(self, text: str) -> None:
        """Show a finding, with the seconds until it."""
        sys.stdout.write(f"{time.monotonic() - self.began:6.1f} s  {text}\n")
        sys.stdout.flush()

    def configure(self, *, extra_ram: str = _EXTRA_RAM, **more: Any) -> None:
        """Write the configuration of the next dispatcher. `more`: keys of Kubernetes."""
        plain = {"VCPUs": 16, "RAM": "64GiB", "Scratch": "100GiB"}
        kinds: dict[str, Any] = {"plain": plain | {"NodeSelector": kubernetes_nodes.LABEL}}
        if self.node is not None:
            kinds["kubelet"] = {
                "VCPUs": CPUS, "RAM": "8GiB", "Scratch": "20GiB", "Closed": True,
                "NodeSelector": kubernetes_kubelet.LABEL, "Partitions": REAL["partitions"],
            }  # fmt: skip
            urgent = {"Partitions": URGENT["partitions"], "PriorityClass": "urgent"}
            kinds["urgent"] = kinds["kubelet"] | urgent
        section = {
            "Image": self.image, "Kubeconfig": str(self.kubeconfig), "Nodes": kinds,
            "Isolation": "privileged", "GracePeriod": "30s",
        }  # fmt: skip
        containers = {"ReserveExtraRAM": extra_ram, "Kubernetes": section | more}
        self.config.write_text(yaml.safe_dump({"Containers": containers}))

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
        return list((await self.plane.ask("GET", f"{CORE}/pods"))["items"])

    async def pod_of(self, container: str) -> dict[str, Any] | None:
        """The Pod of a container."""
        labels = [(one["metadata"].get("labels", {}), one) for one in await self.pods()]
        return next((one for each, one in labels if each.get(CONTAINER) == container), None)

    async def until_running(self, count: int, *, node: str = "") -> list[dict[str, Any]]:
        """The running Pods, of one node, once there are so many."""
        while True:
            found = [one for one in await self.pods() if one["status"]["phase"] == "Running"]
            found = [one for one in found if "deletionTimestamp" not in one["metadata"]]
            found = [one for one in found if node in ("", one["spec"]["nodeName"])]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.1)

    async def test(self, *arguments: str) -> tuple[bool, str]:
        """Run `lading kubernetes test`; whether it passes, and what it says."""
        command = ("kubernetes", "test", "--config", str(self.config), *arguments)
        done = await asyncio.to_thread(self.cluster.lading, *command, check=False, timeout=300)
        return done.returncode == 0, done.stdout + done.stderr


async def apply_manifests(plane: ControlPlane) -> int:
    """Have the API server check each manifest of deploy/kubernetes strictly, and make those of the
    namespace and its rights; the number of objects.
    """
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    objects = [one for name in listed for one in yaml.safe_load_all((DEPLOY / name).read_text())]
    for one in objects:
        path = f"{PLACES[one['kind']]}?fieldValidation=Strict"
        if one["kind"] == "Namespace":
            await plane.ask("POST", path, one)
            continue
        await plane.ask("POST", f"{path}&dryRun=All", one)
        if one["kind"] in _MADE:
            await plane.ask("POST", path, one)
    return len(objects)


def eviction(pod: str) -> tuple[str, dict[str, Any]]:
    """Path and body of the eviction of a Pod."""
    metadata = {"name": pod, "namespace": NAMESPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return f"{CORE}/pods/{pod}/eviction", body


async def states_of(desk: Desk, container: str) -> list[str]:
    """The states that a container has had, each as often as it came to it."""
    told = await desk.client.list("logs", filters=[["object_uuid", "=", container]], limit=100)
    changes = [one["properties"].get("new_attributes", {}).get("state") for one in told]
    return [state for state, _ in groupby(one for one in changes if one)]


@asynccontextmanager
async def running_site(root: Path, *, with_kubelet: bool) -> AsyncGenerator[Site]:
    """A site with three played nodes and, if wanted, a real one; its dispatcher is not started."""
    async with AsyncExitStack() as stack:
        (root / "plane").mkdir()
        plane = await stack.enter_async_context(running_control_plane(root / "plane"))
        objects = await apply_manifests(plane)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = str((await plane.ask("POST", _ACCOUNT, review))["status"]["token"])
        node, address, image = None, "", "lading:test"
        if with_kubelet:
            archive, image = await asyncio.to_thread(image_archive)
            opening = running_kubelet(plane, root / "node", [archive])
            node = await stack.enter_async_context(opening)
            address = f"{ADDRESS}:{free_address().rpartition(':')[2]}"
        cluster = stack.enter_context(running_cluster(root / "data", _SERVER, address=address))
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep")
        join = str(root / "join")
        cluster.lading("admin", "dispatcher-token", join, "--data", str(cluster.data))
        nodes = await stack.enter_async_context(
            playing_nodes(plane, NAMESPACE, launching(root), count=3, most=8)
        )
        kubeconfig = plane.kubeconfig("dispatcher", token, namespace=NAMESPACE)
        site = Site(root, plane, nodes, cluster, kubeconfig, node, image)
        stack.callback(site.kill)
        site.configure()
        site.tell(f"manifests: {objects} objects are accepted with strict validation")
        yield site
