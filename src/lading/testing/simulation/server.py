"""The server's side: records in memory, changed by the rules of `core` in one atomic step for each request.

Durable: a crash of the server loses connections and what was not answered, never a record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from lading.client.events import Event
from lading.core import finalise, lifecycle, priority, request, retry
from lading.core.container import FINAL, LIVE, Container
from lading.core.effects import CancelChildren, ContainerEffect, Finish, MintTokens, RevokeTokens
from lading.core.errors import Forbidden, Invalid, LadingError, NotFound, Unauthenticated
from lading.core.policy import Policy
from lading.core.request import ContainerRequest
from lading.core.timestamps import format_time
from lading.core.writers import Caller
from lading.testing.simulation.traffic import Stream

SYSTEM = "zzzzz-tpzed-000000000000000"
_START = datetime(2026, 1, 1, tzinfo=UTC)
_POLICY = Policy(max_dispatch_attempts=20)
_PARAMETERS = ("filters", "order", "select", "limit", "offset")
Fields = dict[str, Any]


@dataclass
class Server:
    """Records, tokens and connections. `clock` is seconds."""

    clock: Callable[[], float]
    fenced: bool = True
    containers: dict[str, Container] = field(default_factory=dict)
    requests: dict[str, ContainerRequest] = field(default_factory=dict)
    saved: dict[str, str] = field(default_factory=dict)
    """Outputs and logs that were stored: what they are of."""
    tokens: dict[str, str] = field(default_factory=dict)
    """Supervisor tokens that are alive: the container of each."""
    streams: list[Stream] = field(default_factory=list)
    made: int = 0

    # What users do.

    def submit(self, *, vcpus: int, value: int) -> str:
        """A committed request with a container of its own; its uuid."""
        container = Container(
            uuid=self._uuid("dz642"),
            created_at=self.now(),
            command=["true"],
            runtime_constraints={"vcpus": vcpus, "ram": 1 << 20, "keep_cache_ram": 0},
            runtime_user_uuid=SYSTEM,
        )
        wanted = ContainerRequest(
            uuid=self._uuid("xvhdp"),
            state=request.State.COMMITTED,
            priority=value,
            container_uuid=container.uuid,
            container_count=1,
            container_count_max=4,
            created_at=self.now(),
        )
        self.requests[wanted.uuid] = wanted
        self.containers[container.uuid] = container
        self._announce(container.uuid, "")
        self._settle([container.uuid])
        return wanted.uuid

    def prioritise(self, uuid: str, value: int) -> None:
        """A user changes the priority of a request; 0 cancels it."""
        subject = self.requests[uuid]
        if subject.state is not request.State.COMMITTED or subject.container_uuid is None:
            return
        if value == 0:
            state = self.containers[subject.container_uuid].state
            self.requests[uuid] = request.cancel(subject, container_state=state).request
            self._abandon(subject.container_uuid)
        else:
            self.requests[uuid] = dataclasses.replace(subject, priority=value)
        self._settle([subject.container_uuid])

    # What programs ask.

    def answer(self, token: str, method: str, path: str, body: bytes) -> bytes:
        """One call with the token of a dispatcher, or of a supervisor. Raises what the real server answers."""
        url = urlsplit(path)
        where = url.path.removeprefix("/arvados/v1/").split("/")
        content = msgspec.json.decode(body) if body and method != "GET" else {}
        match method, where:
            case "GET", ["api_client_authorizations", "current"]:
                return msgspec.json.encode({"uuid": token})
            case "GET", ["containers"]:
                query = parse_qs(url.query)
                asked = {name: msgspec.json.decode(query[name][0]) for name in _PARAMETERS if name in query}
                return msgspec.json.encode({"items": self._list(asked)})
            case "POST", ["containers", uuid, "lock"]:
                return self._lock(uuid, token)
            case "POST", ["containers", uuid, "unlock"]:
                held = self._container(uuid)
                change = lifecycle.unlock(
                    held, caller=_dispatcher(token), now=self.now(), max_attempts=_POLICY.max_dispatch_attempts
                )
                return msgspec.json.encode(_brief(self._store(held, change)))
            case "PUT", ["containers", uuid]:
                return msgspec.json.encode(_brief(self.write(uuid, content["container"], _dispatcher(token))))
            case "POST", ["dispatch", "statuses"]:
                return b"{}"
        raise NotFound(f"{method} {path}")

    def read(self, uuid: str, token: str) -> Container:
        """A supervisor reads its container. Raises Unauthenticated when its token is dead."""
        self._check(uuid, token)
        return self._container(uuid)

    def save(self, uuid: str, token: str, name: str) -> None:
        """A supervisor stores an output or a log. Raises Unauthenticated."""
        self._check(uuid, token)
        self.saved[name] = uuid

    def report(self, uuid: str, token: str, changes: Fields) -> Container:
        """A supervisor writes to its record. Raises Unauthenticated, Invalid."""
        self._check(uuid, token)
        if changes.get("output") is not None and changes["output"] not in self.saved:
            raise Invalid("Output collection must exist and be readable by current user.")
        return self.write(uuid, changes, Caller(token_uuid=_uuid_of(token)))

    def write(self, uuid: str, changes: Fields, caller: Caller) -> Container:
        """PUT containers/{uuid}."""
        before = self._container(uuid)
        if not self.fenced and not caller.is_admin:
            caller = Caller(token_uuid=before.supervisor_auth_uuid or "", is_admin=True)
        change = lifecycle.update(
            before, changes, caller=caller, now=self.now(), max_attempts=_POLICY.max_dispatch_attempts
        )
        return self._store(before, change)

    def now(self) -> str:
        """The time as the API writes it."""
        return format_time(_START + timedelta(seconds=self.clock()))

    # Within.

    def _check(self, uuid: str, token: str) -> None:
        if self.fenced and self.tokens.get(_uuid_of(token)) != uuid:
            raise Unauthenticated

    def _container(self, uuid: str) -> Container:
        if uuid not in self.containers:
            raise NotFound(f"{uuid}: not found")
        return self.containers[uuid]

    def _lock(self, uuid: str, token: str) -> bytes:
        before = self._container(uuid)
        tokens = lifecycle.NewTokens(auth_uuid=self._uuid("gj3su"), supervisor_uuid=self._uuid("gj3su"))
        after = self._store(before, lifecycle.lock(before, caller=_dispatcher(token), tokens=tokens))
        secret = f"v2/{tokens.supervisor_uuid}/secret"
        return msgspec.json.encode({**_brief(after), "supervisor_token": secret})

    def _store(self, before: Container, change: lifecycle.Change) -> Container:
        after = change.container
        self.containers[after.uuid] = after
        if after.state is not before.state:
            self._announce(after.uuid, before.state)
        for effect in change.effects:
            self._carry_out(effect, after, before)
        return after

    def _carry_out(self, effect: ContainerEffect, after: Container, before: Container) -> None:
        match effect:
            case MintTokens():
                self.tokens[effect.supervisor_uuid] = effect.container_uuid
            case RevokeTokens(uuids):
                for uuid in uuids:
                    self.tokens.pop(uuid, None)
            case Finish():
                self._finish(after, before)
            case CancelChildren():
                return

    def _finish(self, after: Container, before: Container) -> None:
        left = {one.uuid: one for one in self._wanting(after.uuid)}
        again = retry.plan(
            after,
            left.values(),
            before=before,
            parents={},
            earlier=self.containers,
            uuid=self._uuid("dz642"),
            now=self.now(),
            policy=_POLICY,
        )
        if again is not None:
            self.containers[again.container.uuid] = again.container
            for change in again.changes:
                del left[change.request.uuid]
                self.requests[change.request.uuid] = change.request
            self._announce(again.container.uuid, "")
            self._settle([again.container.uuid])
        for one in left.values():
            self.requests[one.uuid] = finalise.finalise(one, after, now=self.now()).change.request

    def _wanting(self, uuid: str) -> list[ContainerRequest]:
        return [
            one for one in self.requests.values() if one.container_uuid == uuid and one.state is request.State.COMMITTED
        ]

    def _settle(self, uuids: list[str]) -> None:
        live = [uuid for uuid in uuids if self.containers[uuid].state in LIVE]
        wanting = [one for uuid in live for one in self._wanting(uuid)]
        old = {uuid: self.containers[uuid].priority for uuid in live}
        for uuid, value in priority.propagate(old, wanting, recompute=live).items():
            self.containers[uuid] = dataclasses.replace(self.containers[uuid], priority=value)
            self._announce(uuid, self.containers[uuid].state)

    def _abandon(self, uuid: str) -> None:
        held = self.containers[uuid]
        if held.state not in FINAL and request.is_abandoned(held.state, self._wanting(uuid)):
            self._store(held, lifecycle.cancel(held, now=self.now(), reason="No request wants it."))

    def _list(self, asked: Mapping[str, Any]) -> list[Fields]:
        found = [
            one.to_record()
            for one in self.containers.values()
            if all(_passes(getattr(one, name), operator, operand) for name, operator, operand in asked["filters"])
        ]
        for term in reversed(asked.get("order", [])):
            name, _, direction = term.partition(" ")
            found.sort(key=lambda one, name=name: one[name], reverse=direction == "desc")  # type: ignore[misc]
        first = asked.get("offset", 0)
        return [{name: one[name] for name in asked["select"]} for one in found[first : first + asked["limit"]]]

    def _announce(self, uuid: str, old: str) -> None:
        states = {"old_attributes": {"state": old}, "new_attributes": {"state": self.containers[uuid].state.value}}
        kind = "update" if old else "create"
        item = Event(event_type=kind, object_uuid=uuid, object_kind="arvados#container", properties=states)
        for stream in self.streams:
            stream.send(item)

    def _uuid(self, infix: str) -> str:
        self.made += 1
        return f"zzzzz-{infix}-{self.made:015d}"


def fault(error: LadingError) -> tuple[int, bytes]:
    """The status and body of a refusal."""
    return error.status, msgspec.json.encode({"errors": [error.message]})


def _dispatcher(token: str) -> Caller:
    if not token.startswith("zzzzz-gj3su-dispatcher"):
        raise Forbidden(f"{token}: not a dispatcher's token")
    return Caller(token_uuid=token, is_admin=True)


def _uuid_of(token: str) -> str:
    return token.split("/")[1]


def _brief(one: Container) -> Fields:
    return {"uuid": one.uuid, "state": one.state, "priority": one.priority, "locked_by_uuid": one.locked_by_uuid}


def _passes(value: Any, operator: str, operand: Any) -> bool:
    if operator == "in":
        return value in operand
    return bool(value == operand if operator == "=" else value > operand)
