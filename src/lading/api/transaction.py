"""Carrying out what `core` decides about containers and requests, in one transaction.

A `Ledger` lives as long as one transaction. It applies changes with compare-and-set, writes the
trail, and carries out effects in the order in which they are listed: tokens, log collections,
retries, finalisation, the cascade to children. Priorities are settled once, at the end, and so are
requests that depend on others that ended. Changes of state and priority are kept as intervals of
allocation. Source: docs/spec/api, sections Container requests, Priority and Retries and results;
the docstrings of `core`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from lading.api.collection_builder import keep, keep_one
from lading.api.events import audit
from lading.api.services import Services, hash_secret
from lading.core.containers import finalize, lifecycle, priority, request, retry, waiting
from lading.core.containers.container import FINAL, HELD, LIVE, Container, State
from lading.core.containers.effects import (
    CancelChildren,
    ContainerEffect,
    Finish,
    MintTokens,
    RefreshLog,
    Reprioritise,
    ReprioritiseChildren,
    RevokeTokens,
)
from lading.core.containers.finalize import Keeps
from lading.core.containers.request import ContainerRequest
from lading.core.containers.waiting import Dependency, Judgement, Standing
from lading.core.json_values import JsonObject
from lading.core.records import access
from lading.core.records.record_types import CONTAINERS, REQUESTS, TOKENS
from lading.core.records.schema import JSON, Record, RecordType
from lading.store import accounting, attempts, containers, lineage, permissions, records, tokens
from lading.store import waiting as waits
from lading.store.database import Transaction

_KEPT_IN: Final = {Keeps.LOG: "log_uuid", Keeps.OUTPUT: "output_uuid"}
_ACCOUNTED: Final = ("state", "priority", "container_uuid")
ABANDONED: Final = "No request wants this container any more."


class Ledger:
    """The changes of one transaction on behalf of one user."""

    def __init__(self, tx: Transaction, services: Services, *, user_uuid: str) -> None:
        self.tx = tx
        self.services = services
        self.user_uuid = user_uuid
        self.now = services.now()
        self._stale: dict[str, None] = {}
        self._over: dict[str, None] = {}
        self._made: set[str] = set()

    async def container(self, uuid: str) -> Record | None:
        """A container's row."""
        return await records.get(self.tx, CONTAINERS, uuid)

    async def change_container(self, old: Record, change: lifecycle.Change) -> Record:
        """Store a container's change and carry out its effects; the new row. Raises Conflict when
        it came too late.
        """
        new = await self._store_container(old, change.changed, expected=change.expected)
        for effect in change.effects:
            await self._carry_out(effect, change.container, Container.from_record(old))
        return new

    async def change_request(self, old: Record, change: request.Change) -> Record:
        """Store a request's change; what its effects make stale is settled later. The new row."""
        new = old
        if change.changed:
            new = await self._write(REQUESTS, old, change.changed, change.expected)
        self.note(change)
        await self.follow(old, new)
        return new

    async def follow(self, old: Record | None, new: Record) -> None:
        """What follows from a request that was changed, or made (`old` None): intervals, moments,
        who depends on it.
        """
        was: Record = old or {}
        if any(was.get(name) != new[name] for name in _ACCOUNTED):
            await self._account_request(was, new)
        if any(was.get(name) != new[name] for name in ("expires_at", "start_after", "state")) and (
            new["expires_at"] or new["start_after"]
        ):
            self.tx.after_commit(self.services.alarm.wake)
        if new["attempted_container_uuids"] != was.get("attempted_container_uuids", []):
            await attempts.note(self.tx, new)
        if new["resolving"] and not was.get("resolving"):
            self.tx.after_commit(self.services.alarm.seek)
        if old is not None and new["state"] == request.State.FINAL != old["state"]:
            self.over(new["uuid"])
            if new["depends_on"]:
                await waits.unwatch(self.tx, new["uuid"])

    async def removed(self, row: Record) -> None:
        """What follows from a request that was deleted."""
        self.over(row["uuid"])
        await waits.unwatch(self.tx, row["uuid"])
        await attempts.forget(self.tx, row["uuid"])
        if row["container_uuid"] is not None:
            await accounting.end(self.tx, row["container_uuid"], self.now, request_uuid=row["uuid"])
        if row["state"] == request.State.COMMITTED:
            await self.charge(ContainerRequest.from_record(row))

    def over(self, request_uuid: str) -> None:
        """A request has ended, or is gone: those that depend on it are to be looked at."""
        self._over[request_uuid] = None

    def note(self, change: request.Change) -> None:
        """Remember whose priority a change may have changed."""
        for effect in change.effects:
            if isinstance(effect, Reprioritise):
                self.stale(effect.container_uuids)

    async def restand(self, group_uuid: str) -> None:
        """A project, or one above it, went into the trash or came out: what runs for those in it is
        to be looked at.
        """
        groups = [uuid for uuid, _ in await permissions.below(self.tx, group_uuid)]
        self.stale(await containers.wanted_by(self.tx, groups))

    def stale(self, container_uuids: Iterable[str]) -> None:
        """The priorities of these containers are to be computed anew."""
        self._stale |= dict.fromkeys(container_uuids)

    async def add_container(self, container: Container) -> Record:
        """Store a new container."""
        row: Record = {
            **container.to_record(),
            "owner_uuid": self.services.system_user,
            "created_at": self.now,
            "modified_at": self.now,
            "modified_by_user_uuid": self.services.system_user,
        }
        await records.add(self.tx, CONTAINERS, row)
        await lineage.note_inputs(self.tx, row)
        await audit.created(self.tx, self.services, CONTAINERS, row, user_uuid=self.user_uuid)
        self._made.add(container.uuid)
        return row

    async def resize(self, container: Container, values: JsonObject) -> None:
        """Store other sizes of a container that waits. Raises Conflict when it does not any
        more.
        """
        row = await self.container(container.uuid)
        if row is not None and values:
            await self._store_container(row, values, expected={"state": container.state})

    async def judge(self, subject: ContainerRequest, *, new: bool = False) -> Judgement:
        """Whether a request counts now; `new`: it is being committed."""
        return (await self._judge([subject], new=new))[subject.uuid]

    async def fail(self, row: Record, reason: str) -> Record:
        """End a Committed request that can never be run, and say why; nobody else loses its
        container.
        """
        subject = ContainerRequest.from_record(row)
        new = await self.change_request(row, request.fail(subject))
        await self.charge(subject)
        await audit.note(self.tx, self.services, row, "end", reason, {"reason": reason})
        if subject.container_uuid is not None:
            await self.abandon(subject.container_uuid, reason=reason)
        return new

    async def charge(self, subject: ContainerRequest) -> None:
        """Charge the container that asked for a request, which ends without its container having
        ended.
        """
        if subject.requesting_container_uuid is not None and subject.cumulative_cost > 0:
            row = await self.container(subject.requesting_container_uuid)
            if row is not None and row["state"] == State.RUNNING:
                await self._charge(row["uuid"], row["subrequests_cost"] + subject.cumulative_cost)

    async def finalize(
        self, subject: ContainerRequest, container: Container | None, *, reused: bool
    ) -> request.Change:
        """End a request: keep its collections, charge who asked for it. The change of the request,
        not yet stored.
        """
        parent = None
        if subject.requesting_container_uuid is not None:
            row = await self.container(subject.requesting_container_uuid)
            parent = Container.from_record(row) if row else None
        keeps = not await self._closed(subject)
        end = finalize.finalize(
            subject, container, now=self.now, parent=parent, reused=reused, keep_collections=keeps
        )
        kept: JsonObject = {}
        uuids = await keep(self.tx, self.services, end.collections, user_uuid=self.user_uuid)
        for plan, uuid in zip(end.collections, uuids, strict=True):
            if uuid is not None and plan.keeps in _KEPT_IN:
                kept[_KEPT_IN[plan.keeps]] = uuid
        if end.parent_uuid is not None and parent is not None:
            await self._charge(end.parent_uuid, parent.subrequests_cost + end.parent_cost)
        return request.with_values(end.change, kept) if kept else end.change

    async def abandon(self, container_uuid: str, *, reason: str = ABANDONED) -> None:
        """Cancel a container that has not started and that no Committed request points at."""
        row = await self.container(container_uuid)
        if row is None:
            return
        container = Container.from_record(row)
        wanting = await self._committed(container_uuid)
        if request.is_abandoned(container.state, (subject for _, subject in wanting)):
            await self.change_container(
                row, lifecycle.cancel(container, now=self.now, reason=reason)
            )

    async def settle(self) -> None:
        """Look at all that depends on what ended; then bring stale priorities, and those below
        them, up to date.
        """
        while self._over or self._stale:
            if self._over:
                await self._release_dependents()
            else:
                await self._settle_priorities()

    async def _release_dependents(self) -> None:
        over = list(self._over)
        self._over.clear()
        for ended in over:
            for uuid in await waits.dependents(self.tx, ended):
                row = await records.get(self.tx, REQUESTS, uuid)
                if row is None or row["state"] != request.State.COMMITTED:
                    await waits.unwatch(self.tx, uuid)
                    continue
                judgement = await self.judge(ContainerRequest.from_record(row))
                if judgement.standing is Standing.BROKEN:
                    await self.fail(row, judgement.sentence)
                elif row["container_uuid"] is not None:
                    self.stale([row["container_uuid"]])
                elif judgement.standing in (Standing.READY, Standing.EARLY):
                    await waits.unwatch(self.tx, uuid)

    async def _settle_priorities(self) -> None:
        due = dict(self._stale)
        self._stale.clear()
        frontier = list(due)
        while frontier:
            below = await containers.wanted_below(self.tx, frontier)
            frontier = [uuid for uuid in below if uuid not in due]
            due |= dict.fromkeys(frontier)
        rows = {row["uuid"]: row for row in await records.among(self.tx, CONTAINERS, "uuid", due)}
        recompute = [uuid for uuid, row in rows.items() if row["state"] in LIVE]
        wanting = [
            ContainerRequest.from_record(row)
            for row in await records.among(self.tx, REQUESTS, "container_uuid", recompute)
            if row["state"] == request.State.COMMITTED
        ]
        judgements = await self._judge(wanting)
        for subject in wanting:
            if subject.depends_on and judgements[subject.uuid].standing in (
                Standing.READY,
                Standing.EARLY,
            ):
                await waits.unwatch(self.tx, subject.uuid)
        trashed = await self._trashed(wanting)
        wanting = [
            subject
            for subject in wanting
            if judgements[subject.uuid].counts and subject.owner_uuid not in trashed
        ]
        priorities = {uuid: row["priority"] for uuid, row in rows.items()}
        parents = {subject.requesting_container_uuid for subject in wanting} - {None, *priorities}
        for row in await records.among(
            self.tx, CONTAINERS, "uuid", (uuid for uuid in parents if uuid)
        ):
            priorities[row["uuid"]] = row["priority"]
        for uuid, value in priority.propagate(priorities, wanting, recompute=recompute).items():
            await self._store_container(rows[uuid], {"priority": value}, expected={})

    async def _judge(
        self, subjects: list[ContainerRequest], *, new: bool = False
    ) -> dict[str, Judgement]:
        """How requests stand. One that has ceased to wait for others does not wait again, whatever
        becomes of them.
        """
        depending = [one.uuid for one in subjects if one.depends_on]
        waiting_ones = set(depending) if new else await waits.watching(self.tx, depending)
        subjects = [
            replace(one, depends_on=[]) if one.depends_on and one.uuid not in waiting_ones else one
            for one in subjects
        ]
        named = dict.fromkeys(uuid for one in subjects for uuid in one.depends_on)
        found = await records.among(self.tx, REQUESTS, "uuid", named)
        others = {row["uuid"]: ContainerRequest.from_record(row) for row in found}
        wanted = {one.container_uuid for one in others.values() if one.container_uuid}
        rows = await records.among(self.tx, CONTAINERS, "uuid", sorted(wanted))
        held = {row["uuid"]: Container.from_record(row) for row in rows}
        known = {
            uuid: Dependency(one, held.get(one.container_uuid or ""))
            for uuid, one in others.items()
        }
        return {one.uuid: waiting.judge(one, known, now=self.now) for one in subjects}

    async def _trashed(self, subjects: Iterable[ContainerRequest]) -> set[str]:
        """The owners that are projects in the trash: their requests count as priority 0.

        Source: docs/spec/api, section Priority.
        """
        found = await permissions.standings(self.tx, (one.owner_uuid for one in subjects))
        return {
            uuid
            for uuid, one in found.items()
            if one.trash_at is not None and one.trash_at <= self.now
        }

    async def _closed(self, subject: ContainerRequest) -> bool:
        """Whether its owner is a project in the trash or a frozen one, into which no collection is
        put.
        """
        found = (await permissions.standings(self.tx, [subject.owner_uuid])).get(subject.owner_uuid)
        return found is not None and (
            found.frozen or (found.trash_at is not None and found.trash_at <= self.now)
        )

    async def parent_priorities(self, subject: ContainerRequest) -> dict[str, int | None]:
        """The priority of the container that made a request."""
        uuid = subject.requesting_container_uuid
        row = await self.container(uuid) if uuid else None
        return {row["uuid"]: row["priority"]} if row else {}

    async def _carry_out(
        self, effect: ContainerEffect, after: Container, before: Container
    ) -> None:
        match effect:
            case MintTokens():
                await self._mint(effect)
            case RevokeTokens(token_uuids):
                for uuid in token_uuids:
                    await tokens.expire(self.tx, uuid, self.now)
            case RefreshLog():
                await self._refresh_logs(after)
            case Finish():
                await self._finish(after, before)
            case CancelChildren(uuid):
                await self._cancel_children(uuid)
            case ReprioritiseChildren(uuid):
                self.stale(await containers.wanted_below(self.tx, [uuid]))

    async def _mint(self, effect: MintTokens) -> None:
        system = self.services.system_user
        if effect.auth_uuid is not None:
            await self._token(effect.auth_uuid, effect.user_uuid or system, effect.scopes, None)
        scopes = access.supervisor_scopes(effect.container_uuid)
        await self._token(effect.supervisor_uuid, system, scopes, effect.container_uuid)

    async def _token(
        self, uuid: str, owner: str, scopes: tuple[str, ...], container_uuid: str | None
    ) -> None:
        row: Record = {
            "uuid": uuid,
            "owner_uuid": owner,
            "created_at": self.now,
            "modified_at": self.now,
            "modified_by_user_uuid": self.user_uuid,
            "scopes": list(scopes),
            "secret_hash": hash_secret(self.services.container_secret(uuid)),
            "container_uuid": container_uuid,
        }
        await records.add(self.tx, TOKENS, row)

    async def _refresh_logs(self, container: Container) -> None:
        for row, subject in await self._committed(container.uuid):
            if await self._closed(subject):
                continue
            plan = finalize.refresh_log(subject, container, now=self.now)
            uuid = await keep_one(self.tx, self.services, plan, user_uuid=self.user_uuid)
            if uuid is not None and uuid != subject.log_uuid:
                await self._write(REQUESTS, row, {"log_uuid": uuid}, {})

    async def _finish(self, after: Container, before: Container) -> None:
        wanting = await self._committed(after.uuid)
        rows = {subject.uuid: row for row, subject in wanting}
        left = {subject.uuid: subject for _, subject in wanting}
        trashed = await self._trashed(left.values())
        again = retry.plan(
            after,
            [one for one in left.values() if one.owner_uuid not in trashed],
            before=before,
            parents=await self._parents(left.values()),
            earlier=await self._earlier(left.values()),
            uuid=self.services.new_uuid(CONTAINERS.infix),
            now=self.now,
            policy=self.services.policy,
        )
        if again is not None:
            await self.add_container(again.container)
            for change in again.changes:
                subject = left.pop(change.request.uuid)
                plan = (
                    None
                    if await self._closed(subject)
                    else finalize.attempt_log(subject, after, now=self.now)
                )
                uuid = await keep_one(self.tx, self.services, plan, user_uuid=self.user_uuid)
                await self.change_request(
                    rows[subject.uuid],
                    request.with_values(change, {"log_uuid": uuid}) if uuid else change,
                )
        for subject in left.values():
            await self.change_request(
                rows[subject.uuid], await self.finalize(subject, after, reused=False)
            )
        await self.services.statuses.forget(self.tx, after.uuid)
        self.tx.after_commit(lambda: self._forget(after))

    def _forget(self, ended: Container) -> None:
        if ended.log is not None:
            self.services.spool.remove(ended.uuid)

    async def _earlier(self, subjects: Iterable[ContainerRequest]) -> dict[str, Container]:
        """The containers that were tried before, by uuid."""
        uuids = {uuid for one in subjects for uuid in one.attempted_container_uuids}
        rows = await records.among(self.tx, CONTAINERS, "uuid", sorted(uuids)) if uuids else []
        return {row["uuid"]: Container.from_record(row) for row in rows}

    async def _parents(self, subjects: Iterable[ContainerRequest]) -> dict[str, Container]:
        wanted = {one.requesting_container_uuid for one in subjects} - {None}
        rows = await records.among(self.tx, CONTAINERS, "uuid", (uuid for uuid in wanted if uuid))
        return {row["uuid"]: Container.from_record(row) for row in rows}

    async def _cancel_children(self, container_uuid: str) -> None:
        rows = await records.matching(
            self.tx,
            REQUESTS,
            requesting_container_uuid=container_uuid,
            state=request.State.COMMITTED,
        )
        for row in rows:
            # An earlier child may have ended this one meanwhile.
            fresh = await records.get(self.tx, REQUESTS, row["uuid"])
            if fresh is not None and fresh["state"] == request.State.COMMITTED:
                await self.cancel(fresh)

    async def cancel(self, row: Record) -> Record:
        """Cancel a request, and its container if that has not started and nobody else wants it."""
        subject = ContainerRequest.from_record(row)
        container = await self.container(subject.container_uuid) if subject.container_uuid else None
        state = Container.from_record(container).state if container else None
        new = await self.change_request(row, request.cancel(subject, container_state=state))
        if new["state"] != row["state"]:
            await self.charge(subject)
        if (
            subject.container_uuid is not None
            and new["state"] == request.State.FINAL
            and state not in FINAL
        ):
            await self.abandon(subject.container_uuid)
        return new

    async def _committed(self, container_uuid: str) -> list[tuple[Record, ContainerRequest]]:
        rows = await records.matching(
            self.tx, REQUESTS, container_uuid=container_uuid, state=request.State.COMMITTED
        )
        return [(row, ContainerRequest.from_record(row)) for row in rows]

    async def _charge(self, container_uuid: str, cost: float) -> None:
        row = await self.container(container_uuid)
        if row is not None:
            await self._store_container(row, {"subrequests_cost": cost}, expected={})

    async def _store_container(
        self, old: Record, changed: JsonObject, *, expected: JsonObject
    ) -> Record:
        return await self._write(CONTAINERS, old, changed, expected) if changed else old

    async def _write(
        self, kind: RecordType, old: Record, changed: JsonObject, expected: JsonObject
    ) -> Record:
        real: Record = {**changed, "modified_at": self.now, "modified_by_user_uuid": self.user_uuid}
        await records.change(self.tx, kind, old["uuid"], real, expected=expected)
        new = {**old, **real}
        await audit.changed(self.tx, self.services, kind, old, new, user_uuid=self.user_uuid)
        if kind is CONTAINERS and new["state"] != old["state"]:
            await self._account_container(old, new)
        return new

    async def _account_container(self, old: Record, new: Record) -> None:
        if old["state"] in HELD:
            ended = new["finished_at"] if new["state"] in FINAL else self.now
            await accounting.end(self.tx, new["uuid"], ended)
        if new["state"] in HELD:
            await accounting.begin_all(self.tx, new["uuid"], new["state"], self.now)

    async def _account_request(self, old: Record, new: Record) -> None:
        if old.get("container_uuid") and old["state"] == request.State.COMMITTED:
            await accounting.end(self.tx, old["container_uuid"], self.now, request_uuid=new["uuid"])
        uuid = new["container_uuid"]
        if uuid is None or uuid in self._made or new["state"] != request.State.COMMITTED:
            return
        container = await self.container(uuid)
        if container is not None and container["state"] in HELD:
            await self._begin(new, container["state"])

    async def _begin(self, row: Record, state: JSON) -> None:
        interval = accounting.Interval(
            request_uuid=row["uuid"],
            user_uuid=row["committed_by_uuid"] or row["owner_uuid"],
            priority=row["priority"] or 0,
            state=state,
            started_at=self.now,
        )
        await accounting.begin(self.tx, row["container_uuid"], interval)
