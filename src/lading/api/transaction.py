"""The unit of work: changes of containers and requests in one transaction, with all their effects.

`core` decides: it returns a change and its effects (`core.containers.container`). A `UnitOfWork`
stores the change with compare-and-set, writes its log rows, and carries out each effect in the
`match` of `UnitOfWork._carry_out`, in the order in which the effects are listed. The work of an
effect is in the module of its subject:

- `container_assignment`: a request gets a container, an earlier one or a new one.
- `completion`: a container has ended; its requests are retried or become Final; intervals of
  allocation, and costs.
- `priorities`: whether a request counts, and the priority of containers.

Priorities are computed once, by `settle` at the end of the transaction, and so are the requests
that depend on requests that ended.

Source: docs/spec/containers, sections Request states, Priority and Retry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from lading.api import completion, container_assignment, priorities, quotas
from lading.api.container_assignment import AssignmentChoice
from lading.api.events import audit
from lading.api.fair_shares import FairShares
from lading.api.resources.repositories import NO_TREES, Trees
from lading.api.services import ApiServices, hash_secret
from lading.core.containers import lifecycle, priority, request
from lading.core.containers.container import (
    FINAL,
    HELD,
    Adopt,
    CancelChildren,
    Confirm,
    Container,
    ContainerEffect,
    Finish,
    MintTokens,
    RefreshLog,
    Reprioritise,
    ReprioritiseChildren,
    RequestEffect,
    Resolve,
    RevokeTokens,
)
from lading.core.containers.priority import GroupKey
from lading.core.containers.request import ContainerRequest
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.log_rows import LogRowType
from lading.core.records.record_types import CONTAINERS, REQUESTS, TOKENS
from lading.core.records.schema import Record, RecordType
from lading.core.values import JsonObject
from lading.store import containers, contents, records
from lading.store import waiting as waits
from lading.store.database import Transaction
from lading.tracing import current_traceparent

ABANDONED: Final = "No request needs this container any more."


@dataclass(frozen=True, slots=True)
class Transition:
    """Target of the effects of a container's change: the container before and after it."""

    before: Container
    after: Container


@dataclass(slots=True)
class Commit:
    """Target of the effects of a request's change that is not stored yet; they extend the change.

    `trees` are the git trees of its mounts; `is_early` while these are still being fetched,
    `awaits_output` while a request has not ended whose output it mounts. `ahead` is what
    `container_assignment.look_ahead` found.
    """

    change: request.RequestChange
    principal: Principal
    trees: Trees
    ahead: AssignmentChoice | None
    is_early: bool
    awaits_output: bool = False


_Target: TypeAlias = Transition | Commit | request.RequestChange


class UnitOfWork:
    """The changes of one transaction on behalf of one user."""

    def __init__(self, tx: Transaction, services: ApiServices, *, user_uuid: str) -> None:
        self.tx = tx
        self.services = services
        self.user_uuid = user_uuid
        # One time for all rows of the transaction.
        self.now = services.now()
        self.made: set[str] = set()
        """Uuids of the containers that were made in this transaction."""
        self.shares: FairShares | None = None
        """The accounts of fair share; None where it is off."""
        if services.config.Containers.FairShare.Enabled:
            self.shares = FairShares(self)
        self._stale: dict[str, None] = {}
        self._ended: dict[str, None] = {}
        self._groups: dict[GroupKey, None] = {}
        self._touched: dict[str, None] = {}
        self.ledger = quotas.Ledger(tx, services.config.ClusterID)
        self.queued: dict[str, int] = {}
        """Requests that wait, of subjects whose quota limits them, as far as they were counted."""

    async def _carry_out(self, effect: ContainerEffect | RequestEffect, target: _Target) -> None:
        """Carry out one effect that `core` returned with the change of `target`."""
        match effect, target:
            case MintTokens() as minting, _:
                await self._mint_tokens(minting)
            case RevokeTokens(token_uuids), _:
                await self._revoke_tokens(token_uuids)
            case RefreshLog(), Transition(after=after):
                await completion.refresh_logs(self, after)
            case Finish(), Transition(before=before, after=after):
                await completion.finish(self, before, after)
            case CancelChildren(uuid), _:
                await completion.cancel_children(self, uuid)
            case ReprioritiseChildren(uuid), _:
                self.stale(await containers.wanted_below(self.tx, [uuid]))
            case Reprioritise(uuids), _:
                self.stale(uuids)
            case Resolve() | Confirm(), Commit(awaits_output=True):
                pass  # `completion.release_dependents` has the container found later.
            case Resolve() | Confirm(), Commit(is_early=True) as commit:
                commit.change = container_assignment.defer(commit.change, commit.principal)
            case Resolve(), Commit(change, principal, trees, ahead) as commit:
                commit.change = await container_assignment.resolve(
                    self, change, principal, trees, ahead
                )
            case Adopt(uuid), Commit(change, principal, trees) as commit:
                commit.change = await container_assignment.adopt(
                    self, change, principal, uuid, trees
                )
            case Confirm(uuid), Commit(change, principal, trees) as commit:
                commit.change = await container_assignment.confirm(
                    self, change, principal, uuid, trees
                )
            case Resolve() | Adopt() | Confirm(), request.RequestChange():
                pass  # `commit` carried them out before the request was stored.
            case _:
                raise TypeError(f"{effect} is no effect of the change of a {type(target).__name__}")

    async def change_container(self, old: Record, change: lifecycle.ContainerChange) -> Record:
        """Store a container's change and carry out its effects; the new row. Raises Conflict when
        the stored container is not the expected one any more.
        """
        # The record first: effects read it, and Conflict ends the transaction before any of them.
        new = await self.write_container(old, change.changed, expected=change.expected)
        target = Transition(Container.from_record(old), change.container)
        for effect in change.effects:
            await self._carry_out(effect, target)
        return new

    async def change_request(self, old: Record, change: request.RequestChange) -> Record:
        """Store a request's change and carry out its effects; the new row. Raises Conflict."""
        new = old
        if change.changed:
            new = await self._write(REQUESTS, old, change.changed, change.expected)
        for effect in change.effects:
            await self._carry_out(effect, change)
        await self.follow(old, new)
        return new

    async def commit(
        self,
        change: request.RequestChange,
        principal: Principal,
        trees: Trees | None = NO_TREES,
        ahead: AssignmentChoice | None = None,
    ) -> request.RequestChange:
        """The change of a request, to be stored, with a container assigned; the request is Final if
        that container has ended, or if a request that it depends on did not end well.

        `trees` are its git trees, None while they are fetched: then the request has no container
        yet; `ahead` is what `container_assignment.look_ahead` found. Raises Invalid when the image
        or an input cannot be read, or nothing can satisfy the request.
        """
        # Before a container is looked for: a request that ends at once needs none.
        if asks_for_container(change) and await container_assignment.is_over(self, change):
            return request.then(change, request.fail(change.request))
        commit = Commit(change, principal, trees or NO_TREES, ahead, is_early=trees is None)
        if asks_for_container(change):
            commit.awaits_output = await container_assignment.waits_for_output(
                self, change.request, principal
            )
        if commit.is_early or commit.awaits_output:
            # Else once its container is known: a result that exists is given in any case.
            await quotas.check_commit(self, change)
        for effect in change.effects:
            await self._carry_out(effect, commit)
        return commit.change

    async def add_request(self, change: request.RequestChange) -> Record:
        """Store a new request whose change was committed (`commit`); its row."""
        row: Record = {**change.request.to_record(), "modified_at": self.now}
        await records.add(self.tx, REQUESTS, row)
        await audit.created(self.tx, self.services, REQUESTS, row, user_uuid=self.user_uuid)
        await self.follow(None, row)
        return row

    async def follow(self, old: Record | None, new: Record) -> None:
        """Carry out the consequences of a request's change or creation (`old` None): intervals of
        allocation, timers, attempts, dependents.
        """
        was: Record = old or {}
        await completion.follow_request(self, was, new)
        self._set_timers(was, new)
        if new["attempted_container_uuids"] != was.get("attempted_container_uuids", []):
            await containers.note_attempts(self.tx, new)
        if any(was.get(name) != new[name] for name in _TURNS):
            self._regroup(new)
        if old is not None and new["state"] == request.RequestState.FINAL != old["state"]:
            # `settle` releases the dependents once this change is complete.
            self._ended[new["uuid"]] = None
            if new["depends_on"]:
                await waits.unwatch(self.tx, new["uuid"])

    def _regroup(self, row: Record) -> None:
        """Have `settle` look whose turn it is in the group of a request."""
        if row["max_parallel"]:
            key = priority.group_of(ContainerRequest.from_record(row))
            if key is not None:
                self._groups[key] = None

    def _set_timers(self, was: Record, new: Record) -> None:
        timers = self.services.wakeups
        if any(was.get(name) != new[name] for name in ("state", *_TIMES)) and any(
            new[name] for name in _TIMES
        ):
            # After the commit: a timer that reads the record earlier would not see the new time.
            self.tx.after_commit(timers.wake)
        if new["resolving"] and not was.get("resolving"):
            self.tx.after_commit(timers.seek)

    async def removed(self, row: Record) -> None:
        """Carry out the consequences of a request's deletion."""
        self._ended[row["uuid"]] = None
        self._regroup(row)
        await waits.unwatch(self.tx, row["uuid"])
        # Its rows in other tables go with it; its dependents end in `settle`.
        await containers.forget_attempts(self.tx, row["uuid"])
        await completion.end_request(self, row)
        await quotas.end_tree(self, row["uuid"])
        if row["state"] == request.RequestState.COMMITTED:
            await completion.charge_parent(self, ContainerRequest.from_record(row))

    async def fail(self, row: Record, reason: str) -> Record:
        """End a Committed request that can never be run, and log the reason; other requests keep
        its container.
        """
        subject = ContainerRequest.from_record(row)
        new = await self.change_request(row, request.fail(subject))
        await completion.charge_parent(self, subject)
        await audit.note(self.tx, self.services, row, LogRowType.END, reason, {"reason": reason})
        if subject.container_uuid is not None:
            # After the request is Final: a Committed request would keep the container.
            await self.abandon(subject.container_uuid, reason=reason)
        return new

    async def cancel(self, row: Record) -> Record:
        """Cancel a request, and its container if that has not started and no other request wants
        it.
        """
        subject = ContainerRequest.from_record(row)
        container = await self.container(subject.container_uuid) if subject.container_uuid else None
        # The state before the change: the request ends at once only where the container has not
        # started.
        state = Container.from_record(container).state if container else None
        new = await self.change_request(row, request.cancel(subject, container_state=state))
        if new["state"] != row["state"]:
            await completion.charge_parent(self, subject)
        if (
            subject.container_uuid is not None
            and new["state"] == request.RequestState.FINAL
            and state not in FINAL
        ):
            await self.abandon(subject.container_uuid)
        return new

    async def release(self, subject: ContainerRequest) -> None:
        """End the interest of a request in its former container: cancel the container if no request
        needs it, else compute its priority anew.
        """
        if subject.container_uuid is not None:
            self.stale([subject.container_uuid])
            await self.abandon(subject.container_uuid)

    async def abandon(self, container_uuid: str, *, reason: str = ABANDONED) -> None:
        """Cancel a container that has not started and that no Committed request points at."""
        row = await self.container(container_uuid)
        if row is None:
            return
        container = Container.from_record(row)
        # Read again, within the transaction: another request may have joined the container.
        wanting = await self.committed(container_uuid)
        if request.is_abandoned(container.state, (subject for _, subject in wanting)):
            await self.change_container(
                row, lifecycle.cancel(container, now=self.now, reason=reason)
            )

    def stale(self, container_uuids: Iterable[str]) -> None:
        """Have `settle` compute the priorities of these containers anew."""
        # Computed once at the end: many changes of a transaction concern the same few containers.
        self._stale |= dict.fromkeys(container_uuids)

    def touch(self, subjects: Iterable[str]) -> None:
        """Have `settle` look at the requests that wait for the quotas of these subjects."""
        self._touched |= dict.fromkeys(subjects)

    async def settle(self) -> None:
        """Release or end the requests that depend on ended requests; then compute stale priorities,
        and those below them, anew.
        """
        # Each pass may end further requests, or make further priorities stale; a chain of
        # dependencies ends one link in each.
        while self._ended or self._stale or self._groups or self._touched:
            if self._ended:
                ended, self._ended = self._ended, {}
                await completion.release_dependents(self, ended)
            elif not (self._stale or self._groups):
                # After the priorities: they say who waits for a quota.
                touched, self._touched = self._touched, {}
                await quotas.fill(self, touched)
            else:
                # Taken out before the work, which may add further ones.
                stale, self._stale = self._stale, {}
                groups, self._groups = self._groups, {}
                await priorities.settle(self, stale, groups)

    async def container(self, uuid: str) -> Record | None:
        """A container's row."""
        return await records.get(self.tx, CONTAINERS, uuid)

    async def committed(self, container_uuid: str) -> list[tuple[Record, ContainerRequest]]:
        """The Committed requests of a container, with their rows."""
        rows = await records.matching(
            self.tx, REQUESTS, container_uuid=container_uuid, state=request.RequestState.COMMITTED
        )
        return [(row, ContainerRequest.from_record(row)) for row in rows]

    async def add_container(self, container: Container) -> Record:
        """Store a new container; its row."""
        row: Record = {
            **container.to_record(),
            # The system user owns containers: users read them through their requests alone.
            "owner_uuid": self.services.system_user,
            "created_at": self.now,
            "modified_at": self.now,
            "modified_by_user_uuid": self.services.system_user,
            # Dispatcher and supervisor go on with the trace of this call.
            "traceparent": current_traceparent() or None,
        }
        await records.add(self.tx, CONTAINERS, row)
        # The index by which users of a content are found.
        await contents.note_inputs(self.tx, row)
        await audit.created(self.tx, self.services, CONTAINERS, row, user_uuid=self.user_uuid)
        self.made.add(container.uuid)
        # One that is made with a priority, for a further attempt, may have no room.
        if container.priority > 0 and await self.ledger.kinds():
            self.stale([container.uuid])
        return row

    async def write_container(
        self, old: Record, changed: JsonObject, *, expected: JsonObject
    ) -> Record:
        """Store values of a container without further effects; the new row. Raises Conflict."""
        if not changed:
            return old
        new = await self._write(CONTAINERS, old, changed, expected)
        if changed.get("priority") == 0 and old["state"] in HELD:
            # One whose dispatcher's token has ended is to be ended by the timers.
            self.tx.after_commit(self.services.wakeups.wake)
        await completion.follow_container(self, old, new)
        await quotas.follow_container(self, old, new)
        return new

    async def set_log(self, row: Record, log_uuid: str) -> None:
        """Let a request point at its log collection."""
        await self._write(REQUESTS, row, {"log_uuid": log_uuid}, {})

    async def _write(
        self, kind: RecordType, old: Record, changed: JsonObject, expected: JsonObject
    ) -> Record:
        real: Record = {**changed, "modified_at": self.now, "modified_by_user_uuid": self.user_uuid}
        # Compare-and-set: `expected` are the values that the decision was made from.
        await records.change(self.tx, kind, old["uuid"], real, expected=expected)
        new = {**old, **real}
        await audit.changed(self.tx, self.services, kind, old, new, user_uuid=self.user_uuid)
        return new

    async def _mint_tokens(self, effect: MintTokens) -> None:
        system = self.services.system_user
        await self._add_token(effect.auth_uuid, effect.user_uuid or system, effect.scopes, None)
        scopes = access.supervisor_scopes(effect.container_uuid)
        await self._add_token(effect.supervisor_uuid, system, scopes, effect.container_uuid)

    async def _revoke_tokens(self, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            # Expired only: the sweep deletes the row later.
            await records.expire_token(self.tx, uuid, self.now)

    async def _add_token(
        self, uuid: str, owner: str, scopes: tuple[str, ...], container_uuid: str | None
    ) -> None:
        row: Record = {
            "uuid": uuid,
            "owner_uuid": owner,
            "created_at": self.now,
            "modified_at": self.now,
            "modified_by_user_uuid": self.user_uuid,
            "scopes": list(scopes),
            # The secret follows from the uuid and a key of the server: it need not be stored to be
            # given to the dispatcher again.
            "secret_hash": hash_secret(self.services.container_secret(uuid)),
            "container_uuid": container_uuid,
        }
        await records.add(self.tx, TOKENS, row)


_TIMES = ("expires_at", "start_after", "retry_after")
"""Times of a request at which the priority of its container may change."""
_TURNS = ("state", "priority", "container_uuid", "expires_at", "max_parallel")
"""Attributes of a request whose change may give others of its group their turn."""


def asks_for_container(change: request.RequestChange) -> bool:
    """Whether the effects of a request's change find a container for it."""
    return any(isinstance(effect, Resolve | Adopt | Confirm) for effect in change.effects)
