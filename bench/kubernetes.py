"""What the Kubernetes fleet adds to bare Pods and to Jobs: the same containers in turns, on a real
control plane on this machine.

All are made by the same client, as many at a time, on nodes whose kubelet is played alike: it sees
its Pods and secrets by watches, waits for the secret of a Pod that has one, and tells that the Pod
has ended. So what is measured is the way from a decision to the start on a node, and to the known
end: the requests to the API server, the scheduler, and the fleet's secrets, watch and table. Once
the kubelet takes no time, which shows what the fleet's own requests cost; once it takes
`kubelet_seconds` to make a sandbox, for the promise. (A real one with containerd was seen to take
1.6 s and more for a Pod of `true`.) Latency is from the call to the start in the sandbox, one at a
time; the rate is of a burst until all have ended and their Pods are removed. Rounds alternate, so
that other work on the machine hits all.

At last whole requests are measured, from the queue to user code, through a server, a dispatcher and
a supervisor (`bench.kubernetes_requests`). The kubelets run the supervisor of a container as a
process of this machine then, and the command of a bare Pod and of a Job as another one: user code
of all three prints when it began.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from bench.figures import Figure, absent, durations, percentile, throughput
from bench.kubernetes_requests import SERVER, pod_requests
from bench.latency import COMMAND
from bench.service import serving
from lading.core.errors import LadingError
from lading.core.kubernetes.pod_manifest import NodeKind, PodSettings
from lading.core.resources import GIB, MIB, Resources
from lading.core.scheduling.planning import TrackedContainer
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.kubernetes.api_client import KubernetesApi
from lading.dispatch.fleets.kubernetes.kubernetes_fleet import KubernetesFleet
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings
from lading.process.concurrency import cancel_all
from lading.testing.kubernetes import Launch
from lading.testing.pulse import Pulse
from tests.system.kubernetes_control import ApiRefused, ControlPlane, running_control_plane
from tests.system.kubernetes_nodes import Nodes, launching

MOST_ADDED = 0.15
_BARE, _JOBS, _FLEET = "bare Pods", "Jobs", "the same by the Kubernetes fleet"
_REQUESTS = "requests on Kubernetes: Queued to user code"
_SPACE = "default"
_NODES, _AT_ONCE, _LIMIT = 3, 16, 600.0
_BATCH = f"/apis/batch/v1/namespaces/{_SPACE}/jobs"
_TOKEN = "bench-gj3su-000000000000000"
_KIND = NodeKind(name="plain", capacity=Resources(64, 256 * GIB, 0))
_LABELS = {"bench": "kubernetes"}
_Run = Callable[[str], Awaitable[None]]


def measure(*, pods: int, samples: int, rounds: int, kubelet_seconds: float) -> list[Figure]:
    """Latency and rate of bare Pods, Jobs and the fleet, and what the fleet adds to bare Pods."""
    for program in ("etcd", "go"):
        if shutil.which(program) is None:
            return [absent(_BARE, f"needs {program}")]
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="lading-bench-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        (folder / "plane").mkdir()
        environment: dict[str, str] = {}
        if os.geteuid() == 0 and shutil.which("crun") is not None:
            environment = stack.enter_context(serving(folder / "data", config=SERVER))
        return asyncio.run(_measure(folder, environment, pods, samples, rounds, kubelet_seconds))


async def _measure(
    folder: Path,
    environment: dict[str, str],
    pods: int,
    samples: int,
    rounds: int,
    kubelet_seconds: float,
) -> list[Figure]:
    async with asyncio.timeout(_LIMIT * rounds), _site(folder / "plane") as site:
        figures = []
        for seconds in (0.0, kubelet_seconds):
            site.set_kubelet(seconds)
            figures += await _compare(site, pods, samples, rounds, seconds)
        if not environment:
            return [*figures, absent(_REQUESTS, "needs root, and crun")]
        site.set_kubelet(0.0, launch=launching(folder))
        return figures + await _compare_requests(site, folder, environment, samples, rounds)


async def _compare_requests(
    site: _Site, folder: Path, environment: dict[str, str], samples: int, rounds: int
) -> list[Figure]:
    names = (f"{_BARE}: to user code", f"{_JOBS}: to user code", _REQUESTS)
    latencies: dict[str, list[float]] = {name: [] for name in names}
    async with pod_requests(folder, environment, site.section) as requests:
        for _ in range(rounds):
            for name, run in zip(names, (site.bare, site.job), strict=False):
                latencies[name] += await site.one_by_one(run, samples)
            latencies[_REQUESTS] += await requests.singles(samples)
    note = "kubelet of 0 s, processes of this machine"
    return [durations(name, found, note=note) for name, found in latencies.items()]


async def _compare(
    site: _Site, pods: int, samples: int, rounds: int, seconds: float
) -> list[Figure]:
    contenders = {_BARE: site.bare, _JOBS: site.job, _FLEET: site.by_fleet}
    latencies: dict[str, list[float]] = {name: [] for name in contenders}
    bursts = dict.fromkeys(contenders, 0.0)
    for run in contenders.values():
        await site.burst(run, 5)
    for _ in range(rounds):
        for name, run in contenders.items():
            latencies[name] += await site.one_by_one(run, samples)
            bursts[name] += await site.burst(run, pods)
    half = {name: percentile(found, 0.5) for name, found in latencies.items()}
    count, note = pods * rounds, f"kubelet of {seconds:g} s"
    start, burst = half[_FLEET] / half[_BARE] - 1, bursts[_FLEET] / bursts[_BARE] - 1
    return [
        *(durations(f"{name}: to the start", latencies[name], note=note) for name in latencies),
        *(throughput(f"{name}: until removed", count, bursts[name], note=note) for name in bursts),
        _added("added to the start of a bare Pod", start, samples * rounds, seconds),
        _added("added to a burst of bare Pods", burst, count, seconds),
    ]


def _added(name: str, added: float, count: int, seconds: float) -> Figure:
    return Figure(
        name=name,
        unit="%",
        count=count,
        rate=added * 100,
        target=f"<= {MOST_ADDED * 100:g} %" if seconds else "",
        met=added <= MOST_ADDED if seconds else None,
        note=f"kubelet of {seconds:g} s",
    )


class _Kubelet:
    """Plays the kubelets of all nodes. `seconds`: time for a sandbox; `launch`: runs supervisors,
    None to run no process at all; `began`: when Pods started, `over`: when they have ended, by the
    names that `wait_for` was told.
    """

    def __init__(self, plane: ControlPlane, api: KubernetesApi) -> None:
        self.seconds = 0.0
        self.launch: Launch | None = None
        self.began: dict[str, asyncio.Future[float]] = {}
        self.over: dict[str, asyncio.Event] = {}
        self._plane = plane
        self._api = api
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._secrets: set[str] = set()
        self._secret = Pulse()

    async def follow(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch("secrets", self._note_secret))
                await self._watch("pods", lambda pod, gone: self._look(pod, gone, tasks))
        finally:
            await cancel_all(*self._tasks.values())

    async def _watch(self, kind: str, look: Callable[[Any, bool], None]) -> None:
        while True:
            found, version = await self._api.list_all(kind, "")
            for one in found:
                look(one, False)
            async with aclosing(self._api.watch(kind, "", version)) as events:
                async for event in events:
                    if event.kind != "BOOKMARK":
                        look(event.object, event.kind == "DELETED")

    def _note_secret(self, secret: Any, gone: bool) -> None:
        name = secret["metadata"]["name"]
        (self._secrets.discard if gone else self._secrets.add)(name)
        self._secret.beat()

    def wait_for(self, name: str) -> asyncio.Future[float]:
        """The start of a Pod that is made next, by the name of its container or Job."""
        self.over[name] = asyncio.Event()
        self.began[name] = asyncio.get_running_loop().create_future()
        return self.began[name]

    def _look(self, pod: Any, gone: bool, tasks: asyncio.TaskGroup) -> None:
        name, uid = _name(pod), pod["metadata"]["uid"]
        if gone or pod["status"]["phase"] == "Succeeded":
            if name in self.over:
                self.over[name].set()
        elif "nodeName" in pod["spec"] and uid not in self._tasks:
            self._tasks[uid] = tasks.create_task(self._run(pod, name))

    async def _run(self, pod: Any, name: str) -> None:
        own = pod["metadata"]["name"]
        has_secret = any("secret" in volume for volume in pod["spec"].get("volumes", ()))
        if has_secret:
            await self._secret.wait_for(lambda: own in self._secrets)
        await asyncio.sleep(self.seconds)
        began = time.monotonic()
        if self.launch is not None and has_secret:
            secret = await self._plane.ask("GET", f"/api/v1/namespaces/{_SPACE}/secrets/{own}")
            data = {key: base64.b64decode(one) for key, one in secret["data"].items()}
            await self.launch(data)
        elif self.launch is not None:
            began = await _run_command()
        if name in self.began and not self.began[name].done():
            self.began[name].set_result(began)
        container = {
            "name": pod["spec"]["containers"][0]["name"], "image": "x", "imageID": "x",
            "ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 0}},
        }  # fmt: skip
        status = {"phase": "Succeeded", "containerStatuses": [container]}
        path = f"/api/v1/namespaces/{_SPACE}/pods/{own}/status"
        await self._plane.ask("PATCH", path, {"status": status})


async def _run_command() -> float:
    """Run the command that prints when it began; that time, on the monotonic clock."""
    process = await asyncio.create_subprocess_exec(*COMMAND, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    return time.monotonic() - (time.time() - int(printed) / 1e9)


def _name(pod: Any) -> str:
    labels = pod["metadata"].get("labels", {})
    return str(labels.get("lading/container") or labels.get("name", ""))


class _Site:
    """A control plane with played nodes, and the three ways to run a container there."""

    def __init__(
        self, plane: ControlPlane, api: KubernetesApi, kubelet: _Kubelet, fleet: KubernetesFleet
    ) -> None:
        self._plane, self._api, self._kubelet, self._fleet = plane, api, kubelet, fleet
        self._made = 0

    @property
    def section(self) -> dict[str, Any]:
        """`Containers.Kubernetes` of a dispatcher for these nodes."""
        kind = {"VCPUs": 16, "RAM": "64GiB", "Scratch": "100GiB"}
        config = self._plane.kubeconfig("bench", self._plane.admin, namespace=_SPACE)
        return {"Image": "bench", "Kubeconfig": str(config), "Nodes": {_KIND.name: kind}}

    def set_kubelet(self, seconds: float, *, launch: Launch | None = None) -> None:
        """Have kubelets take so long for a sandbox, and run processes in it."""
        self._kubelet.seconds = seconds
        self._kubelet.launch = launch

    async def one_by_one(self, run: _Run, count: int) -> list[float]:
        """Seconds from the call to the start in the sandbox."""
        found = []
        for _ in range(count):
            name = self._next()
            start, began = self._kubelet.wait_for(name), time.monotonic()
            await run(name)
            found.append(await start - began)
        return found

    async def burst(self, run: _Run, count: int) -> float:
        """Seconds until so many have ended and are removed."""
        places, began = asyncio.Semaphore(_AT_ONCE), time.monotonic()

        async def one(name: str) -> None:
            self._kubelet.wait_for(name)
            async with places:
                await run(name)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(one(self._next()))
        return time.monotonic() - began

    async def bare(self, name: str) -> None:
        """A Pod, made and removed by the client."""
        pod = {"apiVersion": "v1", "kind": "Pod", **_template(name)}
        pod["metadata"]["name"] = name
        await self._api.create("pods", pod)
        await self._kubelet.over[name].wait()
        await self._api.delete("pods", name, grace=0)

    async def job(self, name: str) -> None:
        """A Job of one Pod, which is removed with it."""
        spec = {"backoffLimit": 0, "template": _template(name)}
        metadata = {"name": name}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        await self._plane.ask("POST", _BATCH, job)
        await self._kubelet.over[name].wait()
        await self._plane.ask("DELETE", f"{_BATCH}/{name}?propagationPolicy=Background")

    async def by_fleet(self, name: str) -> None:
        """A container, started and cleared away as the dispatcher does it."""
        container = TrackedContainer(uuid=name, need=Resources(1, 64 * MIB))
        await self._fleet.start(
            StartRequest(
                uuid=name, worker=_KIND.name, token=f"secret of {name}", container=container
            )
        )
        await self._kubelet.over[name].wait()
        while self._fleet.view().processes[name].alive:
            await self._fleet.changed()
        await self._fleet.clean(name)

    def _next(self) -> str:
        self._made += 1
        return f"bench-dz642-{self._made:015d}"


def _template(name: str) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": str(64 * MIB)}
    container = {
        "name": "main", "image": "bench", "command": ["true"],
        "resources": {"requests": amounts, "limits": amounts},
    }  # fmt: skip
    spec = {
        "restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container],
    }  # fmt: skip
    return {"metadata": {"labels": {**_LABELS, "name": name}}, "spec": spec}


@asynccontextmanager
async def _site(folder: Path) -> AsyncGenerator[_Site]:
    async with running_control_plane(folder) as plane:
        api = KubernetesApi(plane.transport, namespace=_SPACE, token=lambda: plane.admin)
        await _until_ready(plane)
        nodes = Nodes(plane, _SPACE, _no_supervisor, most=1)
        for number in range(_NODES):
            await nodes.register(f"node{number}")
        kubelet = _Kubelet(plane, api)
        pods = PodSettings(dispatcher=_TOKEN, image="bench", command=("true",))
        settings = KubernetesSettings(pods=pods, kinds={_KIND.name: _KIND})
        async with asyncio.TaskGroup() as tasks, KubernetesFleet(settings, api) as fleet:
            following = tasks.create_task(kubelet.follow())
            while not fleet.view().is_known:
                await fleet.changed()
            yield _Site(plane, api, kubelet, fleet)
            following.cancel()


async def _no_supervisor(_: object) -> int:
    raise LadingError("these nodes run no supervisor")


async def _until_ready(plane: ControlPlane) -> None:
    """Pods can be made once the controllers have made the service account of the namespace."""
    while True:
        try:
            await plane.ask("GET", f"/api/v1/namespaces/{_SPACE}/serviceaccounts/default")
        except ApiRefused:
            await asyncio.sleep(0.1)
        else:
            return
