"""A fake Kubernetes cluster behind the `Transport` protocol: API server, scheduler and kubelets.

It keeps Pods and Secrets of one namespace with versions, pages, watches with bookmarks, and
deletions with grace. A Pod runs once it has a place and its secret. Faults are drawn from a seed
(`Malice`): an API server that is busy, away, or silent about what it did; a POST that has its
effect later; watches that are cut, end, or are too old; lists of a while ago; Pods that are deleted
or lost. A breach of the rules is kept in `faults`: two supervisors of one container at a time.
"""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from lading.client.transport import Body, Response, StreamedResponse
from lading.core.errors import LadingError, Unavailable
from lading.core.kubernetes.pod_manifest import ASSIGNMENT, CONTAINER
from lading.core.kubernetes.refusals import RIGHTS
from lading.process.concurrency import cancel_all
from lading.testing.kubernetes_objects import (
    Malice,
    Thing,
    bookmark,
    container_statuses,
    once,
    read_version,
    status,
    takes_room,
)
from lading.testing.plain_transport import ExchangesOnly
from lading.testing.pulse import Pulse

NAMESPACE = "work"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
Supervise = Callable[[str, str], Awaitable[None]]
"""The work of a supervisor: container and token."""
Launch = Callable[[Mapping[str, bytes]], Awaitable[int]]
"""Runs a real supervisor with the files of its secret, by name, and returns its exit code."""
_ALL_RIGHTS = frozenset((verb, kind) for kind, verbs in RIGHTS.items() for verb in verbs)


class FakeCluster(ExchangesOnly):
    """Implements `Transport`. `slots`: Pods that run at a time; `work`: of each supervisor, None to
    run until it is deleted; `launch` takes the place of `work`. `pause`: seconds that Pods and
    deletions take, at most.
    """

    def __init__(
        self,
        *,
        work: Supervise | None = None,
        launch: Launch | None = None,
        seed: int = 0,
        malice: Malice | None = None,
        slots: int = 1000,
        pause: float = 0.0,
    ) -> None:
        self.pods: dict[str, Thing] = {}
        self.secrets: dict[str, Thing] = {}
        self.calls: list[tuple[str, str]] = []
        """(verb, resource) of each request, in order."""
        self.tokens: list[str] = []
        self.faults: list[AssertionError] = []
        self.ran: dict[str, int] = {}
        """How many Pods ran, by container."""
        self.rights = set(_ALL_RIGHTS)
        self.refusal = ""
        """Message with which POSTs of Pods are refused with 403."""
        self.invalid = ""
        """Message with which POSTs of Pods are refused with 422."""
        self.down = False
        self.has_namespace = True
        self.frozen = False
        """Kubelets do nothing, and nodes do not answer."""
        self.image_is_there = True
        self.message = ""
        """Termination message of supervisors that have no assignment, as those of a check."""
        self.slots = slots
        self.malice = malice or Malice()
        self.pulse = Pulse()
        self._work = work
        self._launch = launch
        self._random = Random(seed)
        self._pause = pause
        # As that of a real one, never 0: a watch from there begins with all that is there.
        self._version = 1
        self._events: list[tuple[int, str, Thing]] = []
        self._horizon = 0
        self._past: list[tuple[str, list[Thing]]] = []
        self._pages: dict[str, tuple[str, list[Thing]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._kubelets: dict[str, asyncio.Task[None]] = {}
        self._alive: dict[str, str] = {}
        self._created = 0
        self._is_stale = False

    # Tests.

    def of(self, container: str) -> list[Thing]:
        """The Pods of a container."""
        return [
            pod for pod in self.pods.values() if pod["metadata"]["labels"][CONTAINER] == container
        ]

    def finish(self, name: str, *, phase: str = "Failed", **more: Any) -> None:
        """End a Pod, with more fields of its status."""
        pod = self.pods[name]
        self._stop(name)
        pod["status"] = {"phase": phase, **more}
        self._changed("MODIFIED", pod)

    def show(self, name: str, **fields: Any) -> None:
        """Change fields of the status of a Pod."""
        self.pods[name]["status"] |= fields
        self._changed("MODIFIED", self.pods[name])

    def remove(self, name: str) -> None:
        """Delete a Pod at once, as by force."""
        pod = self.pods.pop(name)
        self._stop(name)
        self._changed("DELETED", pod)
        # The garbage collector follows its owner.
        self._spawn(self._collect(pod["metadata"]["uid"]))

    def lose(self, name: str) -> None:
        """Forget a Pod that goes on where nobody sees it, as a forced deletion does."""
        uid = self.pods[name]["metadata"]["uid"]
        ghost = self._kubelets.pop(uid, None)
        if ghost is not None:
            self._tasks.add(ghost)
        self.remove(name)

    def compact(self) -> None:
        """End all watches, and forget all events: their versions are too old."""
        self._version += 1
        self._horizon = self._version
        self.pulse.beat()

    async def close(self) -> None:
        """End all tasks. Raises the first breach of the rules."""
        await cancel_all(*self._tasks, *self._kubelets.values())
        await asyncio.gather(*self._ending, return_exceptions=True)
        if self.faults:
            raise self.faults[0]

    # Transport.

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = 0.0,
    ) -> Response:
        """One request; see Transport."""
        if path == REVIEWS:
            return self._review(msgspec.json.decode(body))
        if path == f"/api/v1/namespaces/{NAMESPACE}":
            return self._show_namespace(timeout)
        kind, name, query = self._parse(path)
        self.tokens.append(headers.get("Authorization", ""))
        await self._dawdle()
        verb = {"POST": "create", "DELETE": "delete"}.get(method, "get" if name else "list")
        self.calls.append((verb, kind))
        self._be_unreachable(timeout)
        if self._chance(self.malice.busy):
            return self._busy()
        if (verb, kind) not in self.rights:
            return self._answer(status(403, "Forbidden", self._forbidden(verb, kind, name)))
        given = msgspec.json.decode(body) if body else {}
        if verb == "create" and self._chance(self.malice.late):
            self._spawn(self._later(kind, given))
            raise Unavailable("the fake API server gives no answer, and does it later")
        found = self._carry_out(verb, kind, name, query, given)
        if self._chance(self.malice.mute):
            raise Unavailable("the fake API server gives no answer, and has done it")
        return self._answer(found, is_new=verb == "create")

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body = b"",
        timeout: float = 0.0,
    ) -> AsyncGenerator[StreamedResponse]:
        """A watch; see Transport."""
        assert (method, body) == ("GET", b"")
        self.tokens.append(headers.get("Authorization", ""))
        kind, _, query = self._parse(path)
        await self._dawdle()
        self.calls.append(("watch", kind))
        self._be_unreachable(timeout)
        since = read_version(query)
        if ("watch", kind) not in self.rights:
            answer = status(403, "Forbidden", self._forbidden("watch", kind))
        elif since is None:
            # Of a list it is 400.
            answer = status(500, message="resourceVersion: Invalid value")
        elif 0 < since < self._horizon or self._chance(self.malice.old):
            answer = status(410)
            # A real one says it by an event; proxies before it may say it by the status.
            if self._random.random() < 0.5:
                line = msgspec.json.encode({"type": "ERROR", "object": answer}) + b"\n"
                yield StreamedResponse(200, {}, once(line))
                return
        else:
            until = asyncio.get_running_loop().time() + float(query["timeoutSeconds"])
            has_bookmarks = query.get("allowWatchBookmarks") == "true"
            events = self._watch(since, until, has_bookmarks=has_bookmarks)
            try:
                yield StreamedResponse(200, {}, events)
            finally:
                await events.aclose()
            return
        yield StreamedResponse(answer["code"], {}, once(msgspec.json.encode(answer)))

    # The API server.

    def _review(self, review: Thing) -> Response:
        """Whether the caller has a right; everyone may ask."""
        if self.down:
            raise Unavailable("the fake API server does not answer")
        asked = review["spec"]["resourceAttributes"]
        is_allowed = (asked["verb"], asked["resource"]) in self.rights
        return self._answer({**review, "status": {"allowed": is_allowed}}, is_new=True)

    def _show_namespace(self, timeout: float) -> Response:
        self._be_unreachable(timeout)
        if ("get", "namespaces") not in self.rights:
            said = self._forbidden("get", "namespaces", NAMESPACE)
            return self._answer(status(403, "Forbidden", said))
        if not self.has_namespace:
            return self._answer(self._no_namespace())
        return self._answer({"kind": "Namespace", "metadata": {"name": NAMESPACE}})

    def _no_namespace(self) -> Thing:
        return status(404, message=f'namespaces "{NAMESPACE}" not found')

    def _parse(self, path: str) -> tuple[str, str, dict[str, str]]:
        split = urlsplit(path)
        kind, _, name = split.path.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/").partition("/")
        assert kind in RIGHTS, path
        return kind, name, {key: value[-1] for key, value in parse_qs(split.query).items()}

    def _carry_out(
        self, verb: str, kind: str, name: str, query: Mapping[str, str], document: Thing
    ) -> Thing:
        things = self.pods if kind == "pods" else self.secrets
        match verb:
            case "create":
                return self._create(kind, document)
            case "get":
                return things[name] if name in things else status(404)
            case "delete":
                return self._delete(kind, name, document)
            case _:
                return self._list(query)

    def _create(self, kind: str, document: Thing) -> Thing:
        name = document["metadata"]["name"]
        things = self.pods if kind == "pods" else self.secrets
        if not self.has_namespace:
            return self._no_namespace()
        if kind == "pods" and self.refusal:
            return status(403, "Forbidden", self.refusal)
        if kind == "pods" and self.invalid:
            return status(422, "Invalid", self.invalid)
        if name in things:
            return status(409, message=f"{kind} {name!r} already exists")
        self._created += 1
        things[name] = document
        document["metadata"] |= {
            "uid": f"uid-{self._created}",
            "creationTimestamp": f"2026-01-01T{self._created:08d}Z",
        }
        if kind == "pods":
            document["status"] = {"phase": "Pending"}
            self._changed("ADDED", document)
            self._kubelets[document["metadata"]["uid"]] = asyncio.create_task(
                self._run(name, document)
            )
        owners = document["metadata"].get("ownerReferences", [])
        if owners and owners[0]["uid"] not in self._uids():
            # The garbage collector also finds an object that is made after its owner has gone.
            self._spawn(self._collect(owners[0]["uid"]))
        self.pulse.beat()
        return document

    def _uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods.values()}

    def _delete(self, kind: str, name: str, options: Thing) -> Thing:
        things = self.pods if kind == "pods" else self.secrets
        if name not in things:
            return status(404)
        thing = things[name]
        wanted = options.get("preconditions", {}).get("uid")
        if wanted and wanted != thing["metadata"]["uid"]:
            return status(409, "Conflict", "the UID in the precondition is another one")
        if kind == "secrets":
            del things[name]
            return status(200)
        grace = options.get("gracePeriodSeconds", thing["spec"]["terminationGracePeriodSeconds"])
        is_over = thing["status"]["phase"] in ("Succeeded", "Failed")
        is_soon = grace == 0 or is_over or "nodeName" not in thing["spec"]
        if is_soon:
            grace = 0
        is_new = "deletionTimestamp" not in thing["metadata"]
        thing["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace,
        }
        self._changed("MODIFIED", thing)
        if is_soon:
            self.remove(name)
        elif is_new:
            self._spawn(self._end(name, thing))
        return thing

    def _list(self, query: Mapping[str, str]) -> Thing:
        token = query.get("continue", "")
        if token:
            if token not in self._pages:
                return status(410)
            version, pods = self._pages.pop(token)
        else:
            since = read_version(query)
            if since is None:
                return status(400, message="invalid resource version")
            if since > self._version:
                return status(504, "Timeout", "Timeout: Too large resource version")
            version, pods = str(self._version), copy.deepcopy(list(self.pods.values()))
            self._past.append((version, pods))
            del self._past[:-5]
            self._is_stale = not self._is_stale and self._chance(self.malice.stale)
            if self._is_stale:
                version, pods = self._past[0]
            labels = dict(term.split("=") for term in query["labelSelector"].split(","))
            pods = [pod for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]
        # Pages are far smaller than the client asks for; a list of any version comes whole.
        most = len(pods) if query.get("resourceVersion") == "0" else 3
        page, pods = pods[:most], pods[most:]
        metadata = {"resourceVersion": version}
        if pods:
            metadata["continue"] = f"page {len(self.calls)}"
            # A list that takes long grows too old.
            if not self._chance(self.malice.old):
                self._pages[metadata["continue"]] = (version, pods)
        # Items of lists have neither kind nor version.
        items = [
            {key: pod[key] for key in pod if key not in ("apiVersion", "kind")} for pod in page
        ]
        return {"kind": "PodList", "metadata": metadata, "items": items}

    async def _watch(
        self, since: int, until: float, *, has_bookmarks: bool
    ) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        if since == 0:
            since = self._version
            for pod in copy.deepcopy([*self.pods.values()]):
                yield msgspec.json.encode({"type": "ADDED", "object": pod}) + b"\n"
        while loop.time() < until:
            if self.down or since < self._horizon:
                raise Unavailable("the fake API server ends the watch")
            for version, change, thing in self._events_after(since):
                line = msgspec.json.encode({"type": change, "object": thing}) + b"\n"
                if self._chance(self.malice.cut):
                    yield line[: len(line) // 2]
                    raise Unavailable("the fake API server cuts the watch")
                # A network splits lines anywhere.
                yield line[:7]
                yield line[7:]
                since = version
            is_due = has_bookmarks and self._random.random() < 0.3
            if is_due and not self._events_after(since):
                since = self._version
                told = {"type": "BOOKMARK", "object": bookmark(since)}
                yield msgspec.json.encode(told) + b"\n"
            if not self._events_after(since):
                try:
                    async with asyncio.timeout_at(until):
                        await self._news(since)
                except TimeoutError:
                    return
            await self._dawdle()

    async def _news(self, since: int) -> None:
        await self.pulse.wait_for(
            lambda: self.down or since < self._horizon or bool(self._events_after(since))
        )

    def _events_after(self, since: int) -> list[tuple[int, str, Thing]]:
        # The newest come last: a watch usually asks for few.
        found = []
        for event in reversed(self._events):
            if event[0] <= since:
                break
            found.append(event)
        return found[::-1]

    def _changed(self, change: str, pod: Thing) -> None:
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        self._events.append((self._version, change, copy.deepcopy(pod)))
        self.pulse.beat()

    def _busy(self) -> Response:
        code = self._random.choice((409, 429, 429, 500, 503))
        reason = "Conflict" if code == 409 else ""
        headers = {"retry-after": "0"} if code in (429, 503) else {}
        if code == 429:
            return Response(code, headers, b"Too many requests, please try again later.\n")
        return Response(code, headers, msgspec.json.encode(status(code, reason)))

    def _answer(self, answer: Thing, *, is_new: bool = False) -> Response:
        code = answer["code"] if answer.get("kind") == "Status" else 201 if is_new else 200
        return Response(code, {}, msgspec.json.encode(answer))

    def _forbidden(self, verb: str, kind: str, name: str = "") -> str:
        named = f' "{name}"' if name else ""
        return (
            f'{kind}{named} is forbidden: User "dispatcher" cannot {verb} resource "{kind}"'
            f' in API group "" in the namespace "{NAMESPACE}"'
        )

    def _be_unreachable(self, timeout: float) -> None:
        if self.down or self._chance(self.malice.away):
            raise Unavailable(f"the fake API server does not answer within {timeout:g} s")

    async def _later(self, kind: str, document: Thing) -> None:
        await self._take_time()
        await self._dawdle()
        self._create(kind, document)

    # Scheduler, kubelets, garbage collector.

    async def _run(self, name: str, pod: Thing) -> None:
        """The life of a Pod on its node."""
        await self._take_time()
        await self.pulse.wait_for(
            lambda: not self.frozen and sum(map(takes_room, self.pods.values())) < self.slots
        )
        if self.pods.get(name) is not pod:
            return
        pod["spec"]["nodeName"] = f"node{self._random.randrange(3)}"
        self._changed("MODIFIED", pod)
        if not self.image_is_there:
            pod["status"]["containerStatuses"] = container_statuses(
                pod, waiting={"reason": "ImagePullBackOff"}
            )
            self._changed("MODIFIED", pod)
        await self.pulse.wait_for(
            lambda: name in self.secrets and not self.frozen and self.image_is_there
        )
        await self._take_time()
        if not self.secrets[name]["data"][ASSIGNMENT]:
            ended = container_statuses(pod, terminated={"exitCode": 0, "message": self.message})
            self.show(name, phase="Succeeded", containerStatuses=ended)
            return
        assignment = msgspec.json.decode(base64.b64decode(self.secrets[name]["data"][ASSIGNMENT]))
        uuid = str(assignment["container_uuid"])
        if uuid in self._alive:
            self.faults.append(AssertionError(f"{uuid}: {name} runs beside {self._alive[uuid]}"))
        self._alive[uuid] = name
        self.ran[uuid] = self.ran.get(uuid, 0) + 1
        try:
            # Most short Pods are never seen Running.
            if self._random.random() < 0.7 or self._work is None:
                pod["status"] = {
                    "phase": "Running", "containerStatuses": container_statuses(pod, running={}),
                }  # fmt: skip
                self._changed("MODIFIED", pod)
            code = await self._supervise(name, uuid, str(assignment["supervisor_token"]))
        finally:
            if self._alive.get(uuid) == name:
                del self._alive[uuid]
        if self.pods.get(name) is not pod:
            return
        pod["status"] = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": container_statuses(pod, terminated={"exitCode": code}),
        }
        self._changed("MODIFIED", pod)

    async def _supervise(self, name: str, uuid: str, token: str) -> int:
        if self._launch is not None:
            data = self.secrets[name]["data"]
            return await self._launch({key: base64.b64decode(value) for key, value in data.items()})
        if self._work is None:
            await asyncio.Event().wait()
        assert self._work is not None
        if self._chance(self.malice.crash):
            return 1
        if self._chance(self.malice.deleted):
            self._spawn(self._end(name, self.pods[name]))
        try:
            await self._work(uuid, token)
        except AssertionError as fault:
            self.faults.append(fault)
        except LadingError:
            # Its token is dead, or it has crashed.
            return 1
        return 0

    async def _end(self, name: str, pod: Thing) -> None:
        """End a Pod that is being deleted, and remove its object."""
        await self._take_time()
        await self._dawdle()
        await self.pulse.wait_for(lambda: not self.frozen)
        if self.pods.get(name) is not pod:
            return
        self._stop(name)
        if self._random.random() < 0.5:
            pod["status"] = {
                "phase": "Failed",
                "containerStatuses": container_statuses(pod, terminated={"exitCode": 137}),
            }
            self._changed("MODIFIED", pod)
        self.remove(name)

    def _stop(self, name: str) -> None:
        for pod in [*self.pods.values()]:
            if pod["metadata"]["name"] == name:
                self._cancel(pod["metadata"]["uid"])
        self._alive = {uuid: pod_name for uuid, pod_name in self._alive.items() if pod_name != name}

    def _cancel(self, uid: str) -> None:
        kubelet = self._kubelets.pop(uid, None)
        if kubelet is not None and kubelet is not asyncio.current_task():
            kubelet.cancel()
            # It may wait for the end of a real process.
            self._ending.add(kubelet)
            kubelet.add_done_callback(self._ending.discard)

    async def _collect(self, uid: str) -> None:
        await self._take_time()
        for name, secret in list(self.secrets.items()):
            owners = secret["metadata"].get("ownerReferences", [])
            if owners and owners[0]["uid"] == uid:
                del self.secrets[name]
        self.pulse.beat()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_time(self) -> None:
        if self._pause:
            await asyncio.sleep(self._random.uniform(0.0, self._pause))

    async def _dawdle(self) -> None:
        for _ in range(self._random.randint(0, self.malice.slow)):
            await asyncio.sleep(0)

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance
