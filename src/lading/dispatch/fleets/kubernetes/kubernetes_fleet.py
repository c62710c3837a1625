"""The fleet of a Kubernetes cluster: each container is a Pod.

- Capacity comes from the configuration: each kind of node is a worker that queues for itself, and
  the cluster's scheduler decides when a Pod starts. Few Pods wait there (`most_waiting`).
- One list and then one watch report about all Pods (`_follow`); everything is listed again now and
  then. While the API server does not answer nothing is locked, and all Pods count as they were.
- A start makes the Pod, then the secret with its token, which the Pod owns and waits for: nothing
  runs that this dispatcher has not seen.
- After a refusal for a quota, a right or a policy nothing is started for a while, with the reason.
- TERM and KILL delete the Pod, with its grace period or a second.

Source: docs/spec/kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import Self

import msgspec

from lading.client.transport import HttpTransport
from lading.core.errors import (
    Conflict,
    ExecutionError,
    Gone,
    LadingError,
    RequestError,
    Unauthenticated,
    Unavailable,
)
from lading.core.kubernetes import pod_manifest
from lading.core.kubernetes.pod_manifest import NodeKind, attempt_of
from lading.core.kubernetes.pod_states import PodState, read_pod
from lading.core.scheduling.planning import FleetWorker
from lading.core.values import JsonObject
from lading.dispatch.fleet import FleetSite, FleetView, LookUp, StartRequest
from lading.dispatch.fleets.kubernetes import cluster_access
from lading.dispatch.fleets.kubernetes.api_client import (
    AlreadyThere,
    KubernetesApi,
    NotAllowed,
    WatchEvent,
)
from lading.dispatch.fleets.kubernetes.cluster_access import ClusterAccess
from lading.dispatch.fleets.kubernetes.pod_table import PodTable
from lading.dispatch.fleets.kubernetes.settings import KubernetesSettings, read_settings
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch")
# Looks that fail in a row before the cluster is taken not to be there.
_ILL = 3
# Seconds in which the kubelet ends a Pod that is killed. With 0 the API server would forget a Pod
# that may still run.
_KILL_GRACE = 1
# Bytes of a record in a secret, which may have 1 MiB; a larger record is asked for.
_MOST_KNOWN = 1 << 17
# Seconds: between two looks for a Pod that is being removed; a watch of this length needs no pause.
_LONGEST_LOOK, _LONG_WATCH = 5.0, 1.0


@asynccontextmanager
async def open_kubernetes(site: FleetSite) -> AsyncGenerator[KubernetesFleet]:
    """The fleet of a Kubernetes cluster, from the configuration. Raises Invalid."""
    settings, access = read_settings(site), find_access(site)
    async with HttpTransport(access.url, verify=access.tls) as transport:
        api = KubernetesApi(
            transport,
            namespace=access.namespace,
            token=access.token,
            timeout=settings.request_timeout,
            patience=settings.start_timeout,
            watch_time=settings.watch_time,
            first_pause=settings.first_pause,
        )
        async with KubernetesFleet(settings, api) as fleet:
            yield fleet


def find_access(site: FleetSite) -> ClusterAccess:
    """The configured way to the cluster. Raises Invalid."""
    section = site.config.Containers.Kubernetes
    if not section.Kubeconfig:
        return cluster_access.inside(section.Namespace)
    return cluster_access.from_kubeconfig(
        Path(section.Kubeconfig), context=section.Context, namespace=section.Namespace
    )


class KubernetesFleet:
    """Implements `Fleet`. Use as `async with`: leaving it leaves the Pods in the cluster."""

    def __init__(self, settings: KubernetesSettings, api: KubernetesApi) -> None:
        self._settings = settings
        self._api = api
        self._looks = api.with_patience(settings.look_patience)
        self._dispatcher = settings.pods.dispatcher
        self._selector = pod_manifest.selector(self._dispatcher)
        self._table = PodTable(settings.patience)
        self._workers = tuple(
            _worker(kind, settings.pods.extra_ram) for kind in settings.kinds.values()
        )
        self._is_known = False
        self._is_well = False
        self._failures = 0
        self._barren = 0
        """Rounds of `_follow` in a row without an event."""
        self._fault = ""
        """Error of the first look, until the cluster has answered once."""
        self._shortage = ""
        self._shortage_end: asyncio.TimerHandle | None = None
        self._version = ""
        """Version of the last list or event; "": all has to be listed."""
        self._change = asyncio.Event()
        self._removals: dict[str, asyncio.Event] = {}
        """Set when the watch tells that a Pod is gone, by the uids of Pods that are removed."""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._serve(), name="Kubernetes")
        self._task.add_done_callback(lambda _: self._change.set())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._shortage_end is not None:
            self._shortage_end.cancel()
        if self._task is not None:
            await cancel_all(self._task)
            self._task = None

    def set_lookup(self, look: LookUp) -> None:
        """Nothing here depends on it."""

    def view(self) -> FleetView:
        """The present state."""
        return FleetView(
            is_known=self._is_known,
            # While the cluster does not answer no worker is shown, so that nothing is locked.
            workers=self._workers if self._is_well else (),
            processes=self._table.processes(),
            most=max(0, self._settings.most_waiting - self._table.waiting),
            trouble="" if self._is_known else self._fault,
            shortage=self._shortage,
        )

    async def changed(self) -> None:
        """Wait until the view may have changed. Raises the error that ended the tasks of the
        fleet.
        """
        await self._change.wait()
        self._change.clear()
        if self._task is not None and self._task.done():
            self._task.result()

    async def start(self, request: StartRequest) -> None:
        """Make a Pod and its secret. Raises Conflict, Unavailable, ExecutionError."""
        uuid, attempt = request.uuid, attempt_of(request.token)
        if not self._table.is_free(uuid):
            raise Conflict(f"{uuid}: it has a Pod in Kubernetes already")
        kind = self._settings.kinds.get(request.worker)
        if kind is None:
            raise ExecutionError(f"{request.worker}: no such kind of node")
        # Noted before the first await: a second start of this container then raises Conflict.
        self._table.starting(uuid, attempt)
        try:
            await self._make(request, kind, attempt)
        # The Pod may be there, without a secret: a look by its name decides.
        except (Unavailable, Conflict, asyncio.CancelledError):
            self._table.unsure(uuid)
            raise
        except LadingError as error:
            self._give_up(uuid)
            raise self._refusal(error) from error
        finally:
            self._change.set()
        event(_logger, "Pod made", pod=pod_manifest.pod_name(uuid, attempt), node=kind.name)

    async def signal(self, uuid: str, number: Signals) -> None:
        """Delete the Pod for TERM and KILL; any other signal does nothing."""
        pod = self._table.get(uuid)
        if pod is None or pod.ended or number not in (Signals.SIGTERM, Signals.SIGKILL):
            return
        # The dispatcher tries again at its next step.
        if pod.state is None:
            raise Unavailable(f"{uuid}: its Pod is being made")
        grace = _KILL_GRACE if number is Signals.SIGKILL else None
        await self._asked(self._api.delete("pods", pod.name, grace=grace, uid=pod.state.uid))

    async def clean(self, uuid: str) -> None:
        """Remove the Pods and the secrets of a container. Raises Conflict, Unavailable."""
        if self._table.is_free(uuid):
            # Its record is given back or ended next: no list from before is enough for that.
            await self._asked(self._find(uuid))
        pod = self._table.get(uuid)
        if pod is not None and not pod.ended:
            raise Conflict(f"{uuid}: its Pod {pod.name} has not ended")
        grace = 0 if pod is not None and pod.is_lost else _KILL_GRACE
        try:
            async with asyncio.timeout(self._settings.clean_timeout):
                for name, uid in self._table.remains(uuid):
                    late = pod is None or pod.deleting_since is not None
                    await self._asked(self._remove(name, uid, grace=grace, late=late))
        except TimeoutError as error:
            raise Unavailable(f"{uuid}: its Pod is still there; looking again later") from error
        self._table.drop(uuid)
        self._change.set()

    # Starting and removing.

    async def _make(self, request: StartRequest, kind: NodeKind, attempt: str) -> None:
        pods, uuid = self._settings.pods, request.uuid
        container = replace(request.container, uuid=uuid)
        manifest = pod_manifest.make_pod(pods, kind, container, attempt=attempt)
        state = await self._post_pod(manifest, uuid, attempt)
        self._table.observe(state, now=self._now())
        self._change.set()
        files = {pod_manifest.ASSIGNMENT: self._assignment(request, kind)}
        if self._settings.certificate:
            files[pod_manifest.CERTIFICATE] = self._settings.certificate.encode()
        secret = pod_manifest.make_secret(
            pods, uuid, attempt=attempt, pod_uid=state.uid, files=files
        )
        self._table.arm(uuid)
        while not self._has_ended(uuid):
            try:
                await self._post_secret(state.name, secret)
                return
            # The Pod may have found its secret and run: only its end ends this.
            except Unavailable as error:
                event(_logger, "secret not made yet", pod=state.name, why=error)
                await asyncio.sleep(self._settings.first_pause)

    async def _post_pod(self, manifest: JsonObject, uuid: str, attempt: str) -> PodState:
        name = pod_manifest.pod_name(uuid, attempt)
        pod: JsonObject | None
        try:
            pod = await self._api.create("pods", manifest)
        except AlreadyThere:
            # An earlier POST of this attempt had its effect, and its answer was lost.
            pod = await self._api.get("pods", name)
            if pod is None:
                raise Unavailable(f"Pod {name} was deleted as soon as it was made") from None
        state = read_pod(pod, dispatcher=self._dispatcher)
        if state is None or (state.container, state.attempt) != (uuid, attempt):
            raise ExecutionError(f"Pod {name}: another program has made a Pod of this name")
        return state

    async def _post_secret(self, name: str, secret: JsonObject) -> None:
        try:
            await self._api.create("secrets", secret)
        except AlreadyThere:
            # It cannot be read, and may belong to an earlier Pod of this name.
            await self._api.delete("secrets", name)
            try:
                await self._api.create("secrets", secret)
            except AlreadyThere as error:
                raise Unavailable(f"secret {name}: an earlier one is being removed") from error

    def _has_ended(self, uuid: str) -> bool:
        one = self._table.get(uuid)
        return one is None or one.ended

    def _give_up(self, uuid: str) -> None:
        """Note that a start was refused: its Pod, if it was made, waits for a secret in vain."""
        one = self._table.get(uuid)
        if one is not None and one.state is not None:
            self._table.condemn(uuid, "its secret was refused")
        else:
            self._table.refused(uuid)

    def _refusal(self, error: LadingError) -> LadingError:
        """The error of a refused start. Rights, quotas and policies concern every start."""
        match error:
            case NotAllowed() | Unauthenticated():
                self._shortage = f"Kubernetes starts nothing now: {error.message}"
                if self._shortage_end is not None:
                    self._shortage_end.cancel()
                loop = asyncio.get_running_loop()
                self._shortage_end = loop.call_later(
                    self._settings.refusal_pause, self._end_shortage
                )
                return Unavailable(f"{error.message}.")
            case ExecutionError():
                return error
            case _:
                return ExecutionError(f"Kubernetes refuses its Pod: {error.message}")

    def _end_shortage(self) -> None:
        self._shortage = ""
        self._change.set()

    async def _remove(self, name: str, uid: str, *, grace: int, late: bool) -> None:
        """Remove a Pod and its Secret, and wait until the Pod is gone. `late`: the watch may have
        reported the deletion of the Pod before this call.
        """
        # First, as the garbage collector would have to find it out later.
        await self._api.delete("secrets", name)
        told = self._removals.setdefault(uid, asyncio.Event())
        pause = self._settings.first_pause
        try:
            await self._api.delete("pods", name, grace=grace, uid=uid)
            while late or not await _comes(told, pause):
                found = await self._api.get("pods", name)
                if found is None or (uid and _uid(found) != uid):
                    break
                late, pause = False, min(pause * 2, _LONGEST_LOOK)
        finally:
            self._removals.pop(uid, None)

    def _assignment(self, request: StartRequest, kind: NodeKind) -> bytes:
        data, certificate = pod_manifest.DATA, ""
        if self._settings.certificate:
            certificate = f"{pod_manifest.MOUNT}/{pod_manifest.CERTIFICATE}"
        capacity = kind.capacity
        encoded = msgspec.json.encode(request.records)
        fields = dict(self._settings.template) | {
            "container_uuid": request.uuid,
            "supervisor_token": request.token,
            "run_directory": f"{data}/run/{request.uuid}",
            "cache_directory": f"{data}/cache",
            "device_directory": f"{data}/gpus",
            "api_ca_file": certificate,
            # Two calls less before the command begins.
            "known": msgspec.Raw(encoded if len(encoded) <= _MOST_KNOWN else b"{}"),
            "instance_type": {
                "Name": kind.name,
                "VCPUs": capacity.vcpus,
                "RAM": capacity.ram,
                "Scratch": capacity.disk,
                "Price": kind.price,
            },
        }
        return msgspec.json.encode(fields)

    # Following.

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(), name="watch of the Pods")
            tasks.create_task(self._tidy(), name="strays and limits of time")

    async def _follow(self) -> None:
        due = 0.0
        while True:
            began = self._now()
            self._barren += 1
            try:
                if not self._version or began >= due:
                    await self._list()
                    due = self._now() + self._settings.resync_interval
                async with asyncio.timeout(max(0.0, due - self._now())):
                    await self._watch()
                if self._now() - began >= _LONG_WATCH:
                    self._barren = 0
            except TimeoutError:
                # Time for the next list.
                self._barren = 0
            except Gone as error:
                event(_logger, "all Pods are listed again", why=error)
                self._version = ""
            except LadingError as error:
                self._ail(error)
            if self._barren:
                pause = self._settings.first_pause * 2.0 ** min(self._barren - 1, 16)
                await asyncio.sleep(min(pause, self._settings.longest_pause))

    async def _list(self) -> None:
        # Before the first look there are no known Pods by which an old answer would be noticed.
        for _ in range(1 if self._is_known else 2):
            await self._list_once()
        self._is_known = True
        self._recover()

    async def _list_once(self) -> None:
        before, over = self._table.uids(), self._table.over
        items, version = await self._looks.list_all("pods", self._selector)
        if not version:
            raise Unavailable("Kubernetes: a list of Pods has no version")
        pods = (read_pod(item, dispatcher=self._dispatcher) for item in items)
        states = [pod_state for pod_state in pods if pod_state is not None]
        for state in states:
            self._table.observe(state, now=self._now())
        for state in self._table.missing(states, before):
            await self._look_for(state.name, state.uid)
        self._table.forget_over(states, over)
        self._version = version

    async def _find(self, uuid: str) -> None:
        """Look for Pods of a container that has none here."""
        selector = f"{self._selector},{pod_manifest.CONTAINER}={uuid}"
        items, _ = await self._looks.list_all("pods", selector)
        for item in items:
            if (state := read_pod(item, dispatcher=self._dispatcher)) is not None:
                self._table.observe(state, now=self._now())
                self._change.set()

    async def _look_for(self, name: str, uid: str) -> None:
        """Look for a Pod by its name; `uid` "": of a start of unknown outcome."""
        found = await self._looks.get("pods", name)
        if found is None or (uid and _uid(found) != uid):
            self._table.absent(name, uid)
        elif (state := read_pod(found, dispatcher=self._dispatcher)) is not None:
            self._table.observe(state, now=self._now())
        self._change.set()

    async def _watch(self) -> None:
        events = self._looks.watch("pods", self._selector, self._version)
        async with aclosing(events) as stream:
            async for event in stream:
                self._learn(event)

    def _learn(self, event: WatchEvent) -> None:
        self._version = event.version or self._version
        self._barren = 0
        self._recover()
        if event.kind == "BOOKMARK":
            return
        is_gone = event.kind == "DELETED"
        if is_gone and (removed := self._removals.get(_uid(event.object))) is not None:
            removed.set()
        state = read_pod(event.object, dispatcher=self._dispatcher, is_gone=is_gone)
        if state is not None:
            (self._table.gone if is_gone else self._table.observe)(state, now=self._now())

    def _recover(self) -> None:
        self._failures, self._is_well, self._fault = 0, True, ""
        self._change.set()

    def _ail(self, error: LadingError) -> None:
        """Count a failed look: after several in a row nothing is started."""
        self._failures += 1
        self._fault = f"Kubernetes does not answer as it should: {error.message}"
        if not self._is_known or (self._failures >= _ILL and self._is_well):
            self._is_well = False
            event(_logger, "Kubernetes cannot be followed", why=error)
            self._change.set()

    async def _tidy(self) -> None:
        while True:
            if self._is_known:
                if self._table.judge(now=self._now()):
                    self._change.set()
                try:
                    await self._delete_unwanted()
                except LadingError as error:
                    # The next look finds the same work again.
                    event(_logger, "Pods not removed", why=error)
            await asyncio.sleep(self._settings.tidy_interval)

    async def _delete_unwanted(self) -> None:
        for stray in self._table.strays():
            await self._looks.delete("pods", stray.name, grace=_KILL_GRACE, uid=stray.uid)
            await self._look_for(stray.name, stray.uid)
        for process in self._table.condemned():
            uid = process.state.uid if process.state is not None else ""
            if uid:
                await self._looks.delete("pods", process.name, grace=_KILL_GRACE, uid=uid)
            await self._look_for(process.name, uid)

    async def _asked(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except RequestError as error:
            raise Unavailable(error.message) from error

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _worker(kind: NodeKind, extra_ram: int) -> FleetWorker:
    return FleetWorker(
        kind.name,
        pod_manifest.offered(kind, extra_ram=extra_ram),
        partitions=kind.partitions,
        queues=True,
        closed=kind.closed,
        gpu_kinds=None if kind.gpu is None else (kind.gpu,),
    )


async def _comes(event: asyncio.Event, seconds: float) -> bool:
    """Whether an event comes within a time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _uid(thing: JsonObject) -> str:
    metadata = thing.get("metadata")
    return str(metadata.get("uid")) if isinstance(metadata, dict) else ""
