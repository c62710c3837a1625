"""Scenes on the node with a real kubelet: both security contexts, the file with the token, a shell,
reasons to wait, and the ways in which the cluster ends a Pod, each with its class.

With `LADING_RECORD` in the environment the Pods of these scenes are written to that directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from contextlib import aclosing
from pathlib import Path
from typing import Any

from lading.core.kubernetes.pod_manifest import ASSIGNMENT, CONTAINER, DISPATCHER, ISOLATIONS, MOUNT
from lading.core.kubernetes.pod_states import PodState, read_pod
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi
from tests.system.cluster import processes_naming
from tests.system.desk import Desk
from tests.system.kubernetes_control import KUBELET
from tests.system.kubernetes_kubelet import ADDRESS, CPUS
from tests.system.kubernetes_site import CORE, NAMESPACE, REAL, URGENT, Site, eviction

_EXCESS = 64 << 20
"""Bytes that a Pod has on disk beyond its limit."""
_TAINT = {"key": "lading.test/broken", "effect": "NoExecute"}


async def check_isolations(site: Site) -> None:
    """`lading kubernetes test` passes with each security context: Pod, engine, request, shell."""
    for isolation in ISOLATIONS:
        site.configure(Isolation=isolation)
        passes, said = await site.test("--node", "kubelet", "--listen", f"{ADDRESS}:0")
        assert passes, said
        for line in said.splitlines():
            site.tell(f"{isolation}: {line.strip()}")
    site.configure()


async def play(site: Site, desk: Desk) -> None:
    """All scenes, each with a new dispatcher of its configuration."""
    for isolation in ISOLATIONS:
        restart(site, Isolation=isolation)
        await check_token(site, desk, isolation)
        await check_gang(site, desk)
    restart(site)
    await check_shell(site, desk)
    await check_unschedulable(site, desk)
    await check_storage(site, desk)
    await check_taint(site, desk)
    await check_eviction(site, desk)
    await check_preemption(site, desk)
    restart(site, Image="lading.invalid/missing:1", BeginTimeout="8s")
    await check_image(site, desk)
    restart(site)


def restart(site: Site, **more: Any) -> None:
    """A new dispatcher with other settings."""
    site.kill()
    site.configure(**more)
    site.start()


async def check_token(site: Site, desk: Desk, isolation: str) -> None:
    """The file with the token is readable for root of the Pod alone, and the token is in no
    argument or variable of its processes.
    """
    uuid = await desk.submit("sleep 600", scheduling_parameters=REAL)
    container = await desk.until(uuid, "Running")
    pids = processes_naming("lading.supervisor", container["uuid"])
    assert pids, "no supervisor is there"
    place = Path(f"/proc/{pids[0]}")
    file = place / f"root{MOUNT}/{ASSIGNMENT}"
    found = file.stat()
    token = json.loads(file.read_text())["supervisor_token"]
    maps = (place / "uid_map").read_text().split()
    for name in ("cmdline", "environ"):
        assert token not in (place / name).read_text(), name
    # Root of the Pod is the owner: user 0 of its user namespace.
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o400, int(maps[1])), found
    assert (maps[1] == "0") == (isolation == "privileged"), maps
    site.tell(f"token: {isolation}: mode 0400, owner {found.st_uid} (root of the Pod)")
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")


async def check_shell(site: Site, desk: Desk) -> None:
    """A command in a running container, by the tunnel of its supervisor."""
    uuid = await desk.submit("sleep 600", scheduling_parameters=REAL)
    await desk.until(uuid, "Running")
    command = ("shell", "--wait", uuid, "--", "sh", "-c", "echo in $$; exit 7")
    done = await asyncio.to_thread(site.cluster.lading, *command, check=False)
    assert (done.returncode, done.stdout.split()[:1]) == (7, ["in"]), done
    site.tell(f"shell: {done.stdout.strip()!r}, exit code {done.returncode}")
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")


async def check_gang(site: Site, desk: Desk) -> None:
    """Three ranks in one Pod, each a container with a name of its own, started by mpirun."""
    await asyncio.to_thread(site.cluster.lading, "image", "hpc", timeout=300)
    uuid = await desk.submit(
        "echo data > /hpcaas/results/$(hostname).$OMPI_COMM_WORLD_RANK",
        container_image="hpc:latest",
        scheduling_parameters={**REAL, "nodes": 3},
        container_count_max=1,
    )
    ended = await desk.until(uuid, "Complete", "Cancelled")
    assert (ended["state"], ended["exit_code"]) == ("Complete", 0), ended
    request = await desk.client.get("container_requests", uuid)
    output = await desk.client.get("collections", request["output_uuid"])
    found = sorted(re.findall(r":(container-\d\.\d)", output["manifest_text"]))
    assert found == [f"container-{rank}.{rank}" for rank in range(3)], output["manifest_text"]
    site.tell(f"gang: results of {', '.join(found)}")


async def check_unschedulable(site: Site, desk: Desk) -> None:
    """A Pod that finds no room says why, and goes when its request is cancelled."""
    await _patch_node(site, {"unschedulable": True})
    uuid = await desk.submit("true", scheduling_parameters=REAL)
    said = await desk.until_told(uuid, "no node has room")
    site.tell(f"unschedulable: {said}")
    found = await site.pod_of((await desk.container(uuid))["uuid"])
    assert found is not None
    _keep(found, "unschedulable")
    await desk.cancel(uuid)
    await desk.until(uuid, "Cancelled")
    await _patch_node(site, {"unschedulable": None})


async def check_image(site: Site, desk: Desk) -> None:
    """A Pod whose image nobody has says so. After the last attempt its container has the class
    `image`.
    """
    uuid = await desk.submit("true", scheduling_parameters=REAL, container_count_max=1)
    said = await desk.until_told(uuid, "cannot get the image")
    site.tell(f"image: {said}")
    found = await site.pod_of((await desk.container(uuid))["uuid"])
    assert found is not None
    assert _read(found).lacks_image
    _keep(found, "image")
    ended = await desk.until(uuid, "Cancelled")
    status = ended["runtime_status"]
    site.tell(f"    record: class {status.get('failure')}: {status.get('errorDetail')}")
    assert status["failure"] == "image", ended


async def check_storage(site: Site, desk: Desk) -> None:
    """A Pod whose files fill its scratch disk is evicted: class `disk`."""
    for name, where in (("volume", "data"), ("layer", "root")):
        uuid = await desk.submit("sleep 600", scheduling_parameters=REAL, container_count_max=1)
        container = await desk.until(uuid, "Running")
        (pid, *_) = processes_naming("lading.supervisor", container["uuid"])
        # By the node: the supervisor itself keeps its container to its share.
        folder = {"data": "var/lib/lading", "root": "var/tmp"}[where]
        pod = await site.pod_of(container["uuid"])
        assert pod is not None
        limit = int(pod["spec"]["containers"][0]["resources"]["limits"]["ephemeral-storage"])
        with Path(f"/proc/{pid}/root/{folder}/filling").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, limit + _EXCESS)
        await _ended(site, desk, uuid, await _last(site, desk, uuid, f"evicted-{name}"), "disk")


async def check_taint(site: Site, desk: Desk) -> None:
    """A node with a taint loses its Pods: class `node`."""
    uuid = await desk.submit("sleep 600", scheduling_parameters=REAL, container_count_max=1)
    await desk.until(uuid, "Running")
    recording = asyncio.create_task(_last(site, desk, uuid, "taint"))
    await _patch_node(site, {"taints": [_TAINT]})
    await _ended(site, desk, uuid, await recording, "node")
    await _patch_node(site, {"taints": None})


async def check_eviction(site: Site, desk: Desk) -> None:
    """An evicted Pod, as of a drained node: class `preempted`. One that somebody deletes:
    `infrastructure`.
    """
    for name, failure in (("drained", "preempted"), ("deleted", "infrastructure")):
        uuid = await desk.submit("sleep 600", scheduling_parameters=REAL, container_count_max=1)
        container = await desk.until(uuid, "Running")
        pod = await site.pod_of(container["uuid"])
        assert pod is not None
        recording = asyncio.create_task(_last(site, desk, uuid, name))
        if name == "drained":
            await site.plane.ask("POST", *eviction(pod["metadata"]["name"]))
        else:
            await site.plane.ask("DELETE", f"{CORE}/pods/{pod['metadata']['name']}")
        await _ended(site, desk, uuid, await recording, failure)


async def check_preemption(site: Site, desk: Desk) -> None:
    """A Pod that makes room for one of a higher priority class: class `preempted`."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await site.plane.ask("POST", classes, {**kind, "metadata": {"name": "urgent"}, "value": 1000})
    whole = {"vcpus": CPUS, "ram": 64 << 20}
    uuid = await desk.submit(
        "sleep 600", scheduling_parameters=REAL, runtime_constraints=whole, container_count_max=1
    )
    await desk.until(uuid, "Running")
    recording = asyncio.create_task(_last(site, desk, uuid, "preempted"))
    other = await desk.submit("true", scheduling_parameters=URGENT, runtime_constraints=whole)
    await _ended(site, desk, uuid, await recording, "preempted")
    ended = await desk.until(other, "Complete", "Cancelled")
    assert ended["state"] == "Complete", ended
    await site.plane.ask("DELETE", f"{classes}/urgent")


async def _ended(site: Site, desk: Desk, uuid: str, pod: dict[str, Any], failure: str) -> None:
    """The last state of a Pod has this class, and so has the record of its container."""
    state = _read(pod, is_gone=True)
    container = await desk.until(uuid, "Cancelled", "Complete")
    said = container["runtime_status"]
    site.tell(f"class {state.failure}: {state.fate}")
    site.tell(f"    record: class {said.get('failure')}: {said.get('errorDetail')}")
    assert state.failure == failure, pod["status"]
    assert container["state"] == "Cancelled", container
    assert said.get("failure") == failure, container


async def _patch_node(site: Site, spec: dict[str, Any]) -> None:
    await site.plane.ask("PATCH", f"/api/v1/nodes/{KUBELET}", {"spec": spec})


def _read(pod: dict[str, Any], *, is_gone: bool = False) -> PodState:
    dispatcher = pod["metadata"]["labels"][DISPATCHER]
    state = read_pod(pod, dispatcher=dispatcher, is_gone=is_gone)
    assert state is not None
    return state


async def _last(site: Site, desk: Desk, uuid: str, name: str) -> dict[str, Any]:
    """The Pod of a request when it has failed, or last before it is gone, by a watch: the
    dispatcher deletes it within milliseconds. It is kept as `name`.
    """
    container = (await desk.container(uuid))["uuid"]
    api = KubernetesApi(site.plane.transport, namespace=NAMESPACE, token=lambda: site.plane.admin)
    selector = f"{CONTAINER}={container}"
    found, version = await api.list_all("pods", selector)
    last: Any = found[0]
    async with aclosing(api.watch("pods", selector, version)) as stream:
        async for one in stream:
            if one.kind != "BOOKMARK":
                last = one.object
            if one.kind == "DELETED" or last["status"]["phase"] == "Failed":
                break
    _keep(last, name)
    return dict(last)


def _keep(pod: dict[str, Any], name: str) -> None:
    """Write a Pod to the directory of records, if there is one."""
    folder = os.environ.get("LADING_RECORD")
    if folder:
        metadata = {key: one for key, one in pod["metadata"].items() if key != "managedFields"}
        kept = {"metadata": metadata, "spec": pod["spec"], "status": pod["status"]}
        (Path(folder) / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
