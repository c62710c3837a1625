"""A model of the API server: records in memory, changed by the rules of `core`, a call at a time.

Records are durable: a crash of the server loses connections and answers only. It takes the calls
that dispatchers, supervisors, commands and users of the simulation make, and answers as the real
server does; `comparison` compares both.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import msgspec

from lading.api.server.policy import make_policy
from lading.client.record_events import RecordEvent
from lading.config.site import load
from lading.core.containers import (
    finalize,
    lifecycle,
    priority,
    recipe,
    recipe_resolution,
    request,
    request_phases,
)
from lading.core.containers.container import (
    FINAL,
    HELD,
    LIVE,
    CancelChildren,
    Container,
    ContainerEffect,
    Finish,
    MintTokens,
    Reprioritise,
    ReprioritiseChildren,
    Resolve,
    RevokeTokens,
    has_succeeded,
)
from lading.core.containers.finalize import Keeps
from lading.core.containers.recipe_resolution import RequestFacts
from lading.core.containers.request import ContainerRequest
from lading.core.containers.request_rules import Parent
from lading.core.containers.reuse import Candidate, Reuse
from lading.core.containers.writers import ContainerWriter
from lading.core.data import manifest
from lading.core.errors import Conflict, Forbidden, Invalid, LadingError, NotFound, Unauthenticated
from lading.core.ids import Infix
from lading.core.policy.budgets import Money
from lading.core.policy.quotas import Quota
from lading.core.quantities import format_time
from lading.core.scheduling.immediate_start import starts_at_once
from tests.simulation.quotas import ModelQuotas
from tests.simulation.rules import CORRECT, ServerRules
from tests.simulation.tables import (
    ADMIN_TOKEN,
    ADMIN_USER,
    DISPATCHER_TOKENS,
    ContainerWrite,
    RecordTables,
    token_text,
    uuid_of,
)
from tests.simulation.traffic import Stream

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG: Final = load(
    None,
    {
        "ClusterID": "zzzzz",
        "SystemRootToken": "s" * 50,
        "ManagementToken": "m" * 50,
        "ExternalURL": "https://127.0.0.1:9440/",
        "Collections": {"BlobSigningKey": "k" * 50},
        "Containers": {"MaxDispatchAttempts": 20},
    },
)
POLICY: Final = make_policy(CONFIG)
_EMPTY_BLOCK: Final = "d41d8cd98f00b204e9800998ecf8427e+0"
_LISTS: Final = ("filters", "order", "select", "limit", "offset")
_SHOWN: Final = ("uuid", "state", "priority", "locked_by_uuid")
_KEPT_IN: Final = {Keeps.LOG: "log_uuid", Keeps.OUTPUT: "output_uuid"}
Fields = dict[str, Any]


def content_of(name: str) -> str:
    """The manifest of a collection with one empty file of this name."""
    return f". {_EMPTY_BLOCK} 0:0:{name}\n"


IMAGE_MANIFEST: Final = content_of("sha256:" + "0" * 64 + ".tar")
IMAGE: Final = manifest.portable_data_hash(IMAGE_MANIFEST)
_FACTS: Final = RequestFacts(image_pdh=IMAGE, hashes={}, user_uuid=ADMIN_USER)


def request_body(
    command: Sequence[str],
    *,
    vcpus: int,
    value: int,
    most: int,
    reuses: bool,
    has_api: bool,
    parallel: int = 0,
    owner: str = "",
    runs_workflow: bool = False,
    retry: Fields | None = None,
) -> dict[str, Fields]:
    """The body that makes a Committed request of priority `value`.

    `most` is its container_count_max, `reuses` its use_existing; `parallel`: it belongs to the
    group of which so many containers run at a time. `retry` has its rules for retries.
    """
    scheduling: Fields = {"supervisor": True} if runs_workflow else {}
    if retry:
        scheduling["retry"] = retry
    sizes: Fields = {"vcpus": vcpus, "ram": 1 << 20, "keep_cache_ram": 0}
    return {
        "container_request": {
            "state": "Committed",
            "command": list(command),
            "container_image": IMAGE,
            "output_path": "/out",
            "mounts": {"/out": {"kind": "tmp", "capacity": 1000}},
            "runtime_constraints": sizes | ({"API": True} if has_api else {}),
            "priority": value,
            "container_count_max": most,
            "use_existing": reuses,
            **({"parallel_group": "turns", "max_parallel": parallel} if parallel else {}),
            **({"owner_uuid": owner} if owner else {}),
            **({"scheduling_parameters": scheduling} if scheduling else {}),
        }
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a call, by its token.

    `container` is set for a container's own token, `supervises` for that of its supervisor.
    """

    token_uuid: str
    is_admin: bool = False
    is_dispatcher: bool = False
    container: str | None = None
    supervises: str | None = None


class ModelServer:
    """Records, tokens and connections. `clock` is seconds since START."""

    def __init__(self, clock: Callable[[], float], rules: ServerRules = CORRECT) -> None:
        self.clock = clock
        self.rules = rules
        self.records = RecordTables()
        self.streams: list[Stream] = []
        self._made: Counter[str] = Counter()
        self._minted: dict[str, str] = {}
        self._stale: dict[str, None] = {}
        self.quotas = ModelQuotas(self.records, rules)
        self._routes: dict[tuple[str, str, str], Callable[[Sender, str, Fields], Any]] = {
            ("GET", "api_client_authorizations", ""): self._current_token,
            ("GET", "containers", ""): self._get,
            ("GET", "containers", "auth"): self._auth,
            ("POST", "containers", "lock"): self._lock,
            ("POST", "containers", "unlock"): self._unlock,
            ("POST", "containers", "finish"): self._finish_call,
            ("PUT", "containers", ""): self._update,
            ("POST", "collections", ""): self._save,
            ("POST", "container_requests", ""): self._submit,
            ("PUT", "container_requests", ""): self._update_request,
            ("POST", "container_requests", "cancel"): self._cancel_call,
            ("POST", "dispatch", ""): self._take_report,
            ("POST", "quotas", ""): self._make_quota,
            ("PUT", "quotas", ""): self._change_quota,
            ("DELETE", "quotas", ""): self._remove_quota,
        }

    def call(
        self,
        token: str,
        method: str,
        path: str,
        body: Fields | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON of the answer. `path` is below /arvados/v1/, `params` is the query.

        Raises the error of a refusal.
        """
        sender = self._authenticate(token)
        if (method, path) == ("GET", "containers"):
            return {"items": self._list(sender, params or {})}
        kind, uuid, action = (*path.split("/"), "", "")[:3]
        handler = self._routes.get((method, kind, action))
        if handler is None:
            raise NotFound(f"{method} {path}")
        answer = handler(sender, uuid, body or {})
        self._settle()
        return answer

    def now(self) -> str:
        """The time as the API writes it."""
        return format_time(START + timedelta(seconds=self.clock()))

    def ended_tokens(self, container_uuid: str) -> list[str]:
        """The tokens that a container had in earlier locks."""
        had = [uuid for uuid, of in self._minted.items() if of == container_uuid]
        return [uuid for uuid in had if uuid not in self.records.tokens]

    def text_of(self, token_uuid: str) -> str:
        """A token as its holder sends it."""
        return token_text(token_uuid)

    # Calls.

    def _authenticate(self, token: str) -> Sender:
        uuid = uuid_of(token)
        if uuid == ADMIN_TOKEN or uuid in DISPATCHER_TOKENS:
            return Sender(
                uuid, is_admin=uuid == ADMIN_TOKEN, is_dispatcher=uuid in DISPATCHER_TOKENS
            )
        alive = self.records.tokens if self.rules.fences else self._minted
        container = self.records.containers.get(alive.get(uuid, ""))
        if container is None:
            raise Unauthenticated
        if uuid == container.auth_uuid:
            return Sender(uuid, container=container.uuid)
        return Sender(uuid, supervises=container.uuid)

    def _current_token(self, sender: Sender, _uuid: str, _body: Fields) -> Fields:
        return {"uuid": sender.token_uuid}

    def _take_report(self, _sender: Sender, kind: str, _body: Fields) -> Fields:
        # Of statuses, or of machines, for which there are no orders.
        return {"known": True, "orders": []} if kind == "machines" else {}

    def _get(self, sender: Sender, uuid: str, _body: Fields) -> Fields:
        return self._readable(sender, uuid).shown()

    def _auth(self, sender: Sender, uuid: str, _body: Fields) -> Fields:
        container = self._readable(sender, uuid)
        if sender.token_uuid not in (container.locked_by_uuid, container.supervisor_auth_uuid):
            raise Forbidden("Not locked by your token")
        return {"uuid": container.auth_uuid, "api_token": "x" * 50}

    def _list(self, sender: Sender, params: Mapping[str, str]) -> list[Fields]:
        asked = {name: msgspec.json.decode(params[name]) for name in _LISTS if name in params}
        found = [
            one
            for one in self.records.containers.values()
            if self._is_readable(sender, one)
            if all(_passes(getattr(one, name), *condition) for name, *condition in asked["filters"])
        ]
        for term in reversed(asked.get("order", [])):
            name, _, direction = term.partition(" ")
            found.sort(key=attrgetter(name), reverse=direction == "desc")
        first = asked.get("offset", 0)
        page = found[first : first + asked["limit"]]
        return [{name: getattr(one, name) for name in asked["select"]} for one in page]

    def _lock(self, sender: Sender, uuid: str, body: Fields) -> Fields:
        left = [uuid, *body.get("alternatives", ())]
        passed: list[Fields] = []
        while True:
            able = [one for one in left if _is_lockable(self._container(one))]
            chosen = able[0] if able else left[0]
            before = left[: left.index(chosen)]
            passed += [_brief(self._container(one)) for one in before]
            left = left[len(before) + 1 :]
            try:
                answer = self._lock_one(sender, chosen, body.get("ready_images", ()))
            except Conflict:
                if not left:
                    raise
            else:
                return {**answer, "passed": passed} if body.get("alternatives") else answer

    def _lock_one(self, sender: Sender, uuid: str, images: Collection[str]) -> Fields:
        before = self._container(uuid)
        own, supervisor = self._uuid(Infix.TOKEN), self._uuid(Infix.TOKEN)
        tokens = lifecycle.NewTokens(auth_uuid=own, supervisor_uuid=supervisor)
        change = self.rules.lock(before, caller=_caller(sender, uuid), tokens=tokens)
        try:
            after = self._write(sender, before, change)
        except Conflict:
            # Nothing was changed; its requests wait for the quotas.
            self.records.writes.pop()
            self.quotas.refuse(uuid)
            self._settle()
            raise
        if starts_at_once(after, images):
            running = self.rules.update(
                after, {"state": "Running"}, caller=_caller(sender, uuid), now=self.now()
            )
            after = self._write(sender, after, running)
        known = {
            "container": after.shown(),
            "auth": {"uuid": after.auth_uuid, "api_token": "x" * 50},
        }
        return {
            **_brief(after),
            "supervisor_token": token_text(after.supervisor_auth_uuid or ""),
            "known": known,
        }

    def _unlock(self, sender: Sender, uuid: str, _body: Fields) -> Fields:
        before = self._readable(sender, uuid)
        change = self.rules.unlock(
            before,
            caller=_caller(sender, uuid),
            now=self.now(),
            max_attempts=POLICY.max_dispatch_attempts,
        )
        return _brief(self._write(sender, before, change))

    def _update(self, sender: Sender, uuid: str, body: Fields) -> Fields:
        before, given = self._readable(sender, uuid), body["container"]
        log = given.get("log")
        if sender.supervises == uuid and log is not None and log not in self.records.saved:
            raise Invalid("log: is no collection that the container's user can read")
        output = given.get("output")
        change = self.rules.update(
            before,
            given,
            caller=_caller(sender, uuid),
            now=self.now(),
            max_attempts=POLICY.max_dispatch_attempts,
            output_readable=output is None or output in self.records.saved,
        )
        return _brief(self._write(sender, before, change))

    def _finish_call(self, sender: Sender, uuid: str, body: Fields) -> Fields:
        before = self._readable(sender, uuid)
        if sender.token_uuid not in (before.locked_by_uuid, before.supervisor_auth_uuid):
            raise Forbidden("Forbidden: the end of a container is reported by its supervisor")
        manifests = body["collections"]
        hashes = {name: manifest.portable_data_hash(text) for name, text in manifests.items()}
        change = self.rules.update(
            before, {**body["container"], **hashes}, caller=_caller(sender, uuid), now=self.now()
        )
        self.records.saved.update(hashes.values())
        after = self._write(sender, before, change)
        return {"uuid": uuid, "state": after.state}

    def _make_quota(self, _sender: Sender, _uuid: str, body: Fields) -> Fields:
        uuid = self._uuid(Infix.QUOTA)
        given = dict(body["quota"])
        money = Money(budget=given.pop("budget"))
        self.quotas.set(Quota(uuid=uuid, money=money, **given))
        return {"uuid": uuid}

    def _change_quota(self, _sender: Sender, uuid: str, body: Fields) -> Fields:
        given = dict(body["quota"])
        money = Money(budget=given.pop("budget"))
        self.quotas.set(dataclasses.replace(self._quota(uuid), money=money, **given))
        return {"uuid": uuid}

    def _remove_quota(self, _sender: Sender, uuid: str, _body: Fields) -> Fields:
        self.quotas.remove(self._quota(uuid).subject_uuid)
        return {"uuid": uuid}

    def _quota(self, uuid: str) -> Quota:
        return next(one for one in self.records.quotas.values() if one.uuid == uuid)

    def _save(self, _sender: Sender, _uuid: str, body: Fields) -> Fields:
        pdh = manifest.portable_data_hash(body["collection"]["manifest_text"])
        self.records.saved.add(pdh)
        return {"portable_data_hash": pdh}

    def _submit(self, sender: Sender, _uuid: str, body: Fields) -> Fields:
        parent = None
        if sender.container is not None:
            made_by = self._container(sender.container)
            requests = self.records.requests.values()
            values = [one.priority or 0 for one in requests if one.container_uuid == made_by.uuid]
            parent = Parent(
                container_uuid=made_by.uuid,
                state=made_by.state,
                priority=max(values, default=0),
            )
        change = request.create(
            body["container_request"],
            uuid=self._uuid(Infix.REQUEST),
            owner_uuid=ADMIN_USER,
            user_uuid=ADMIN_USER,
            now=self.now(),
            policy=POLICY,
            parent=parent,
        )
        if any(isinstance(one, Resolve) for one in change.effects):
            change = self._resolve(change)
        self.records.requests[change.request.uuid] = change.request
        return _brief_request(change.request)

    def _update_request(self, _sender: Sender, uuid: str, body: Fields) -> Fields:
        subject = self._request(uuid)
        given = body["container_request"]
        change = request.update(
            subject, given, now=self.now(), policy=POLICY, user_uuid=ADMIN_USER, admin=True
        )
        return _brief_request(self._change_request(change))

    def _cancel_call(self, _sender: Sender, uuid: str, _body: Fields) -> Fields:
        return _brief_request(self._cancel_request(self._request(uuid)))

    # Requests.

    def _resolve(self, change: request.RequestChange) -> request.RequestChange:
        subject = change.request
        made_of = recipe_resolution.resolve(subject, _FACTS, policy=POLICY)
        choice = self.rules.choose(
            made_of,
            self._candidates(made_of) if subject.use_existing else [],
            policy=POLICY,
            use_existing=subject.use_existing,
            waiting=self._waiting(subject.requesting_container_uuid),
        )
        if isinstance(choice, Reuse):
            container = choice.container
            change = request.then(change, request.assign(subject, container.uuid))
            if container.state in FINAL:
                return request.then(change, self._finalize(change.request, container, reused=True))
            self._stale[container.uuid] = None
            return change
        uuid = self._uuid(Infix.CONTAINER)
        change = request.then(change, request.assign(subject, uuid))
        parent = self.records.containers.get(subject.requesting_container_uuid or "")
        known = {parent.uuid: parent.priority} if parent else {}
        # Whether it is its turn is seen once it is there.
        counting = [] if priority.group_of(change.request) else [change.request]
        worth = priority.container_priority(counting, known)
        container = recipe.new_container(made_of, uuid=uuid, now=self.now(), priority=worth)
        if self.quotas.check_new(subject, container):
            # Nor whether there is room.
            container = msgspec.structs.replace(container, priority=0)
            self._stale[uuid] = None
        self._store(container, "")
        return change

    def _candidates(self, made_of: recipe.Recipe) -> list[Candidate]:
        keys = recipe.keys(made_of)
        return [
            Candidate(one, one.log in self.records.saved, one.output in self.records.saved)
            for one in self.records.containers.values()
            if any(
                one.broad_key == key.broad and key.exact in (None, one.reuse_key) for key in keys
            )
        ]

    def _waiting(self, uuid: str | None) -> set[str]:
        """The container that makes a request, and the containers that wait for that one."""
        seen: set[str] = set()
        frontier = [uuid] if uuid else []
        while frontier:
            seen.update(frontier)
            above = {
                one.requesting_container_uuid
                for one in self.records.requests.values()
                if one.container_uuid in frontier and one.requesting_container_uuid
            }
            frontier = [one for one in above if one not in seen]
        return seen

    def _change_request(self, change: request.RequestChange) -> ContainerRequest:
        self.records.requests[change.request.uuid] = change.request
        self._stale |= dict.fromkeys(self.rules.concerned(change))
        return change.request

    def _cancel_request(self, subject: ContainerRequest) -> ContainerRequest:
        container = self.records.containers.get(subject.container_uuid or "")
        state = container.state if container else None
        after = self._change_request(request.cancel(subject, container_state=state))
        if after.state is not subject.state:
            self._charge_for(subject)
        if (
            container is not None
            and after.state is request_phases.RequestState.FINAL
            and state not in FINAL
        ):
            self._abandon(container.uuid)
        return after

    def _charge_for(self, subject: ContainerRequest) -> None:
        """Charge the container that made a request for its earlier attempts."""
        parent = self.records.containers.get(subject.requesting_container_uuid or "")
        if parent is not None and parent.state == "Running" and subject.cumulative_cost > 0:
            cost = parent.subrequests_cost + subject.cumulative_cost
            self._alter(parent.uuid, subrequests_cost=cost)

    def _finalize(
        self,
        subject: ContainerRequest,
        container: Container,
        *,
        reused: bool,
    ) -> request.RequestChange:
        parent = self.records.containers.get(subject.requesting_container_uuid or "")
        end = self.rules.finalize(subject, container, now=self.now(), parent=parent, reused=reused)
        kept = {_KEPT_IN[one.keeps]: "kept" for one in end.collections if one.keeps in _KEPT_IN}
        if end.parent_uuid is not None and parent is not None:
            self._alter(parent.uuid, subrequests_cost=parent.subrequests_cost + end.parent_cost)
        return request.with_values(end.change, kept) if kept else end.change

    # Containers.

    def _write(
        self, sender: Sender, before: Container, change: lifecycle.ContainerChange
    ) -> Container:
        self.records.writes.append(ContainerWrite(sender.token_uuid, before))
        return self._change_container(before, change)

    def _change_container(self, before: Container, change: lifecycle.ContainerChange) -> Container:
        after = change.container
        if change.changed:
            self.quotas.follow(before, after)
            self._store(after, before.state)
            self._warn()
        for effect in change.effects:
            if self.rules.carries_out(effect):
                self._carry_out(effect, after, before)
        return after

    def _warn(self) -> None:
        """Store the warnings of quotas whose money goes to its end."""
        warned, self.quotas.warned = self.quotas.warned, {}
        for uuid, text in warned.items():
            container = self.records.containers[uuid]
            if container.state in HELD:
                self._alter(uuid, runtime_status={**container.runtime_status, "warning": text})

    def _carry_out(self, effect: ContainerEffect, after: Container, before: Container) -> None:
        match effect:
            case MintTokens():
                for uuid in filter(None, (effect.auth_uuid, effect.supervisor_uuid)):
                    self.records.tokens[uuid] = self._minted[uuid] = effect.container_uuid
            case RevokeTokens(uuids):
                for uuid in uuids:
                    self.records.tokens.pop(uuid, None)
            case Finish():
                self._finish(after, before)
            case CancelChildren(uuid):
                self._cancel_children(uuid)
            case Reprioritise(uuids):
                self._stale |= dict.fromkeys(uuids)
            case ReprioritiseChildren():
                self._stale |= dict.fromkeys(self._below([after.uuid]))
            case _:
                raise NotImplementedError(f"the model does not carry out {effect}")

    def _finish(self, after: Container, before: Container) -> None:
        containers = self.records.containers
        left = {one.uuid: one for one in self.records.wanting(after.uuid)}
        # Users have made these Final while it ran.
        ended_before = [
            subject
            for subject in self.records.requests.values()
            if subject.container_uuid == after.uuid
            and subject.state is request_phases.RequestState.FINAL
        ]
        parents = {one.requesting_container_uuid for one in left.values()}
        tried = {uuid for one in left.values() for uuid in one.attempted_container_uuids}
        again = self.rules.retry(
            after,
            list(left.values()),
            before=before,
            parents={uuid: containers[uuid] for uuid in parents if uuid},
            earlier={uuid: containers[uuid] for uuid in tried},
            # As the handlers, which plan no further attempt after a result.
            uuid="" if has_succeeded(after) else self._uuid(Infix.CONTAINER),
            now=self.now(),
            policy=POLICY,
        )
        if again is not None:
            self._store(again.container, "")
            if self.records.quotas:
                self._stale[again.container.uuid] = None
            for change in again.changes:
                subject = left.pop(change.request.uuid)
                if finalize.attempt_log(subject, after, now=self.now()) is not None:
                    change = request.with_values(change, {"log_uuid": "kept"})
                self._change_request(change)
        for subject in left.values():
            self._change_request(self._finalize(subject, after, reused=False))
        for subject in ended_before:
            if finalize.refresh_log(subject, after, now=self.now()) is not None:
                self.records.requests[subject.uuid] = msgspec.structs.replace(
                    subject, log_uuid="kept"
                )

    def _cancel_children(self, container_uuid: str) -> None:
        for uuid in list(self.records.requests):
            # A request may have ended with an earlier one of the list.
            subject = self.records.requests[uuid]
            is_child = subject.requesting_container_uuid == container_uuid
            if is_child and subject.state is request_phases.RequestState.COMMITTED:
                self._cancel_request(subject)

    def _abandon(self, uuid: str) -> None:
        container = self.records.containers[uuid]
        if request.is_abandoned(container.state, self.records.wanting(uuid)):
            reason = "No request needs this container any more."
            change = lifecycle.cancel(container, now=self.now(), reason=reason)
            self._change_container(container, change)

    def _settle(self) -> None:
        """Compute the stale priorities, and those of containers below them, anew."""
        containers = self.records.containers
        turns = self._turns()
        while self._stale or self.quotas.stale or self.quotas.touched:
            self._stale |= self.quotas.stale
            self.quotas.stale = {}
            if not self._stale:
                self.quotas.fill()
                continue
            due, self._stale = self._stale, {}
            frontier = list(due)
            while frontier:
                frontier = [uuid for uuid in self._below(frontier) if uuid not in due]
                due |= dict.fromkeys(frontier)
            live = [uuid for uuid in due if containers[uuid].state in LIVE]
            wanting = [
                one
                for uuid in live
                for one in self.records.wanting(uuid)
                if (key := priority.group_of(one)) is None or uuid in turns[key]
            ]
            parents = {one.requesting_container_uuid for one in wanting}
            named = (*due, *filter(None, parents))
            known = {uuid: containers[uuid].priority for uuid in named}
            wanting = self.quotas.admit(live, wanting, known)
            for uuid, value in self.rules.propagate(known, wanting, recompute=live).items():
                self._alter(uuid, priority=value)

    def _turns(self) -> dict[priority.GroupKey, frozenset[str]]:
        """The containers of each group that may run now; those of which this is new are stale."""
        members: dict[priority.GroupKey, list[priority.GroupMember]] = {}
        for one in self.records.requests.values():
            key, uuid = priority.group_of(one), str(one.container_uuid)
            if key is None or one.state is not request_phases.RequestState.COMMITTED:
                continue
            found = members.setdefault(key, [])
            state = self.records.containers[uuid].state
            if state in HELD or (state in LIVE and (one.priority or 0) > 0):
                found.append(
                    priority.GroupMember(
                        uuid=one.uuid,
                        container_uuid=uuid,
                        priority=one.priority or 0,
                        created_at=one.created_at,
                        most=one.max_parallel,
                        holds=state in HELD,
                    )
                )
        turns = {key: self.rules.take_turns(found) for key, found in members.items()}
        for key, found in members.items():
            for member in found:
                uuid = member.container_uuid
                has_one = self.records.containers[uuid].priority > 0
                if not member.holds and has_one is not (uuid in turns[key]):
                    self._stale[uuid] = None
        return turns

    def _below(self, uuids: Sequence[str]) -> list[str]:
        """The live containers of the Committed requests that these containers made."""
        containers = self.records.containers
        return [
            str(one.container_uuid)
            for one in self.records.requests.values()
            if one.state is request_phases.RequestState.COMMITTED
            and containers[str(one.container_uuid)].state in LIVE
            and any(self.rules.below(containers[uuid], one) for uuid in uuids)
        ]

    def _alter(self, uuid: str, **values: Any) -> None:
        before = self.records.containers[uuid]
        self._store(msgspec.structs.replace(before, **values), before.state)

    def _store(self, container: Container, old: str) -> None:
        self.records.containers[container.uuid] = container
        if self.streams:
            states = {
                "old_attributes": {"state": old},
                "new_attributes": {"state": container.state.value},
            }
            kind = "update" if old else "create"
            self.publish(
                RecordEvent(
                    event_type=kind,
                    object_uuid=container.uuid,
                    object_kind="arvados#container",
                    properties=states,
                )
            )

    def publish(self, event: RecordEvent) -> None:
        """Send an event to all streams whose dispatchers may hear of it."""
        for stream in self.streams:
            if self._may_hear(stream.token, event):
                stream.send(event)

    def _may_hear(self, token: str, event: RecordEvent) -> bool:
        sides = (event.properties.get(one) for one in ("old_attributes", "new_attributes"))
        if any(isinstance(one, dict) and one.get("state") == "Queued" for one in sides):
            return True
        container = self.records.containers.get(event.object_uuid)
        sender = Sender(token, is_dispatcher=bool(token))
        return container is None or self._is_readable(sender, container)

    def _is_readable(self, sender: Sender, container: Container) -> bool:
        caller = _caller(sender, container.uuid)
        return not sender.is_dispatcher or self.rules.concerns(container, caller)

    def _readable(self, sender: Sender, uuid: str) -> Container:
        container = self._container(uuid)
        if not self._is_readable(sender, container):
            raise NotFound(f"{uuid}: not found")
        return container

    def _container(self, uuid: str) -> Container:
        if uuid not in self.records.containers:
            raise NotFound(f"{uuid}: not found")
        return self.records.containers[uuid]

    def _request(self, uuid: str) -> ContainerRequest:
        if uuid not in self.records.requests:
            raise NotFound(f"{uuid}: not found")
        return self.records.requests[uuid]

    def _uuid(self, infix: str) -> str:
        self._made[infix] += 1
        return f"zzzzz-{infix}-{self._made[infix]:015d}"


def refusal(error: LadingError) -> tuple[int, bytes]:
    """Status and body of a refusal."""
    return error.status, msgspec.json.encode({"errors": [error.message]})


def _caller(sender: Sender, container_uuid: str) -> ContainerWriter:
    return ContainerWriter(
        token_uuid=sender.token_uuid,
        is_admin=sender.is_admin,
        is_dispatcher=sender.is_dispatcher,
        is_own=sender.container == container_uuid,
    )


def _is_lockable(one: Container) -> bool:
    return one.state == "Queued" and one.priority > 0


def _brief(one: Container) -> Fields:
    return {name: getattr(one, name) for name in _SHOWN}


def _brief_request(one: ContainerRequest) -> Fields:
    return {name: getattr(one, name) for name in ("uuid", "state", "priority", "container_uuid")}


def _passes(value: Any, operator: str, operand: Any) -> bool:
    if operator == "in":
        return value in operand
    return bool(value == operand if operator == "=" else value > operand)
