"""A small server behind the `Transport` protocol: what a dispatcher and a supervisor see of the API, and mean.

It keeps containers with their transition table, locks and tokens, sends events after each change, and counts what the
design forbids: two users of one container at the same time. Faults are drawn from a seed: an answer of 503, one that
comes after the change was made, lists that are answered late and hence are old.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from lading.client.events import Event, Reconnected
from lading.client.transport import Body, Response, StreamedResponse, WebSocket
from lading.core.container import TRANSITIONS, State
from lading.core.errors import Forbidden, Invalid, LadingError, NotFound, Unauthenticated, Unavailable
from lading.testing.pulse import Pulse

TOKEN = "zzzzz-gj3su-dispatcher00000"
_PATIENCE = 60.0
_PARAMETERS = ("filters", "order", "select", "limit")
Fields = dict[str, Any]


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


class FakeContainers:
    """Implements `Transport` for one dispatcher token; supervisors use `run`, `finish` and `abandon`."""

    def __init__(self, *, seed: int = 0, faults: Faults | None = None, attempts: int = 10) -> None:
        self.records: dict[str, Fields] = {}
        self.statuses: dict[str, str] = {}
        self.decisions: list[tuple[str, str, str]] = []
        self.calls: list[str] = []
        self.locks: dict[str, int] = {}
        self.down = False
        self.refuse_token = False
        self._pulse = Pulse()
        self._tokens: dict[str, str] = {}
        self._using: dict[str, str] = {}
        self._random = Random(seed)
        self._faults = faults or Faults()
        self._attempts = attempts
        self._streams: list[asyncio.Queue[Event | Reconnected]] = []
        self._made = 0

    def add(self, *, priority: int = 1, vcpus: int = 1, ram: int = 1 << 20, **more: Any) -> str:
        """Queue a container; its uuid."""
        self._made += 1
        uuid = f"zzzzz-dz642-{self._made:015d}"
        constraints = {"vcpus": vcpus, "ram": ram, "keep_cache_ram": 0}
        record = {"uuid": uuid, "state": "Queued", "priority": priority, "created_at": f"{self._made:09d}"}
        record |= {"locked_by_uuid": None, "runtime_constraints": constraints, "constraint_ranges": {}}
        record |= {"scheduling_parameters": {}, "runtime_user_uuid": "zzzzz-tpzed-000000000000000"}
        record |= {"mounts": {}, "container_image": ""}
        self.records[uuid] = {**record, **more}
        self._announce(uuid, "", "create")
        return uuid

    def hold(self, uuid: str, state: State, *, by: str = TOKEN) -> None:
        """Put a container in a state in which somebody holds its lock."""
        self.records[uuid] |= {"state": state.value, "locked_by_uuid": by}

    def change_priority(self, uuid: str, priority: int) -> None:
        """As the API does when requests change."""
        self.records[uuid]["priority"] = priority
        self._announce(uuid, self.state(uuid), "update")

    def set_state(self, uuid: str, state: State) -> None:
        """As another admin does."""
        self._move(uuid, state)

    def state(self, uuid: str) -> State:
        """The state of a container."""
        return State(self.records[uuid]["state"])

    async def until(self, uuid: str, *states: State) -> None:
        """Wait until a container is in one of these states."""
        await self.wait_for(lambda: self.state(uuid) in states)

    async def until_told(self, word: str) -> None:
        """Wait until a posted status contains `word`."""
        await self.wait_for(lambda: any(word in text for text in self.statuses.values()))

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until this holds; looked at after each change and each call."""
        await self._pulse.wait_for(condition)

    def run(self, uuid: str, token: str) -> None:
        """A supervisor begins the user's command. Raises Forbidden when its token is dead, AssertionError for two."""
        self._check(uuid, token)
        self._move(uuid, State.RUNNING)
        assert uuid not in self._using, f"{uuid} runs twice at the same time"
        self._using[uuid] = token

    def finish(self, uuid: str, token: str) -> None:
        """The command has ended, and the supervisor says so."""
        self._using.pop(uuid, None)
        self._check(uuid, token)
        self._move(uuid, State.COMPLETE)

    def abandon(self, uuid: str) -> None:
        """Whatever was left of the container is gone."""
        self._using.pop(uuid, None)

    async def events(self) -> AsyncGenerator[Event | Reconnected]:
        """What the websocket would bring."""
        stream: asyncio.Queue[Event | Reconnected] = asyncio.Queue()
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
            if self.down or self._chance(self._faults.refuse):
                raise Unavailable("the fake server is busy")
            if self.refuse_token:
                raise Unauthenticated
            content = msgspec.json.decode(body) if body and method != "GET" else {}
            answer = self._answer(method, where, parse_qs(query), content)
            for _ in range(self._random.randint(0, self._faults.slow)):
                await asyncio.sleep(0)
            await self._linger()
            if self._chance(self._faults.hang):
                await asyncio.sleep(timeout or _PATIENCE)
                raise Unavailable("the fake server does not answer")
            if self._chance(self._faults.forget):
                raise Unavailable("the fake server lost the answer")
        except LadingError as error:
            return Response(error.status, {}, msgspec.json.encode({"errors": [error.message]}))
        finally:
            self._pulse.beat()
        return Response(200, {}, msgspec.json.encode(answer))

    def stream(
        self, method: str, path: str, *, headers: Mapping[str, str], body: Body = b"", timeout: float = 0.0
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """Not offered."""
        raise Unavailable(f"the fake server has no streams: {method} {path} {headers} {body!r} {timeout}")

    def websocket(
        self, path: str, *, headers: Mapping[str, str], timeout: float = 0.0
    ) -> AbstractAsyncContextManager[WebSocket]:
        """Not offered: take `events`."""
        raise Unavailable(f"the fake server has no websocket: {path} {headers} {timeout}")

    async def close(self) -> None:
        """Nothing to drop."""

    def _answer(self, method: str, where: list[str], query: dict[str, list[str]], content: Fields) -> Fields:
        match method, where:
            case "GET", ["api_client_authorizations", "current"]:
                return {"uuid": TOKEN}
            case "GET", ["containers"]:
                return {
                    "items": self._list(
                        {name: msgspec.json.decode(query[name][0]) for name in _PARAMETERS if name in query}
                    )
                }
            case "POST", ["containers", uuid, "lock"]:
                return self._lock(uuid, content.get("runtime_constraints"))
            case "POST", ["containers", uuid, "unlock"]:
                return self._unlock(uuid)
            case "PUT", ["containers", uuid]:
                changes = content["container"]
                self._owned(uuid)
                self._move(uuid, State(changes.pop("state")))
                self.records[uuid] |= changes
                return self.records[uuid]
            case "POST", ["dispatch", "statuses"]:
                self.statuses |= {uuid: one["sentence"] if one else "" for uuid, one in content["items"].items()}
                self.decisions += [(one["container_uuid"], one["event_type"], one["text"]) for one in content["events"]]
                return {}
        raise NotFound(f"{method} {'/'.join(where)}")

    def _list(self, params: Fields) -> list[Fields]:
        found = [one for one in self.records.values() if all(_passes(one, *rule) for rule in params["filters"])]
        for term in reversed(params.get("order", [])):
            name, _, direction = term.partition(" ")
            found.sort(key=lambda one, name=name: one[name], reverse=direction == "desc")  # type: ignore[misc]
        return [{name: one[name] for name in params["select"]} for one in found[: params["limit"]]]

    def _lock(self, uuid: str, amounts: Fields | None) -> Fields:
        record = self._record(uuid)
        if record["state"] != "Queued":
            raise Invalid(f"cannot lock when {record['state']}")
        if record["priority"] <= 0:
            raise Invalid("cannot lock when priority<=0")
        self.locks[uuid] = self.locks.get(uuid, 0) + 1
        token = f"secret{self.locks[uuid]}"
        record["locked_by_uuid"] = TOKEN
        if amounts:
            record["runtime_constraints"] = {**record["runtime_constraints"], **amounts}
        self._move(uuid, State.LOCKED)
        self._tokens[uuid] = token
        given = {"runtime_constraints": record["runtime_constraints"]} if amounts else {}
        return {**_brief(record), **given, "supervisor_token": token}

    def _unlock(self, uuid: str) -> Fields:
        record = self._owned(uuid)
        if record["state"] != "Locked":
            raise Invalid(f"cannot unlock when {record['state']}")
        self._move(uuid, State.QUEUED if self.locks.get(uuid, 0) < self._attempts else State.CANCELLED)
        return _brief(record)

    def _owned(self, uuid: str) -> Fields:
        record = self._record(uuid)
        if record["locked_by_uuid"] not in (TOKEN, None):
            raise Forbidden("locked by a different token")
        return record

    def _record(self, uuid: str) -> Fields:
        if uuid not in self.records:
            raise NotFound(f"{uuid}: not found")
        return self.records[uuid]

    def _check(self, uuid: str, token: str) -> None:
        if self._tokens.get(uuid) != token or self.state(uuid) not in (State.LOCKED, State.RUNNING):
            raise Forbidden(f"{uuid}: this supervisor token is dead")

    def _move(self, uuid: str, state: State) -> None:
        record, old = self._record(uuid), self.state(uuid)
        if state not in TRANSITIONS[old]:
            raise Invalid(f"State cannot change from {old} to {state}")
        record["state"] = state.value
        if state not in (State.LOCKED, State.RUNNING):
            record["locked_by_uuid"] = None
            self._tokens.pop(uuid, None)
        self._announce(uuid, old, "update")

    def _announce(self, uuid: str, old: str, kind: str) -> None:
        properties = {"old_attributes": {"state": old}, "new_attributes": {"state": self.records[uuid]["state"]}}
        event = Event(event_type=kind, object_uuid=uuid, object_kind="arvados#container", properties=properties)
        for stream in self._streams:
            stream.put_nowait(event)
        self._pulse.beat()

    async def _linger(self) -> None:
        if self._faults.lag:
            await asyncio.sleep(self._random.uniform(0.0, self._faults.lag / 2))

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance


def _brief(record: Fields) -> Fields:
    return {name: record[name] for name in ("uuid", "state", "priority", "locked_by_uuid")}


def _passes(record: Fields, name: str, operator: str, operand: Any) -> bool:
    value = record[name]
    match operator:
        case "=":
            return bool(value == operand)
        case ">":
            return bool(value > operand)
        case "in":
            return value in operand
    raise Invalid(f"filters: no operator {operator}")
