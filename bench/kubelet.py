"""Requests beside bare Pods and Jobs on a node with a real kubelet and containerd, in turns: from
the queue to user code one at a time, and a burst until all have ended.

Bare Pods and Jobs have the image of the supervisor and the resources of a container's Pod, and
nothing of them is kept. Bare Pods with volumes have those of a container's Pod, a Secret and an
emptyDir, for which the kubelet waits. The Pod of a request starts the supervisor, which takes the
image of the command from the cache of the node, runs it in a container of its own, and saves its
log and output. User code of all of them prints when it began; a bare Pod prints to its termination
message. The processor time is that of all processes in a Pod, without those of the runtime.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.figures import Figure, absent, durations, percentile, throughput
from bench.kubernetes_requests import PodRequests
from bench.requests import Watch
from bench.service import add_image
from lading.core.kubernetes.pod_manifest import DATA, MOUNT
from lading.process.concurrency import cancel_all
from tests.system.desk import desk_of
from tests.system.kubernetes import missing_parts
from tests.system.kubernetes_kubelet import LABEL, processor_seconds
from tests.system.kubernetes_site import CORE, NAMESPACE, REAL, Site, running_site

_BARE, _VOLUMES = "bare Pods", "bare Pods with volumes"
_JOBS, _REQUESTS = "Jobs", "requests"
_SECRET = "bench"
_JOB_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_AMOUNTS = {"cpu": "1", "memory": "320Mi"}
_PRINT = "date +%s%N > /dev/termination-log"
_PAUSE, _LIMIT = 0.02, 1800.0
_Singles = Callable[[int], Awaitable[list[float]]]
_Burst = Callable[[int], Awaitable[float]]


def measure(*, samples: int, rounds: int, burst: int) -> list[Figure]:
    """Latency and rate of bare Pods, Jobs and requests, and what requests add to bare Pods."""
    lacks = [one for one in ("etcd", "go", "crun") if shutil.which(one) is None]
    if lacks := [*lacks, *missing_parts()]:
        return [absent(f"{_REQUESTS} on a real kubelet", f"needs {', '.join(lacks)}")]
    with tempfile.TemporaryDirectory(prefix="lading-bench-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(_measure(Path(folder), samples, rounds, burst))


async def _measure(folder: Path, samples: int, rounds: int, burst: int) -> list[Figure]:
    async with (
        running_site(folder, with_kubelet=True) as site,
        desk_of(site.cluster, limit=_LIMIT) as desk,
    ):
        image = await asyncio.to_thread(add_image, {**os.environ, **site.cluster.environment})
        site.configure(NodeCacheDirectory=str(folder / "node-cache"))
        site.start()
        watch = Watch(desk.client)
        following = asyncio.create_task(watch.follow(), name="ends of requests")
        try:
            await watch.listening.wait()
            requests = PodRequests(desk.client, watch, image, scheduling_parameters=REAL)
            pods, others = _Pods(site), _Pods(site, name="volumes", with_volumes=True)
            await others.make_secret()
            contenders: dict[str, tuple[_Singles, _Burst]] = {
                _BARE: (pods.singles, pods.burst),
                _VOLUMES: (others.singles, others.burst),
                _JOBS: (pods.job_singles, pods.job_burst),
                _REQUESTS: (requests.singles, requests.burst),
            }
            return await _compare(contenders, samples, rounds, burst)
        finally:
            await cancel_all(following)


async def _compare(
    contenders: dict[str, tuple[_Singles, _Burst]], samples: int, rounds: int, burst: int
) -> list[Figure]:
    latencies: dict[str, list[float]] = {name: [] for name in contenders}
    bursts = dict.fromkeys(contenders, 0.0)
    used: dict[str, list[float]] = {name: [] for name in contenders}
    for singles, _ in contenders.values():
        await singles(1)
    for _ in range(rounds):
        for name, (singles, at_once) in contenders.items():
            before = processor_seconds()
            latencies[name] += await singles(samples)
            used[name].append((processor_seconds() - before) / samples)
            bursts[name] += await at_once(burst)
    half = {name: percentile(found, 0.5) for name, found in latencies.items()}
    count = burst * rounds
    rows = [
        *(durations(f"{name}: to user code", latencies[name]) for name in contenders),
        *(throughput(f"{name}: until all have ended", count, bursts[name]) for name in contenders),
        *(durations(f"{name}: processor time of a Pod", used[name]) for name in contenders),
    ]
    for name in (_BARE, _VOLUMES):
        start, whole = half[_REQUESTS] / half[name] - 1, bursts[_REQUESTS] / bursts[name] - 1
        rows += [
            Figure(name=f"{_REQUESTS} to user code, over {name}", unit="%", rate=start * 100,
                   count=samples * rounds),
            Figure(name=f"a burst of {_REQUESTS}, over {name}", unit="%", rate=whole * 100,
                   count=count),
        ]  # fmt: skip
    return rows


class _Pods:
    """Bare Pods and Jobs on the node with the kubelet; their names begin with `name`."""

    def __init__(self, site: Site, *, name: str = "bench", with_volumes: bool = False) -> None:
        self._site = site
        self._name = name
        self._with_volumes = with_volumes
        self._made = 0

    async def make_secret(self) -> None:
        """Make the Secret of all Pods with volumes."""
        body = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET},
            "stringData": {"assignment": "{}"}, "immutable": True,
        }  # fmt: skip
        await self._site.plane.ask("POST", f"{CORE}/secrets", body)

    async def singles(self, count: int) -> list[float]:
        """Seconds from the call to user code, of Pods one at a time."""
        return [await self._one(self._make_pod, self._remove_pod) for _ in range(count)]

    async def job_singles(self, count: int) -> list[float]:
        """The same of Jobs."""
        return [await self._one(self._make_job, self._remove_job) for _ in range(count)]

    async def burst(self, count: int) -> float:
        """Seconds from the first call until so many Pods have ended."""
        return await self._at_once(count, self._make_pod, self._remove_pod)

    async def job_burst(self, count: int) -> float:
        """The same of Jobs."""
        return await self._at_once(count, self._make_job, self._remove_job)

    async def _one(
        self, make: Callable[[str], Awaitable[None]], remove: Callable[[str], Awaitable[None]]
    ) -> float:
        name, began = self._next(), time.time()
        await make(name)
        printed = (await self._ended([name]))[name]
        await remove(name)
        return printed - began

    async def _at_once(
        self,
        count: int,
        make: Callable[[str], Awaitable[None]],
        remove: Callable[[str], Awaitable[None]],
    ) -> float:
        names, began = [self._next() for _ in range(count)], time.monotonic()
        for name in names:
            await make(name)
        await self._ended(names)
        seconds = time.monotonic() - began
        for name in names:
            await remove(name)
        return seconds

    async def _ended(self, names: list[str]) -> dict[str, float]:
        """When user code began, of each, once all have ended. Raises RuntimeError for a failure."""
        while True:
            pods = (await self._site.plane.ask("GET", f"{CORE}/pods"))["items"]
            told = {one["metadata"]["labels"].get("name", ""): one["status"] for one in pods}
            phases = {name: told.get(name, {}).get("phase") for name in names}
            if failed := [name for name, phase in phases.items() if phase == "Failed"]:
                raise RuntimeError(f"the Pod of {failed[0]} failed")
            if all(phase == "Succeeded" for phase in phases.values()):
                return {name: _printed(told[name]) for name in names}
            await asyncio.sleep(_PAUSE)

    async def _make_pod(self, name: str) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", **self._template(name)}
        pod["metadata"]["name"] = name
        await self._site.plane.ask("POST", f"{CORE}/pods", pod)

    async def _remove_pod(self, name: str) -> None:
        await self._site.plane.ask("DELETE", f"{CORE}/pods/{name}?gracePeriodSeconds=0")

    async def _make_job(self, name: str) -> None:
        spec = {"backoffLimit": 0, "template": self._template(name)}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        await self._site.plane.ask("POST", _JOB_PATH, body)

    async def _remove_job(self, name: str) -> None:
        path = f"{_JOB_PATH}/{name}?propagationPolicy=Background"
        await self._site.plane.ask("DELETE", path)

    def _template(self, name: str) -> dict[str, Any]:
        container: dict[str, Any] = {
            "name": "main", "image": self._site.image, "imagePullPolicy": "Never",
            "command": ["sh", "-c", _PRINT],
            "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
        }  # fmt: skip
        spec: dict[str, Any] = {
            "restartPolicy": "Never", "automountServiceAccountToken": False,
            "nodeSelector": LABEL, "containers": [container],
        }  # fmt: skip
        if self._with_volumes:
            container["volumeMounts"] = [
                {"name": "assignment", "mountPath": MOUNT, "readOnly": True},
                {"name": "data", "mountPath": DATA},
            ]
            spec["volumes"] = [
                {"name": "assignment", "secret": {"secretName": _SECRET}},
                {"name": "data", "emptyDir": {}},
            ]
        return {"metadata": {"labels": {"name": name}}, "spec": spec}

    def _next(self) -> str:
        self._made += 1
        return f"{self._name}-{self._made}"


def _printed(status: dict[str, Any]) -> float:
    """When user code of an ended Pod began, in seconds since 1970."""
    (container,) = status["containerStatuses"]
    return int(container["state"]["terminated"]["message"]) / 1e9
