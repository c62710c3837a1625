"""The unit of work: changes of containers and requests in one transaction, with all their effects.

`core` decides: it returns a change and its effects (`core.containers.container`). A `UnitOfWork`
stores the change with compare-and-set, writes its log rows, and carries out each effect in the
`match` of `UnitOfWork._carry_out`, in the order in which the effects are listed. This module alone
imports all features; none of them imports it: they get a `unit.Unit`, and return what else is to be
changed as effects of `unit`, which `UnitOfWork.carry_out` carries out. The work of an effect is in
the module of its subject:

- `container_assignment`: a request gets a container, an earlier one or a new one.
- `completion`: a container has ended; its requests are retried or become Final; intervals of
  allocation, and costs.
- `priorities`: whether a request counts, and the priority of containers.

Features that hear of changes are `FOLLOWERS`. Their marked work is done once, by `settle` at the
end of the transaction.

Source: docs/spec/containers, sections Request states, Priority and Retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from lading.api import completion, container_assignment, quotas
from lading.api.container_assignment import AssignmentChoice
from lading.api.events import audit
from lading.api.fair_shares import ShareTickets
from lading.api.priorities import Priorities
from lading.api.server.identifiers import hash_secret
from lading.api.services import ApiServices
from lading.api.spending import SpentBudgets
from lading.api.unit import (
    CancelRequest,
    ChangeFollower,
    ChangeRequest,
    Effect,
    FailRequest,
    Feature,
    Unit,
)
from lading.core.containers import lifecycle, request, request_phases
from lading.core.containers.container import (
    FINAL,
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
from lading.core.containers.mounting.git_trees import NO_TREES, GitTrees
from lading.core.containers.request import ContainerRequest
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import REQUESTS
from lading.core.records.log_rows import LogRowType
from lading.core.records.record_types import TOKENS
from lading.core.records.schema import Record
from lading.core.values import JsonObject
from lading.store import cascades, records, tokens
from lading.store.cascades import AT_ONCE, CascadeKind
from lading.store.containers import attempts, live, waiting
from lading.store.database import Transaction

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
    trees: GitTrees
    ahead: AssignmentChoice | None
    is_early: bool
    awaits_output: bool = False


_Target: TypeAlias = Transition | Commit | request.RequestChange


FOLLOWERS: Final[Sequence[ChangeFollower]] = (
    SpentBudgets(),
    completion.Endings(),
    ShareTickets(),
    Priorities(),
    quotas.Quotas(),
)
"""The features that hear of changes, in the order in which they do.

The order has a meaning in `settle`, which begins with the first again after any that had work:
requests whose budget is spent are cancelled and dependents of ended requests go on before
priorities are computed, since both make priorities stale; quotas are filled after the priorities,
which say who waits for them. A change of a container is stored in its accounts of fair share before
quotas refuse a lock; a refusal undoes the transaction.
"""


class UnitOfWork(Unit):
    """The changes of one transaction on behalf of one user, with all their effects."""

    def __init__(self, tx: Transaction, services: ApiServices, *, user_uuid: str) -> None:
        super().__init__(tx, services, user_uuid=user_uuid, followers=FOLLOWERS)

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
                await self._carry_out_all(await completion.finish(self, before, after))
            case CancelChildren(uuid), _:
                await self._cancel_children(uuid)
            case ReprioritiseChildren(uuid), _:
                await self._reprioritise_children(uuid)
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

    async def _carry_out_all(self, effects: Iterable[Effect]) -> None:
        """Carry out the effects that a feature returned."""
        for effect in effects:
            match effect:
                case ChangeRequest(row, change):
                    await self.change_request(row, change)
                case FailRequest(row, reason):
                    await self.fail(row, reason)
                case CancelRequest(uuid):
                    # Read now: an earlier effect may have ended it.
                    fresh = await records.get(self.tx, REQUESTS, uuid)
                    if (
                        fresh is not None
                        and fresh["state"] == request_phases.RequestState.COMMITTED
                    ):
                        await self.cancel(fresh)

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
        new = await self.write_request(old, change.changed, expected=change.expected)
        for effect in change.effects:
            await self._carry_out(effect, change)
        await self.follow(old, new)
        return new

    async def commit(
        self,
        change: request.RequestChange,
        principal: Principal,
        trees: GitTrees | None = NO_TREES,
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
        # A request depends on those whose outputs it mounts.
        if change.request.depends_on and asks_for_container(change):
            commit.awaits_output = await container_assignment.waits_for_output(
                self, change.request, principal
            )
        # Else once its container is known: a result that exists is given in any case.
        is_without = commit.is_early or commit.awaits_output
        if is_without and await self.uses(Feature.QUOTAS):
            await quotas.check_commit(self, change)
        for effect in change.effects:
            await self._carry_out(effect, commit)
        return commit.change

    async def add_request(self, values: JsonObject) -> Record:
        """Store a new request with the values that `commit` has decided; its row."""
        row: Record = {**values, "modified_at": self.now}
        await audit.created(self.tx, self.services, REQUESTS, row, user_uuid=self.user_uuid)
        await records.add(self.tx, REQUESTS, row)
        await self.follow(None, row)
        return row

    async def follow(self, old: Record | None, new: Record) -> None:
        """Carry out the consequences of a request's change or creation (`old` None): intervals of
        allocation, timers, attempts, dependents.
        """
        was: Record = old or {}
        for follower in FOLLOWERS:
            if any(was.get(name) != new[name] for name in follower.of_requests):
                await follower.request_changed(self, was, new)
        self._set_timers(was, new)
        if new["attempted_container_uuids"] != was.get("attempted_container_uuids", []):
            await attempts.note_attempts(self.tx, new)
        if any(was.get(name) != new[name] for name in _TURNS):
            self.regroup(new)
        if old is not None and new["state"] == request_phases.RequestState.FINAL != old["state"]:
            # `settle` releases the dependents once this change is complete.
            self.ended(new["uuid"])
            if new["depends_on"]:
                await waiting.unwatch(self.tx, new["uuid"])

    def _set_timers(self, was: Record, new: Record) -> None:
        timers = self.services.events.wakeups
        if any(was.get(name) != new[name] for name in ("state", *_TIMES)) and any(
            new[name] for name in _TIMES
        ):
            # After the commit: a timer that reads the record earlier would not see the new time.
            self.tx.after_commit(timers.wake)
        if new["resolving"] and not was.get("resolving"):
            self.tx.after_commit(timers.seek)

    async def removed(self, row: Record) -> None:
        """Carry out the consequences of a request's deletion."""
        self.ended(row["uuid"])
        self.regroup(row)
        await waiting.unwatch(self.tx, row["uuid"])
        # Its rows in other tables go with it; its dependents end in `settle`.
        await attempts.forget_attempts(self.tx, row["uuid"])
        await completion.end_request(self, row)
        if await self.uses(Feature.QUOTAS):
            await quotas.end_tree(self, row["uuid"])
        if row["state"] == request_phases.RequestState.COMMITTED:
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
            and new["state"] == request_phases.RequestState.FINAL
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

    async def _cancel_children(self, container_uuid: str) -> None:
        uuids = await cascades.children(self.tx, container_uuid, most=AT_ONCE + 1)
        if len(uuids) > AT_ONCE:
            await self.defer(CascadeKind.CHILDREN, container_uuid)
        else:
            await self._carry_out_all([CancelRequest(uuid) for uuid in uuids])

    async def _reprioritise_children(self, container_uuid: str) -> None:
        below = await live.wanted_below(self.tx, [container_uuid], most=AT_ONCE + 1)
        if len(below) > AT_ONCE:
            await self.defer(CascadeKind.BELOW, container_uuid)
        else:
            self.stale(below)

    async def settle(self) -> None:
        """Do all marked work: release or end the requests that depend on ended requests; compute
        stale priorities, and those below them, anew; fill quotas.
        """
        # Each step may mark more: a chain of dependencies ends one link in each.
        while marked := self.marked:
            first = next(follower for follower in FOLLOWERS if follower.works_off in marked)
            await self._carry_out_all(await first.settle(self))

    async def _mint_tokens(self, effect: MintTokens) -> None:
        system = self.services.ids.system_user
        await self._add_token(effect.auth_uuid, effect.user_uuid or system, effect.scopes, None)
        scopes = access.supervisor_scopes(effect.container_uuid)
        await self._add_token(effect.supervisor_uuid, system, scopes, effect.container_uuid)

    async def _revoke_tokens(self, uuids: Sequence[str]) -> None:
        if uuids:
            # Expired only: the sweep deletes the rows later.
            await tokens.expire_tokens(self.tx, uuids, self.now)

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
            "secret_hash": hash_secret(self.services.ids.container_secret(uuid)),
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
