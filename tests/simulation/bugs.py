"""Bugs to plant, to show that the simulation finds them. Each replaces one decision function.

A bug of the server is a `ServerRules` with another function. A bug of a dispatcher replaces a
function or class of `lading.dispatch` while it is planted. The product has no code for either.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from signal import Signals
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from lading.client.api import ApiClient
from lading.core.containers import finalize, lifecycle, priority, reuse
from lading.core.containers.attempts import retry
from lading.core.containers.container import (
    CancelChildren,
    Container,
    ContainerEffect,
    ContainerState,
    RevokeTokens,
)
from lading.core.containers.lifecycle import ContainerChange
from lading.core.containers.request import ContainerRequest
from lading.core.containers.writers import ContainerWriter
from lading.core.policy.budgets import Spent
from lading.core.policy.quotas import Amounts, Room, Shortage, Standing, find_room
from lading.core.scheduling.reconcile import (
    Case,
    ProcessState,
    ReconcileAction,
    RecordState,
    decide,
)
from lading.dispatch import observe
from lading.dispatch import run as running
from lading.dispatch.actions import Actions
from lading.dispatch.dispatch_trace import DispatchTrace
from lading.dispatch.fleet import Fleet
from lading.dispatch.queue import Queue
from lading.dispatch.state import DispatchState
from lading.dispatch.status_publisher import DecisionLog
from tests.simulation.rules import CORRECT, ServerRules


class Bug(StrEnum):
    """The bugs, by name."""

    LOCK = "lock-without-compare"
    """A locked container can be locked by another dispatcher."""
    TOKEN = "token-survives-lock"
    """The tokens of a container go on after its lock has ended."""
    WRITERS = "foreign-writes"
    """Every token may write to a container, whoever locked it."""
    RETRIES = "endless-retries"
    """A lost container is tried again beyond container_count_max."""
    GIVEN_UP = "retry-forgotten"
    """A lost container is not tried again."""
    CLASSES = "retry-without-rules"
    """Failures are tried again without regard of the rules of the request."""
    PRIORITY = "stale-priority"
    """The priority of a container is not computed anew when a request for it changes."""
    CHILDREN_PRIORITY = "stale-child-priority"
    """The priority of a container does not reach the containers that it has asked for."""
    TURNS = "all-take-turns"
    """The containers of a group run without regard of its limit."""
    QUOTA = "quota-exceeded"
    """Containers run without regard of the quotas."""
    BUDGET = "budget-ignored"
    """Containers start although the budget is spent."""
    NO_REFILL = "room-not-given"
    """The room of what has ended is given to no request that waits for the quota."""
    ORPHANS = "orphaned-children"
    """The requests that a container made go on after its end."""
    REUSE = "reuse-of-failed"
    """A request is given a container that has failed."""
    EXIT_CODE = "lost-exit-code"
    """The exit code that a supervisor reports is not stored."""
    FORGOTTEN = "request-left-open"
    """Of several requests for a container one stays Committed after its end."""
    FENCING = "missing-fencing"
    """Supervisors that have lost their container may still write to it."""
    STALE_LIST = "stale-list"
    """A dispatcher applies an old list over newer news."""
    LIVE_UNLOCK = "unlock-of-living"
    """A dispatcher gives back a container whose supervisor lives."""
    NOT_STOPPED = "cancel-not-delivered"
    """A dispatcher does not stop a running command that nobody wants any more."""
    NOT_TOLD = "lost-not-told"
    """A dispatcher does not end the record of a container whose supervisor is gone."""
    TOLD_ONCE = "stop-told-once"
    """A dispatcher tells a process to stop once, though the message may be lost."""
    NOT_ADOPTED = "lock-forgotten-by-restart"
    """A dispatcher that was started again does not look after what it had locked before."""
    LEAKED_ROOM = "leaked-room"
    """A dispatcher keeps the room of a container whose start has failed."""
    NOT_CLEANED = "directory-left"
    """A dispatcher does not clear away what a dead supervisor left once the container has ended."""


@contextlib.contextmanager
def planted(bug: Bug | None) -> Iterator[ServerRules]:
    """Plant a bug inside the context, or none; yields the rules of the server."""
    with contextlib.ExitStack() as undo:
        for owner, name, replacement in _DISPATCHER_BUGS.get(bug, ()) if bug is not None else ():
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield _SERVER_BUGS.get(bug, CORRECT) if bug is not None else CORRECT


# Bugs of the server.


def _lock_anything(
    container: Container, *, caller: ContainerWriter, **more: Any
) -> ContainerChange:
    if container.state is ContainerState.LOCKED:
        container = replace(container, state=ContainerState.QUEUED)
    return lifecycle.lock(container, caller=caller, **more)


def _update_as_anybody(
    container: Container,
    changes: Mapping[str, Any],
    *,
    caller: ContainerWriter,
    **more: Any,
) -> ContainerChange:
    if container.supervisor_auth_uuid is not None and not caller.is_own:
        caller = ContainerWriter(token_uuid=container.supervisor_auth_uuid)
    return lifecycle.update(container, changes, caller=caller, **more)


def _everything(_container: Container, _caller: ContainerWriter) -> bool:
    return True


def _unlock_as_anybody(
    container: Container, *, caller: ContainerWriter, **more: Any
) -> ContainerChange:
    if container.locked_by_uuid is not None:
        caller = ContainerWriter(token_uuid=container.locked_by_uuid, is_admin=True)
    return lifecycle.unlock(container, caller=caller, **more)


def _retry_without_rules(
    ended: Container, requests: list[ContainerRequest], **more: Any
) -> retry.Retry | None:
    plain = {
        one.uuid: {
            name: value for name, value in one.scheduling_parameters.items() if name != "retry"
        }
        for one in requests
    }
    again = retry.plan_retries(
        ended, [replace(one, scheduling_parameters=plain[one.uuid]) for one in requests], **more
    )
    if again is None:
        return None
    known = {one.uuid: one.scheduling_parameters for one in requests}
    changes = tuple(
        replace(one, request=replace(one.request, scheduling_parameters=known[one.request.uuid]))
        for one in again.changes
    )
    return dataclasses.replace(again, changes=changes)


def _update_without_code(
    container: Container, changes: Mapping[str, Any], **more: Any
) -> ContainerChange:
    # A record that is Complete has some exit code.
    kept = {**changes, "exit_code": 0} if changes.get("exit_code") else changes
    return lifecycle.update(container, kept, **more)


def _retry_for_ever(
    ended: Container,
    requests: list[ContainerRequest],
    **more: Any,
) -> retry.Retry | None:
    raised = [replace(one, container_count_max=1000) for one in requests]
    again = retry.plan_retries(ended, raised, **more)
    if again is None:
        return None
    limits = {one.uuid: one.container_count_max for one in requests}
    changes = tuple(
        replace(
            one,
            request=replace(one.request, container_count_max=limits[one.request.uuid]),
        )
        for one in again.changes
    )
    return dataclasses.replace(again, changes=changes)


def _choose_failed(recipe: Any, candidates: list[reuse.Candidate], **more: Any) -> reuse.Choice:
    taken = []
    for one in candidates:
        container = replace(one.container, exit_code=0)
        taken.append(dataclasses.replace(one, container=container))
    return reuse.choose(recipe, taken, **more)


def _finalize_one_fewer(
    subject: ContainerRequest,
    container: Container,
    **more: Any,
) -> finalize.Finalization:
    end = finalize.finalize(subject, container, **more)
    if int(subject.uuid[-3:]) % 2 or more["reused"]:
        return end
    return dataclasses.replace(end, change=replace(end.change, request=subject))


def _no_requests(_: Any) -> tuple[str, ...]:
    return ()


def _keeps_tokens(effect: ContainerEffect) -> bool:
    return not isinstance(effect, RevokeTokens)


def _keeps_children(effect: ContainerEffect) -> bool:
    return not isinstance(effect, CancelChildren)


def _propagate_to_none(
    known: Mapping[str, int | None], requests: list[ContainerRequest], **more: Any
) -> dict[str, int]:
    changed = priority.propagate(known, requests, **more)
    asked = {one.container_uuid for one in requests if one.requesting_container_uuid}
    return {uuid: value for uuid, value in changed.items() if uuid not in asked}


def _all_at_a_time(members: list[priority.GroupMember]) -> frozenset[str]:
    return frozenset(one.container_uuid for one in members)


def _room_anyway(_wanted: Amounts, _standings: object) -> Room | Shortage:
    return Room({})


def _room_without_money(wanted: Amounts, standings: Iterable[Standing]) -> Room | Shortage:
    return find_room(wanted, [dataclasses.replace(one, spent=Spent()) for one in standings])


def _no_subjects(_: Collection[str]) -> Collection[str]:
    return ()


_SERVER_BUGS: Final[Mapping[Bug, ServerRules]] = MappingProxyType(
    {
        Bug.LOCK: ServerRules(lock=_lock_anything),
        Bug.TOKEN: ServerRules(carries_out=_keeps_tokens),
        Bug.WRITERS: ServerRules(
            update=_update_as_anybody, unlock=_unlock_as_anybody, concerns=_everything
        ),
        Bug.FENCING: ServerRules(update=_update_as_anybody, fences=False),
        Bug.RETRIES: ServerRules(retry=_retry_for_ever),
        Bug.GIVEN_UP: ServerRules(retry=lambda *_, **__: None),
        Bug.CLASSES: ServerRules(retry=_retry_without_rules),
        Bug.PRIORITY: ServerRules(concerned=_no_requests),
        Bug.CHILDREN_PRIORITY: ServerRules(propagate=_propagate_to_none),
        Bug.TURNS: ServerRules(take_turns=_all_at_a_time),
        Bug.QUOTA: ServerRules(find_room=_room_anyway),
        Bug.BUDGET: ServerRules(find_room=_room_without_money),
        Bug.NO_REFILL: ServerRules(refills=_no_subjects),
        Bug.ORPHANS: ServerRules(carries_out=_keeps_children),
        Bug.REUSE: ServerRules(choose=_choose_failed),
        Bug.EXIT_CODE: ServerRules(update=_update_without_code),
        Bug.FORGOTTEN: ServerRules(finalize=_finalize_one_fewer),
    }
)


# Bugs of the dispatcher.


_merge: Final = Queue.merge


def _merge_anything(
    queue: Queue,
    items: Iterable[Mapping[str, object]],
    *,
    ticket: int,
    asked: Collection[str] = (),
    **more: Any,
) -> None:
    """As `merge`, but as if nothing were known of these containers."""
    taken = list(items)
    for uuid in {*asked, *(str(one["uuid"]) for one in taken)}:
        queue.forget(uuid)
    _merge(queue, taken, ticket=max(ticket, queue.ticket()), asked=asked, **more)


def _decide_blindly(case: Case) -> ReconcileAction:
    """As `decide`, but a living process of a locked container counts as absent."""
    if case.record is RecordState.LOCKED and case.process is ProcessState.ALIVE and case.fresh:
        return ReconcileAction.REQUEUE
    return decide(case)


class HastyActions(Actions):
    """Actions that give a container back without an end of its supervisor."""

    def __init__(
        self,
        client: ApiClient,
        fleet: Fleet,
        queue: Queue,
        log: DecisionLog,
        trace: DispatchTrace | None = None,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(client, fleet, queue, log, trace, check=check)
        self.client, self.queue = client, queue

    async def requeue(self, uuid: str) -> None:
        """Unlock it."""
        self.queue.answer(await self.client.action("containers", uuid, "unlock"))


def _decide_without(left: frozenset[ReconcileAction], *records: RecordState) -> Any:
    """As `decide`, but without these actions for containers with these records."""

    def decide_less(case: Case) -> ReconcileAction:
        action = decide(case)
        return ReconcileAction.LEAVE if action in left and case.record in records else action

    return decide_less


class LeakyState(DispatchState):
    """A dispatcher's memory that keeps the room of containers whose start has failed."""

    def lost(self, uuid: str, queue: Queue) -> None:
        """A start failed."""
        super().lost(uuid, queue)
        self.__dict__.setdefault("_leaked", set[str]()).add(uuid)

    def release(self, uuid: str) -> None:
        """The action is over."""
        if uuid not in self.__dict__.get("_leaked", ()):
            super().release(uuid)


class ForgetfulState(DispatchState):
    """A dispatcher's memory without the containers that it locked before it was started again."""

    def adopt(self, uuids: Iterable[str]) -> None:
        """Forget them."""


class OnceState(DispatchState):
    """A dispatcher's memory that gives each process one signal."""

    def stop_signal(
        self,
        uuid: str,
        *,
        now: float,
        nothing_to_save: bool = False,
    ) -> Signals | None:
        """TERM the first time."""
        told = self.__dict__.setdefault("_told_to_stop", set[str]())
        if uuid in told:
            return None
        told.add(uuid)
        return super().stop_signal(uuid, now=now, nothing_to_save=nothing_to_save)


_KILL: Final = frozenset({ReconcileAction.KILL})
_CANCEL: Final = frozenset({ReconcileAction.CANCEL})
_CLEAN: Final = frozenset({ReconcileAction.CLEAN})
_UNWANTED: Final = (RecordState.UNWANTED_RUNNING, RecordState.UNWANTED_LOCKED)
_DISPATCHER_BUGS: Final[Mapping[Bug, tuple[tuple[Any, str, Any], ...]]] = MappingProxyType(
    {
        Bug.STALE_LIST: ((Queue, "merge", _merge_anything),),
        Bug.LIVE_UNLOCK: (
            (observe, "decide", _decide_blindly),
            (running, "Actions", HastyActions),
        ),
        Bug.NOT_STOPPED: ((observe, "decide", _decide_without(_KILL, *_UNWANTED)),),
        Bug.NOT_TOLD: ((observe, "decide", _decide_without(_CANCEL, RecordState.RUNNING)),),
        Bug.TOLD_ONCE: ((running, "DispatchState", OnceState),),
        Bug.NOT_ADOPTED: ((running, "DispatchState", ForgetfulState),),
        Bug.LEAKED_ROOM: ((running, "DispatchState", LeakyState),),
        Bug.NOT_CLEANED: ((observe, "decide", _decide_without(_CLEAN, RecordState.FINAL)),),
    }
)
