"""A fake server for dispatchers behind the `Transport` protocol: containers, with faults.

It keeps containers with their transition table, locks and tokens, sends events after each change,
and counts what the design forbids: two users of one container at the same time. Faults are drawn
from a seed: an answer of 503, an error after the change was made, lists that are answered late and
hence are old. `tokens`: the tokens of further dispatchers by their secrets; a caller with another
secret is the first dispatcher.

`dispatching` runs a dispatcher in the background of a test, with very short pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import msgspec

from lading.client.api import ApiClient
from lading.client.record_events import Reconnected, RecordEvent
from lading.client.retry import NO_RETRY
from lading.client.transport import Response
from lading.core.containers.container import TRANSITIONS, ContainerState
from lading.core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LadingError,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from lading.dispatch.fleet import Fleet
from lading.dispatch.run import run
from lading.dispatch.settings import DispatchSettings
from lading.testing.plain_transport import ExchangesOnly
from lading.testing.pulse import Pulse

SECRET = "secret"
TOKEN = "zzzzz-gj3su-dispatcher00000"
_FINAL = {ContainerState.COMPLETE, ContainerState.CANCELLED}
_PATIENCE = 180.0
_PARAMETERS = ("filters", "order", "select", "limit", "offset")
Fields = dict[str, Any]
QUICK = DispatchSettings(
    poll_interval=0.05,
    status_interval=0.001,
    retry_first=0.001,
    retry_longest=0.01,
    kill_interval=0.005,
    kill_patience=0.05,
    linger=0.01,
    refusal_pause=0.02,
    twin_patience=60.0,
    misfit_patience=0.01,
)
EVENTS_ONLY = DispatchSettings(poll_interval=3600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Chances from 0 to 1, most turns of the event loop and most seconds that an answer takes."""

    refuse: float = 0.0
    """503, nothing done."""
    forget: float = 0.0
    """503, though it was done."""
    hang: float = 0.0
    """No answer until the client gives up, though it was done."""
    slow: int = 0
    lag: float = 0.0
    """Half of it before the change is made, half after."""


class RecordWatch(Protocol):
    """Receiver of the changes of records."""

    def moved(self, uuid: str, old: str, new: ContainerState) -> None:
        """A record has another state; `old` is "" for a new one. It was written already."""

    def unheard(self, uuid: str) -> None:
        """A container was locked, and the answer was lost."""


class FakeContainers(ExchangesOnly):
    """Implements `Transport` for dispatchers; supervisors use `run`, `finish` and `abandon`."""

    def __init__(
        self,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        attempts: int = 10,
        watch: RecordWatch | None = None,
    ) -> None:
        self.records: dict[str, Fields] = {}
        self.tokens: dict[str, str] = {}
        self.lost_locks: list[str] = []
        self.ready_image = ""
        """The image of all containers, which are Running by a lock that names it; "" for none."""
        """The containers that could not be locked, as they were not Queued any more."""
        self.watch = watch
        self.statuses: dict[str, str] = {}
        self.misfits: set[str] = set()
        self.waited: dict[str, str] = {}
        self.holder = self.lease = ""
        """The holder of the lease of the dispatcher's token, and the id of its process. Calls with
        another id are refused.
        """
        self.decisions: list[tuple[str, str, str]] = []
        self.calls: list[str] = []
        self.locks: dict[str, int] = {}
        self.down = False
        self.refuse_token = False
        self.most_items = 10**6
        self._live: dict[str, None] = {}
        self._pulse = Pulse()
        self._tokens: dict[str, str] = {}
        self._using: dict[str, str] = {}
        self._random = Random(seed)
        self.faults = faults or Faults()
        self._attempts = attempts
        self._streams: list[asyncio.Queue[RecordEvent | Reconnected]] = []
        self._created = 0

    def add(self, *, priority: int = 1, vcpus: int = 1, ram: int = 1 << 20, **more: Any) -> str:
        """Queue a container; its uuid."""
        self._created += 1
        uuid = f"zzzzz-dz642-{self._created:015d}"
        constraints = {"vcpus": vcpus, "ram": ram, "keep_cache_ram": 0}
        record = {
            "uuid": uuid,
            "state": "Queued",
            "priority": priority,
            "created_at": f"{self._created:09d}",
        }
        record |= {
            "locked_by_uuid": None,
            "runtime_constraints": constraints,
            "constraint_ranges": {},
        }
        record |= {"scheduling_parameters": {}, "runtime_user_uuid": "zzzzz-tpzed-000000000000000"}
        record |= {"mounts": {}, "container_image": ""}
        self.records[uuid] = {**record, **more}
        self._live[uuid] = None
        if self.watch is not None:
            self.watch.moved(uuid, "", ContainerState.QUEUED)
        self._announce(uuid, "", "create")
        return uuid

    def hold(self, uuid: str, state: ContainerState, *, by: str = TOKEN) -> None:
        """Put a container in a state in which it is locked."""
        self.records[uuid] |= {"state": state.value, "locked_by_uuid": by}

    def change_priority(self, uuid: str, priority: int) -> None:
        """As the API does when requests change."""
        self.records[uuid]["priority"] = priority
        self._announce(uuid, self.state(uuid), "update")

    def set_state(self, uuid: str, state: ContainerState) -> None:
        """As another admin does."""
        self._move(uuid, state)

    def state(self, uuid: str) -> ContainerState:
        """The state of a container."""
        return ContainerState(self.records[uuid]["state"])

    @property
    def quiet(self) -> bool:
        """Whether all have ended."""
        return not self._live

    def left(self) -> list[str]:
        """The containers that have not ended."""
        return list(self._live)

    async def until(self, uuid: str, *states: ContainerState) -> None:
        """Wait until a container is in one of these states."""
        await self.wait_for(lambda: self.state(uuid) in states)

    async def until_told(self, word: str) -> None:
        """Wait until a posted status contains `word`."""
        await self.wait_for(lambda: any(word in status for status in self.statuses.values()))

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until this holds; looked at after each change and each call."""
        await self._pulse.wait_for(condition)

    def run(self, uuid: str, token: str) -> None:
        """A supervisor begins the user's command. Raises Forbidden when its token is dead,
        AssertionError for two.
        """
        self._check(uuid, token)
        self._move(uuid, ContainerState.RUNNING)
        assert uuid not in self._using, f"{uuid} runs twice at the same time"
        self._using[uuid] = token

    def save(self, uuid: str, token: str, **more: Any) -> None:
        """A supervisor writes something else of its container. Raises Forbidden when its token is
        dead.
        """
        self._check(uuid, token)
        self.records[uuid] |= more

    def finish(self, uuid: str, token: str) -> None:
        """Report the end of the command, as its supervisor."""
        self._using.pop(uuid, None)
        self._check(uuid, token)
        self._move(uuid, ContainerState.COMPLETE)

    def abandon(self, uuid: str) -> None:
        """Remove all remains of the container."""
        self._using.pop(uuid, None)

    async def events(self) -> AsyncGenerator[RecordEvent | Reconnected]:
        """The events of the websocket."""
        stream: asyncio.Queue[RecordEvent | Reconnected] = asyncio.Queue()
        self._streams.append(stream)
        yield Reconnected()
        try:
            while True:
                yield await stream.get()
        finally:
            self._streams.remove(stream)

    def interrupt_events(self) -> None:
        """The websocket was down for a moment: nothing before now arrives any more."""
        for stream in self._streams:
            while not stream.empty():
                stream.get_nowait()
            stream.put_nowait(Reconnected())

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = 0.0,
    ) -> Response:
        """One exchange."""
        url = urlsplit(path)
        where = url.path.removeprefix("/arvados/v1/").split("/")
        if headers.get("X-Http-Method-Override") == "GET":
            method, query = "GET", bytes(body).decode()
        else:
            query = url.query
        self.calls.append(f"{method} {'/'.join(where)}")
        try:
            await self._linger()
            if self.down or self._chance(self.faults.refuse):
                raise Unavailable("the fake server is busy")
            if self.refuse_token:
                raise Unauthenticated
            content = msgspec.json.decode(body) if body and method != "GET" else {}
            caller = self.tokens.get(
                headers.get("Authorization", "").removeprefix("Bearer "), TOKEN
            )
            if self.lease and method != "GET":
                self._check_lease(headers.get("X-Lading-Lease", ""), content)
            answer = self._answer(method, where, parse_qs(query), content, caller)
            await self._answer_late(where, answer, timeout or _PATIENCE)
        except LadingError as error:
            return Response(error.status, {}, msgspec.json.encode({"errors": [error.message]}))
        finally:
            self._pulse.beat()
        return Response(200, {}, msgspec.json.encode(answer))

    async def _answer_late(self, where: list[str], answer: Fields, patience: float) -> None:
        """The request is carried out; the answer may be lost."""
        for _ in range(self._random.randint(0, self.faults.slow)):
            await asyncio.sleep(0)
        await self._linger()
        hangs, lost = self._chance(self.faults.hang), self._chance(self.faults.forget)
        if (hangs or lost) and self.watch is not None and where[-1] == "lock":
            self.watch.unheard(answer["uuid"])
        if hangs:
            await asyncio.sleep(patience)
            raise Unavailable("the fake server does not answer")
        if lost:
            raise Unavailable("the fake server lost the answer")

    def _answer(
        self,
        method: str,
        where: list[str],
        query: dict[str, list[str]],
        content: Fields,
        caller: str,
    ) -> Fields:
        match method, where:
            case "GET", ["api_client_authorizations", "current"]:
                return {"uuid": caller}
            case "GET", ["containers"]:
                given = ((name, query[name][0]) for name in _PARAMETERS if name in query)
                params = {name: msgspec.json.decode(value) for name, value in given}
                return {"items": self._list(params)}
            case "POST", ["containers", uuid, "lock"]:
                answer = self._lock_first([uuid, *content.get("alternatives", ())], content, caller)
                if self.ready_image in content.get("ready_images", ()):
                    self._move(answer["uuid"], ContainerState.RUNNING)
                    answer["state"] = ContainerState.RUNNING
                return answer
            case "POST", ["containers", uuid, "unlock"]:
                return self._unlock(uuid, caller)
            case "GET", ["containers", uuid]:
                return self._record(uuid)
            case "PUT", ["containers", uuid]:
                changes = content["container"]
                self._owned(uuid, caller)
                if "state" in changes:
                    self._move(uuid, ContainerState(changes.pop("state")))
                self.records[uuid] |= changes
                return self.records[uuid]
            case "POST", ["dispatch", "statuses"]:
                self._take_statuses(content)
                return {}
        raise NotFound(f"{method} {'/'.join(where)}")

    def _check_lease(self, lease: str, content: Fields) -> None:
        if lease not in ("", self.lease) and "holder" not in content:
            raise Conflict(f"another dispatcher works with this token: {self.holder}")

    def _take_statuses(self, content: Fields) -> None:
        if "holder" in content and (self.lease or content["lease"]) != content["lease"]:
            raise Conflict(f"another dispatcher works with this token: {self.holder}")
        if "holder" in content:
            is_over = bool(content.get("release"))
            self.holder, self.lease = ("", "") if is_over else (content["holder"], content["lease"])
        self.statuses |= {
            uuid: status["sentence"] if status else "" for uuid, status in content["items"].items()
        }
        self.misfits |= set(content.get("misfits") or ())
        for event in content["events"]:
            uuid = event["container_uuid"]
            if "waited" in event:
                self.waited[uuid] = event["waited"]
            self.decisions.append((uuid, event["event_type"], event["text"]))

    def _list(self, params: Fields) -> list[Fields]:
        rules = params["filters"]
        records = [
            record
            for record in self._candidates(rules)
            if all(_passes(record, *rule) for rule in rules)
        ]
        for term in reversed(params.get("order", [])):
            name, _, direction = term.partition(" ")
            records.sort(
                key=lambda record, name=name: record[name],  # type: ignore[misc]
                reverse=direction == "desc",
            )
        first = params.get("offset", 0)
        last = first + min(params["limit"], self.most_items)
        return [{name: record[name] for name in params["select"]} for record in records[first:last]]

    def _candidates(self, rules: list[list[Any]]) -> Iterable[Fields]:
        """The records that a list has to look at: most of a long play have ended."""
        for name, operator, operand in rules:
            if name == "uuid" and operator == "in":
                return [self.records[uuid] for uuid in sorted(operand) if uuid in self.records]
            if name == "state" and _FINAL.isdisjoint([operand] if operator == "=" else operand):
                return [self.records[uuid] for uuid in self._live]
        return self.records.values()

    def _lock_first(self, uuids: list[str], content: Fields, caller: str) -> Fields:
        """Lock the first one that can be locked; the first of all when none can be."""
        passed = []
        for uuid in uuids:
            record = self._record(uuid)
            if record["state"] == "Queued" and record["priority"] > 0:
                break
            passed.append(_brief(record))
        else:
            uuid, passed = uuids[0], []
        answer = self.lock(uuid, content.get("runtime_constraints"), caller)
        return {**answer, "passed": passed} if len(uuids) > 1 else answer

    def lock(self, uuid: str, amounts: Fields | None, caller: str) -> Fields:
        """Answer of a lock by `caller`, with the tokens of the container."""
        record = self._record(uuid)
        if record["state"] != "Queued":
            self.lost_locks.append(uuid)
            raise Invalid(f"cannot lock when {record['state']}")
        if record["priority"] <= 0:
            raise Invalid("cannot lock when priority<=0")
        self.locks[uuid] = self.locks.get(uuid, 0) + 1
        token = f"secret{self.locks[uuid]}"
        record["locked_by_uuid"] = caller
        if amounts:
            record["runtime_constraints"] = {**record["runtime_constraints"], **amounts}
        self._move(uuid, ContainerState.LOCKED)
        self._tokens[uuid] = token
        given = {"runtime_constraints": record["runtime_constraints"]} if amounts else {}
        return {**_brief(record), **given, "supervisor_token": token}

    def _unlock(self, uuid: str, caller: str) -> Fields:
        record = self._owned(uuid, caller)
        if record["state"] != "Locked":
            raise Invalid(f"cannot unlock when {record['state']}")
        self._move(
            uuid,
            ContainerState.QUEUED
            if self.locks.get(uuid, 0) < self._attempts
            else ContainerState.CANCELLED,
        )
        return _brief(record)

    def _owned(self, uuid: str, caller: str) -> Fields:
        record = self._record(uuid)
        if record["locked_by_uuid"] != caller:
            raise Forbidden("locked by a different token")
        return record

    def _record(self, uuid: str) -> Fields:
        if uuid not in self.records:
            raise NotFound(f"{uuid}: not found")
        return self.records[uuid]

    def _check(self, uuid: str, token: str) -> None:
        if self._tokens.get(uuid) != token or self.state(uuid) not in (
            ContainerState.LOCKED,
            ContainerState.RUNNING,
        ):
            raise Forbidden(f"{uuid}: this supervisor token is dead")

    def _move(self, uuid: str, state: ContainerState) -> None:
        record, old = self._record(uuid), self.state(uuid)
        if state not in TRANSITIONS[old]:
            raise Invalid(f"State cannot change from {old} to {state}")
        record["state"] = state.value
        if state not in (ContainerState.LOCKED, ContainerState.RUNNING):
            record["locked_by_uuid"] = None
            self._tokens.pop(uuid, None)
        if state in _FINAL:
            self._live.pop(uuid, None)
        if self.watch is not None:
            self.watch.moved(uuid, old, state)
        self._announce(uuid, old, "update")

    def _announce(self, uuid: str, old: str, kind: str) -> None:
        properties = {
            "old_attributes": {"state": old},
            "new_attributes": {"state": self.records[uuid]["state"]},
        }
        event = RecordEvent(
            event_type=kind,
            object_uuid=uuid,
            object_kind="arvados#container",
            properties=properties,
        )
        for stream in self._streams:
            stream.put_nowait(event)
        self._pulse.beat()

    async def _linger(self) -> None:
        if self.faults.lag:
            await asyncio.sleep(self._random.uniform(0.0, self.faults.lag / 2))

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance


def _brief(record: Fields) -> Fields:
    return {name: record[name] for name in ("uuid", "state", "priority", "locked_by_uuid")}


def _passes(record: Fields, name: str, operator: str, operand: Any) -> bool:
    top, _, key = name.partition(".")
    value = record[top].get(key) if key else record[top]
    match operator:
        case "=":
            return bool(value == operand)
        case ">":
            return bool(value > operand)
        case "in":
            return value in operand
    raise Invalid(f"filters: no operator {operator}")


@asynccontextmanager
async def dispatching(
    server: FakeContainers,
    fleet: Fleet,
    *,
    settings: DispatchSettings = QUICK,
    limit: float = 180.0,
    secret: str = SECRET,
) -> AsyncIterator[None]:
    """A dispatcher of `fleet` with the token `secret` while inside, for at most `limit` seconds.

    Raises its errors in an ExceptionGroup, TimeoutError when the context takes too long.
    """
    client = ApiClient(server, secret, retry=NO_RETRY)
    async with asyncio.timeout(limit), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run(client, fleet, settings, events=server.events()))
        yield
        task.cancel()
