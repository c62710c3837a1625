"""Priorities of containers: which requests count, and the priority that follows for a container.

A Committed request counts unless it waits for others, for a moment, has expired, or belongs to a
project in the trash. Source: docs/spec/containers, section Priority.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from lading.api import fair_shares, quotas
from lading.api.unit import ChangeFollower, Effect, Feature, Mark, Unit
from lading.core.containers import priority, request_phases, reuse_rights
from lading.core.containers.container import LIVE, Container, ContainerState
from lading.core.containers.priority import Dependency, GroupKey, Readiness, ReadinessVerdict
from lading.core.containers.request import ContainerRequest
from lading.core.policy import fair_share
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.schema import Record
from lading.store import cascades, permissions, records
from lading.store.cascades import AT_ONCE, CascadeKind
from lading.store.containers import live, waiting
from lading.store.database import Transaction

# A request of such a readiness has ceased to wait for others.
_FREE = (
    Readiness.READY,
    Readiness.EARLY,
    Readiness.TURN,
    Readiness.PAUSED,
    Readiness.QUOTA,
    Readiness.BUDGET,
)


class Priorities(ChangeFollower):
    """Computes the priorities of marked containers, and of marked groups."""

    works_off = Mark.STALE

    async def settle(self, unit: Unit) -> Sequence[Effect]:
        """Compute them anew, with those below them."""
        await _settle(unit, unit.take(Mark.STALE), unit.take_groups())
        return ()


async def _settle(unit: Unit, stale: Collection[str], groups: Iterable[GroupKey]) -> None:
    """Compute anew the priorities of these containers, of containers whose turn in a group has
    changed, and of the containers that any of them asked for; store the changed ones.
    """
    rows = await _with_descendants(unit, stale)
    recompute, wanting = await _live(unit.tx, rows)
    keys = {
        *groups,
        *(key for request in wanting if (key := priority.group_of(request)) is not None),
    }
    moved = await _out_of_step(unit.tx, keys, unit.now)
    if not moved <= rows.keys():
        rows = await _with_descendants(unit, (*stale, *sorted(moved)))
        recompute, wanting = await _live(unit.tx, rows)
    counting = await _counting(unit, wanting)
    current_priorities = {uuid: row["priority"] for uuid, row in rows.items()}
    current_priorities |= await _of_parents(unit.tx, counting, current_priorities.keys())
    if await unit.uses(Feature.QUOTAS):
        counting = await quotas.admit(unit, rows, recompute, counting, current_priorities)
    if await unit.uses(Feature.SHARES):
        claims = fair_share.claims(current_priorities, counting, recompute=recompute)
        changed = await fair_shares.of(unit).priorities(claims, rows)
    else:
        changed = priority.propagate(current_priorities, counting, recompute=recompute)
    changes: dict[str, Record] = {uuid: {"priority": value} for uuid, value in changed.items()}
    for uuid, user in _heirs(rows, wanting):
        changes.setdefault(uuid, {})["runtime_user_uuid"] = user
    for uuid, values in changes.items():
        await unit.write_container(rows[uuid], values, expected={})


def _heirs(
    rows: Mapping[str, Record], wanting: Iterable[ContainerRequest]
) -> Iterator[tuple[str, str]]:
    """The containers in the queue that pass to another user, because the requests of their own user
    do not want them any more, and that user.
    """
    by_container: dict[str, list[ContainerRequest]] = defaultdict(list)
    for request in wanting:
        if request.container_uuid is not None and request.priority:
            by_container[request.container_uuid].append(request)
    for uuid, requests in by_container.items():
        row = rows[uuid]
        # Read as a whole only where it may pass on.
        if row["state"] == ContainerState.QUEUED and all(
            request.committed_by_uuid != row["runtime_user_uuid"] for request in requests
        ):
            user = reuse_rights.heir(Container.from_record(row), requests)
            if user is not None:
                yield uuid, user


async def prioritized(unit: Unit, container: Container, subject: ContainerRequest) -> Container:
    """A new container, which one request wants, with its priority."""
    has_shares = await unit.uses(Feature.SHARES)
    if await unit.uses(Feature.QUOTAS) and await quotas.ledger_of(unit).concerning(subject):
        # Once the request is stored, `settle` finds out whether there is room in its quotas.
        unit.stale([container.uuid])
        return container
    parents = await parent_priority(unit, subject)
    verdicts = await _judge_others(unit.tx, [subject], now=unit.now)
    counting = [subject] if verdicts[subject.uuid].counts else []
    if has_shares:
        claim = fair_share.claims(parents, counting, recompute=[container.uuid])[container.uuid]
        worth = await fair_shares.of(unit).enter(container, claim) if claim is not None else 0
    else:
        worth = priority.container_priority(counting, parents)
    return replace(container, priority=worth)


async def _live(
    tx: Transaction, rows: Mapping[str, Record]
) -> tuple[list[str], list[ContainerRequest]]:
    """The containers that have not ended, and the Committed requests that point at them."""
    uuids = [uuid for uuid, row in rows.items() if row["state"] in LIVE]
    wanting = [
        ContainerRequest.from_record(row)
        for row in await records.among(tx, REQUESTS, "container_uuid", uuids)
        if row["state"] == request_phases.RequestState.COMMITTED
    ]
    return uuids, wanting


async def _turns(
    tx: Transaction, groups: Iterable[GroupKey], now: str
) -> dict[GroupKey, frozenset[str]]:
    """The containers of each group that may run now."""
    return {
        key: priority.take_turns(
            member for member, _ in await waiting.group_members(tx, *key, now=now)
        )
        for key in groups
    }


async def _out_of_step(tx: Transaction, groups: Iterable[GroupKey], now: str) -> set[str]:
    """The waiting containers of groups that have a priority out of turn, or none in their turn."""
    out_of_step = set[str]()
    for key in groups:
        members = await waiting.group_members(tx, *key, now=now)
        admitted = priority.take_turns(member for member, _ in members)
        out_of_step |= {
            member.container_uuid
            for member, value in members
            if not member.holds and (value > 0) is not (member.container_uuid in admitted)
        }
    return out_of_step


async def judge(
    tx: Transaction,
    subjects: list[ContainerRequest],
    *,
    now: str,
    reader: str | None,
    new: bool = False,
) -> dict[str, ReadinessVerdict]:
    """Whether each request counts now, by uuid, in words for a user (None: an administrator);
    `new`: they are being committed.
    """
    verdicts = await _judge_others(tx, subjects, now=now, new=new)
    if new:
        return verdicts
    ready = [subject for subject in subjects if verdicts[subject.uuid].counts]
    return verdicts | await quotas.verdicts(tx, ready, now, reader=reader)


async def _judge_others(
    tx: Transaction, subjects: list[ContainerRequest], *, now: str, new: bool = False
) -> dict[str, ReadinessVerdict]:
    """As `judge`, but for quotas.

    A request that has ceased to wait for others does not wait again, whatever becomes of them.
    """
    if not new:
        subjects = await _still_waiting(tx, subjects)
    dependencies = await _dependencies(tx, subjects)
    verdicts = {
        subject.uuid: priority.judge_readiness(subject, dependencies, now=now)
        for subject in subjects
    }
    grouped = {
        subject.uuid: (subject, key)
        for subject in subjects
        if verdicts[subject.uuid].counts and (key := priority.group_of(subject)) is not None
    }
    if not grouped:
        return verdicts
    turns = await _turns(tx, dict.fromkeys(key for _, key in grouped.values()), now)
    return verdicts | {
        uuid: priority.out_of_turn(subject)
        for uuid, (subject, key) in grouped.items()
        if subject.container_uuid not in turns[key]
    }


async def _still_waiting(
    tx: Transaction, subjects: list[ContainerRequest]
) -> list[ContainerRequest]:
    """The requests; the dependencies of a request that no longer waits are left out."""
    depending = [subject.uuid for subject in subjects if subject.depends_on]
    if not depending:
        return subjects
    waiting_ones = await waiting.watching(tx, depending)
    return [
        replace(subject, depends_on=[])
        if subject.depends_on and subject.uuid not in waiting_ones
        else subject
        for subject in subjects
    ]


async def _dependencies(tx: Transaction, subjects: list[ContainerRequest]) -> dict[str, Dependency]:
    """The requests that others depend on, with their containers, by uuid."""
    named = dict.fromkeys(uuid for subject in subjects for uuid in subject.depends_on)
    if not named:
        return {}
    request_rows = await records.among(tx, REQUESTS, "uuid", named)
    others = {row["uuid"]: ContainerRequest.from_record(row) for row in request_rows}
    container_uuids = {
        dependency.container_uuid for dependency in others.values() if dependency.container_uuid
    }
    rows = await records.among(tx, CONTAINERS, "uuid", sorted(container_uuids))
    containers = {row["uuid"]: Container.from_record(row) for row in rows}
    return {
        uuid: Dependency(dependency, containers.get(dependency.container_uuid or ""))
        for uuid, dependency in others.items()
    }


async def is_broken(tx: Transaction, uuid: str) -> bool:
    """Whether requests that depend on this one can never run."""
    row = await records.get(tx, REQUESTS, uuid)
    subject = ContainerRequest.from_record(row) if row else None
    held = (
        await records.get(tx, CONTAINERS, subject.container_uuid)
        if subject is not None and subject.container_uuid
        else None
    )
    dependency = Dependency(subject, Container.from_record(held) if held else None)
    return priority.judge_dependency(uuid, dependency).readiness is Readiness.BROKEN


async def judge_one(
    tx: Transaction, subject: ContainerRequest, *, now: str, reader: str | None, new: bool = False
) -> ReadinessVerdict:
    """As `judge`, for one request."""
    return (await judge(tx, [subject], now=now, reader=reader, new=new))[subject.uuid]


async def owners_in_trash(
    tx: Transaction, subjects: Iterable[ContainerRequest], now: str
) -> set[str]:
    """The owners of requests that are projects in the trash: such requests count as priority 0."""
    flags = await permissions.flags_by_group(tx, (subject.owner_uuid for subject in subjects))
    return {
        uuid
        for uuid, group_flags in flags.items()
        if group_flags.trash_at is not None and group_flags.trash_at <= now
    }


async def parent_priority(unit: Unit, subject: ContainerRequest) -> dict[str, int | None]:
    """The priority of the container that made a request, by its uuid; empty without one."""
    uuid = subject.requesting_container_uuid
    row = await unit.container(uuid) if uuid else None
    return {row["uuid"]: row["priority"]} if row else {}


async def stale_in(unit: Unit, group_uuid: str) -> None:
    """Have the priorities computed anew of the containers of requests in a project, or in a project
    below it: at the end of the transaction, or in the background where there are many.
    """
    groups = [uuid for uuid, _ in await permissions.below(unit.tx, group_uuid)]
    wanted = await live.wanted_by(unit.tx, groups, most=AT_ONCE + 1)
    if len(wanted) > AT_ONCE:
        await unit.defer(CascadeKind.PROJECT, group_uuid)
    else:
        unit.stale(wanted)


async def _with_descendants(unit: Unit, uuids: Iterable[str]) -> dict[str, Record]:
    """The rows of containers and of all that they asked for, directly or indirectly, by uuid. Where
    these are many, they are left to the background.
    """
    due = dict.fromkeys(uuids)
    frontier, room = list(due), max(AT_ONCE, len(due))
    while frontier:
        below = await live.wanted_below(unit.tx, frontier, most=room + 1)
        if len(below) > room:
            for uuid in await cascades.asking(unit.tx, unit.tx.dialect, frontier):
                await unit.defer(CascadeKind.BELOW, uuid)
            break
        frontier = [uuid for uuid in below if uuid not in due]
        due |= dict.fromkeys(frontier)
    return {row["uuid"]: row for row in await records.among(unit.tx, CONTAINERS, "uuid", due)}


async def _counting(unit: Unit, wanting: list[ContainerRequest]) -> list[ContainerRequest]:
    """The requests that count now; those whose dependencies have ended wait for them no more."""
    judgements = await _judge_others(unit.tx, wanting, now=unit.now)
    for subject in wanting:
        readiness = judgements[subject.uuid].readiness
        if subject.depends_on and readiness in _FREE:
            await waiting.unwatch(unit.tx, subject.uuid)
    trashed = await owners_in_trash(unit.tx, wanting, unit.now)
    return [
        subject
        for subject in wanting
        if judgements[subject.uuid].counts and subject.owner_uuid not in trashed
    ]


async def _of_parents(
    tx: Transaction, subjects: Iterable[ContainerRequest], known_uuids: Iterable[str]
) -> dict[str, int | None]:
    """The priorities of the containers that made these requests, but for the known ones."""
    parents = {subject.requesting_container_uuid for subject in subjects} - {None, *known_uuids}
    rows = await records.among(tx, CONTAINERS, "uuid", (uuid for uuid in parents if uuid))
    return {row["uuid"]: row["priority"] for row in rows}
