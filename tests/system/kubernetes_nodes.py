"""Nodes of a real control plane whose kubelets are this process.

Each kubelet registers its Node, follows the Pods that the scheduler binds to it, and runs the
supervisor of each Pod as a process of this machine. What a real kubelet does with images,
security contexts and volumes is not played.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from signal import Signals
from typing import Any

import msgspec

from lading.core.errors import LadingError
from lading.core.kubernetes.pod_manifest import ASSIGNMENT, CERTIFICATE, DATA, MOUNT
from lading.process.concurrency import cancel_all
from lading.testing.kubernetes import Launch
from tests.system.kubernetes_control import ApiRefused, ControlPlane

# Seconds between two looks for Pods, and for a secret that is not there yet.
_PERIOD = 0.2
LABEL = {"lading.test/kubelet": "played"}
"""The label of these nodes, for selectors."""
_CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1000Gi", "pods": "500"}
_ENDED = ("Succeeded", "Failed")
# Seconds; a supervisor whose server is gone waits for it far longer.
_GRACE = 5.0
FIT = 'runner {"said": "Lading"}\nengine {"said": "a container ran"}\napi {"said": "it serves"}\n'
"""The termination message of a check Pod on a node that suits."""


def launching(folder: Path) -> Launch:
    """Runs supervisors with directories below `folder` in place of those of a Pod."""

    async def launch(files: Mapping[str, bytes]) -> int:
        own = folder / hashlib.sha256(files[ASSIGNMENT]).hexdigest()[:16]
        own.mkdir()
        (own / CERTIFICATE).write_bytes(files[CERTIFICATE])
        text = files[ASSIGNMENT].decode().replace(DATA, str(folder / "data"))
        assignment = json.loads(text.replace(MOUNT, str(own)))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lading.supervisor",
            "--lock-directory",
            str(folder / "locks"),
            assignment["container_uuid"],
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            await process.communicate(json.dumps(assignment).encode())
        except asyncio.CancelledError:
            # As the kubelet does: TERM, and KILL after the grace.
            # It may have ended by itself meanwhile.
            with suppress(ProcessLookupError):
                process.send_signal(Signals.SIGTERM)
                try:
                    async with asyncio.timeout(_GRACE):
                        await process.wait()
                except TimeoutError:
                    process.kill()
            await process.wait()
            raise
        return process.returncode or 0

    return launch


class Nodes:
    """The kubelets. `message`: the termination message of Pods that have no assignment, as those of
    a check; `ran`: names of the Pods that started, in order; `most`: supervisors at a time.
    """

    def __init__(self, plane: ControlPlane, namespace: str, launch: Launch, *, most: int) -> None:
        self.message = ""
        self.ran: list[str] = []
        self._plane = plane
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._launch = launch
        self._places = asyncio.Semaphore(most)
        self._work: dict[str, asyncio.Task[None]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._names: set[str] = set()

    async def register(self, name: str) -> None:
        """Make a Node that is ready."""
        self._names.add(name)
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        node = {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {**LABEL, "kubernetes.io/hostname": name}},
            "status": {
                "capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": [condition],
            },
        }  # fmt: skip
        await self._plane.ask("POST", "/api/v1/nodes", node)

    async def follow(self) -> None:
        """Play the kubelets, until it is cancelled. Raises the first fault of one of them."""
        try:
            while True:
                # An API server that is restarted is asked again.
                with suppress(LadingError):
                    found = await self._plane.ask("GET", self._pods)
                    self._look(found["items"])
                await asyncio.sleep(_PERIOD)
        finally:
            await cancel_all(*self._work.values(), *self._ending.values())

    def _look(self, pods: list[dict[str, Any]]) -> None:
        for task in (*self._work.values(), *self._ending.values()):
            if task.done() and not task.cancelled():
                task.result()
        there = {one["metadata"]["uid"] for one in pods}
        for uid in self._work.keys() - there:
            # Its object is gone, as after a forced deletion.
            self._work[uid].cancel()
        self._work = {uid: one for uid, one in self._work.items() if not one.done() or uid in there}
        for pod in pods:
            uid, spec = pod["metadata"]["uid"], pod["spec"]
            if spec.get("nodeName") not in self._names:
                continue
            if "deletionTimestamp" in pod["metadata"] and uid not in self._ending:
                self._ending[uid] = asyncio.create_task(self._end(pod))
            elif uid not in self._work and pod["status"]["phase"] not in _ENDED:
                self._work[uid] = asyncio.create_task(self._run(pod))

    async def _run(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        files = await self._files(name)
        if not files[ASSIGNMENT]:
            await self._show(pod, "Succeeded", {"exitCode": 0, "message": self.message})
            return
        async with self._places:
            self.ran.append(name)
            await self._show(pod, "Running")
            code = await self._launch(files)
        await self._show(pod, "Failed" if code else "Succeeded", {"exitCode": code})

    async def _files(self, name: str) -> dict[str, bytes]:
        while True:
            with suppress(LadingError, ApiRefused):
                found = await self._plane.ask("GET", f"{self._secrets}/{name}")
                return {key: base64.b64decode(one) for key, one in found["data"].items()}
            await asyncio.sleep(_PERIOD)

    async def _end(self, pod: dict[str, Any]) -> None:
        """As a kubelet: end what runs, say so, then remove the object."""
        work = self._work.get(pod["metadata"]["uid"])
        if work is not None and not work.done():
            await cancel_all(work)
            await self._show(pod, "Failed", {"exitCode": 143})
        options = {
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        }  # fmt: skip
        await self._say("DELETE", f"{self._pods}/{pod['metadata']['name']}", options)

    async def _show(
        self, pod: dict[str, Any], phase: str, terminated: dict[str, Any] | None = None
    ) -> None:
        state: dict[str, Any] = (
            {"running": {}} if terminated is None else {"terminated": terminated}
        )
        container = {
            "name": pod["spec"]["containers"][0]["name"], "state": state,
            "image": "x", "imageID": "x", "ready": False, "restartCount": 0,
        }  # fmt: skip
        status = {"phase": phase, "containerStatuses": [container]}
        path = f"{self._pods}/{pod['metadata']['name']}/status"
        await self._say("PATCH", path, {"status": status})

    async def _say(self, method: str, path: str, body: object) -> None:
        """Repeated until the API server answers; an object that is gone is no fault."""
        while True:
            try:
                await self._plane.ask(method, path, body)
            except ApiRefused as error:
                if error.status in (404, 409):
                    return
                if error.status < 500 and error.status != 429:
                    raise
            except (LadingError, msgspec.DecodeError):
                pass
            else:
                return
            await asyncio.sleep(_PERIOD)


@asynccontextmanager
async def playing_nodes(
    plane: ControlPlane, namespace: str, launch: Launch, *, count: int, most: int
) -> AsyncGenerator[Nodes]:
    """`count` nodes, node0 and on, until the end of the context. A fault of a kubelet ends it, as
    part of an exception group.
    """
    nodes = Nodes(plane, namespace, launch, most=most)
    for number in range(count):
        await nodes.register(f"node{number}")
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(nodes.follow(), name="kubelets")
        yield nodes
        following.cancel()
