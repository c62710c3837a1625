"""Quotas at work: which waiting containers have room, what is charged to whom, and what was spent.

`core.policy.quotas` has the rules, `store.quotas` the rows. All of this happens in write
transactions, which take turns in all servers of a database, so that no quota is exceeded:

- `admit`: a request counts for the priority of its container if there is room in all quotas that
  concern it. Then the container is charged to them; else the request waits for the first of them.
- `fill`: charges became smaller, so the first requests that wait for a quota are looked at.
- `follow_container`: a lock is refused where there is no room (`NoRoom`); the end of a container
  takes its charges back; a report of its cost is added to what was spent.

Each looks at the containers that are concerned and at the first requests that wait, never at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from lading.api import spending
from lading.api.events import audit
from lading.api.unit import ChangeFollower, Effect, Feature, Mark, Unit
from lading.core.containers import priority, request, request_phases
from lading.core.containers.container import FINAL, HELD, LIVE, Container, ContainerState
from lading.core.containers.priority import Readiness, ReadinessVerdict
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Conflict, Invalid
from lading.core.ids import Infix
from lading.core.policy import quotas as rules
from lading.core.policy.budgets import Spent
from lading.core.policy.quotas import Amounts, Limit, Quota, Room, Shortage, Standing
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import USERS
from lading.core.records.schema import Record
from lading.core.records.service_records import QUOTAS
from lading.store import permission_queries, quota_waits, quotas, records
from lading.store.database import Transaction
from lading.store.quota_waits import WORKFLOWS, QuotaWait
from lading.store.quotas import QuotaKey, StoredCharge

MOST: Final = 100
"""Requests that are looked at, and containers that give their room away, in one step."""
_NEVER: Final = -1
"""Rank of a request that needs more than the whole quota: it keeps no other one waiting."""


class NoRoom(Conflict):
    """The quotas have no room for the container."""


class Ledger:
    """The quotas that a unit has read: they do not change while it lasts."""

    def __init__(self, unit: Unit) -> None:
        self.queued: dict[str, int] = {}
        """Requests that wait, of subjects whose quota limits them, as far as they were counted."""
        self._tx = unit.tx
        self._unit = unit
        self._by_key: dict[QuotaKey, list[Quota]] = {}

    async def concerning(self, subject: ContainerRequest) -> list[Quota]:
        """The quotas that concern a request."""
        kinds = await self._unit.quota_kinds()
        if not kinds:
            return []
        in_tree = Infix.REQUEST in kinds
        key = QuotaKey(
            subject.committed_by_uuid or subject.owner_uuid,
            subject.owner_uuid,
            (subject.requesting_container_uuid or "") if in_tree else "",
            subject.uuid if in_tree else "",
        )
        if key not in self._by_key:
            self._by_key[key] = await quotas.concerning(self._tx, key, kinds)
        return self._by_key[key]


def ledger_of(unit: Unit) -> Ledger:
    """The ledger of a unit."""
    return unit.part(Ledger)


async def admit(
    unit: Unit, rows: Mapping[str, Record], recompute: Sequence[str],
    counting: list[ContainerRequest], parents: Mapping[str, int | None],
) -> list[ContainerRequest]:  # fmt: skip
    """The counting requests for containers in `recompute` that have room.

    `parents` are the priorities of containers in `rows`, and of others that made the requests.
    """
    current = {**parents, **priority.propagate(parents, counting, recompute=recompute)}
    waits = await quota_waits.waits_for(unit.tx, recompute)
    charges = await quotas.charges_of(unit.tx, recompute)
    wanting: dict[str, list[tuple[int, ContainerRequest]]] = {}
    for subject in counting:
        rank = priority.request_value(subject, current)
        wanting.setdefault(subject.container_uuid or "", []).append((rank, subject))
    waiting: dict[str, QuotaWait] = {}
    queued = [uuid for uuid in recompute if rows[uuid]["state"] == ContainerState.QUEUED]
    # By rank: of what becomes ready together, the first gets the room.
    for uuid in sorted(
        queued,
        key=lambda queued_uuid: -max((r for r, _ in wanting.get(queued_uuid, ())), default=0),
    ):
        ranked = sorted(wanting.get(uuid, ()), key=lambda pair: (-pair[0], pair[1].uuid))
        container = Container.from_record(rows[uuid])
        short = await _settle_one(unit, container, ranked, charges.get(uuid, {}))
        waiting |= {wait.request_uuid: wait for wait in short}
    for wait in waiting.values():
        if waits.get(wait.request_uuid) != wait:
            await quota_waits.wait(unit.tx, wait)
    # A request that left a queue lets the next one be the first.
    await quota_waits.unwait(unit.tx, waits.keys() - waiting.keys())
    unit.touch(
        was.queue
        for uuid, was in waits.items()
        if uuid not in waiting or waiting[uuid].queue != was.queue
    )
    return [subject for subject in counting if subject.uuid not in waiting]


async def _settle_one(
    unit: Unit,
    container: Container,
    ranked: Iterable[tuple[int, ContainerRequest]],
    charged: Mapping[str, StoredCharge],
) -> list[QuotaWait]:
    """Charge a waiting container to the quotas of its requests that have room; the requests that
    have none.
    """
    ranks: dict[str, int] = {}
    short: list[QuotaWait] = []
    amounts = rules.amounts_of(container)
    for rank, subject in ranked:
        concerning = await ledger_of(unit).concerning(subject)
        # Without priority it takes no room; its container has none through it either.
        if not concerning or rank <= 0:
            continue
        look = _Look.of(container, subject, rank)
        outcome = await _look(unit, look, concerning, {*charged, *ranks})
        if isinstance(outcome, Shortage):
            short.append(await _wait(unit, look, outcome, concerning))
        else:
            for quota in concerning:
                ranks.setdefault(quota.subject_uuid, rank)
    for subject_uuid, rank in ranks.items():
        charge = StoredCharge(rank, False, amounts, rules.runs_workflow(container))
        if charged.get(subject_uuid) != charge:
            await quotas.charge(unit.tx, container.uuid, [subject_uuid], charge)
    if surplus := charged.keys() - ranks.keys():
        unit.touch(await quotas.discharge(unit.tx, container.uuid, surplus))
    return short


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """A look at a request for a waiting container; `head`: it is the first of this queue."""

    container_uuid: str
    request_uuid: str
    amounts: Amounts
    rank: int
    runs_workflow: bool
    head: str = ""

    @classmethod
    def of(
        cls, container: Container, subject: ContainerRequest, rank: int, head: str = ""
    ) -> _Look:
        """The look at a request for a container."""
        amounts, is_runner = rules.amounts_of(container), rules.runs_workflow(container)
        return cls(container.uuid, subject.uuid, amounts, rank, is_runner, head)

    def queues(self, subject_uuid: str) -> list[str]:
        """The queues of a subject in which others may come first."""
        queues = [subject_uuid, *([subject_uuid + WORKFLOWS] if self.runs_workflow else [])]
        return [queue for queue in queues if queue != self.head]

    def follows(self, first: QuotaWait | None) -> bool:
        """Whether another request comes first."""
        if first is None or first.request_uuid == self.request_uuid:
            return False
        return (-first.rank, first.request_uuid) < (-self.rank, self.request_uuid)


async def _look(
    unit: Unit, look: _Look, concerning: Sequence[Quota], charged: Collection[str],
    *, displaces: bool = True,
) -> Room | Shortage:  # fmt: skip
    """Whether there is room for a container that is charged to some subjects; others that wait
    and rank below give theirs away, if need be.
    """
    tx = unit.tx
    missing = [quota.subject_uuid for quota in concerning if quota.subject_uuid not in charged]
    used = await quotas.used(tx, missing, without=look.container_uuid) if missing else {}
    workflows = await _of_workflows(tx, missing, look)
    below: dict[str, list[rules.Charge]] = {}
    standings = []
    for quota in concerning:
        uuid, spent = quota.subject_uuid, await spending.spent(tx, quota, unit.now)
        if uuid not in used:
            standings.append(Standing(quota=quota, spent=spent))
            continue
        if displaces and rules.exceeds(used[uuid] + look.amounts, quota):
            below[uuid] = await quotas.yielding(tx, uuid, look.rank, most=MOST)
        first = [await quota_waits.first_waiting(tx, queue) for queue in look.queues(uuid)]
        yielding = sum((each.amounts for each in below.get(uuid, ())), start=Amounts())
        standings.append(
            Standing(
                quota=quota,
                used=used[uuid],
                yielding=yielding,
                is_behind=any(map(look.follows, first)),
                workflows=workflows.get(uuid),
                spent=spent,
            )
        )
    outcome = rules.find_room(look.amounts, standings)
    if isinstance(outcome, Room):
        await _displace(unit, outcome, below)
    return outcome


async def _of_workflows(
    tx: Transaction, subjects: Sequence[str], look: _Look, *, only_held: bool = False
) -> dict[str, Amounts]:
    """The amounts charged to each subject for workflows; none for a container that runs none."""
    if not look.runs_workflow or not subjects:
        return {}
    return await quotas.used(
        tx, subjects, without=look.container_uuid, only_held=only_held, workflows=True
    )


async def _displace(unit: Unit, room: Room, below: Mapping[str, Sequence[rules.Charge]]) -> None:
    gone: set[str] = set()
    for subject_uuid, lacking in room.displaces.items():
        waiting = below[subject_uuid]
        left = lacking
        for charge in waiting:
            if charge.container_uuid in gone:
                left -= charge.amounts
        chosen = rules.choose_displaced(
            left, [charge for charge in waiting if charge.container_uuid not in gone]
        )
        gone |= set(chosen or ())
    for uuid in sorted(gone):
        unit.touch(await quotas.discharge(unit.tx, uuid))
    unit.stale(sorted(gone))


async def _wait(unit: Unit, look: _Look, short: Shortage, concerning: Iterable[Quota]) -> QuotaWait:
    quota = next(
        candidate for candidate in concerning if candidate.subject_uuid == short.subject_uuid
    )
    again = spending.next_moment(quota, unit.now) if short.limit is Limit.MONEY else None
    if again is not None:
        unit.tx.after_commit(unit.services.events.wakeups.wake)
    rank = _NEVER if short.for_ever else look.rank
    queue = short.subject_uuid + (WORKFLOWS if short.limit is Limit.WORKFLOWS else "")
    return QuotaWait(look.request_uuid, look.container_uuid, queue, short.limit, rank, again)


async def fill(unit: Unit, subjects: Iterable[str]) -> None:
    """Give free room of quotas to the first requests of both queues."""
    for subject_uuid in dict.fromkeys(subject.removesuffix(WORKFLOWS) for subject in subjects):
        for queue in (subject_uuid, subject_uuid + WORKFLOWS):
            for _ in range(MOST):
                if not await _fill_one(unit, queue):
                    break
            else:
                await _go_on_later(unit, queue)


async def _go_on_later(unit: Unit, queue: str) -> None:
    first = await quota_waits.first_waiting(unit.tx, queue)
    if first is not None:
        await quota_waits.wait(unit.tx, dataclasses.replace(first, again_at=unit.now))
        unit.tx.after_commit(unit.services.events.wakeups.wake)


async def _fill_one(unit: Unit, queue: str) -> bool:
    """Look at the first request of a queue; whether to look at the next one."""
    first = await quota_waits.first_waiting(unit.tx, queue)
    if first is None:
        return False
    row = await records.get(unit.tx, REQUESTS, first.request_uuid)
    container_row = await unit.container(first.container_uuid)
    if row is None or container_row is None or container_row["state"] != ContainerState.QUEUED:
        await quota_waits.unwait(unit.tx, [first.request_uuid])
        unit.stale(
            [first.container_uuid]
            if container_row is not None and container_row["state"] in LIVE
            else []
        )
        return True
    subject, container = ContainerRequest.from_record(row), Container.from_record(container_row)
    concerning = await ledger_of(unit).concerning(subject)
    rank = first.rank
    if rank == _NEVER:
        rank = await _rank(unit, subject)
    look = _Look.of(container, subject, rank, queue)
    charged = (await quotas.charges_of(unit.tx, [container.uuid])).get(container.uuid, {})
    outcome = await _look(unit, look, concerning, charged)
    if isinstance(outcome, Room):
        missing = [quota.subject_uuid for quota in concerning if quota.subject_uuid not in charged]
        charge = StoredCharge(rank, False, look.amounts, look.runs_workflow)
        await quotas.charge(unit.tx, container.uuid, missing, charge)
        await quota_waits.unwait(unit.tx, [subject.uuid])
        unit.stale([container.uuid])
        return True
    moved = await _wait(unit, look, outcome, concerning)
    if moved != first:
        await quota_waits.wait(unit.tx, moved)
    # One that can never run is passed by; it is the last then.
    return moved.queue != queue or moved.rank != first.rank


async def _rank(unit: Unit, subject: ContainerRequest) -> int:
    uuid = subject.requesting_container_uuid
    parent = await unit.container(uuid) if uuid else None
    return priority.request_value(subject, {parent["uuid"]: parent["priority"]} if parent else {})


class Quotas(ChangeFollower):
    """Charges containers to quotas, and gives the room of quotas to requests that wait for it."""

    feature = Feature.QUOTAS
    of_containers = ("state", "cost")
    works_off = Mark.TOUCHED

    async def container_changed(self, unit: Unit, old: Record, new: Record) -> None:
        """Change the charges of a container after a change of its state or its cost. Raises NoRoom
        when it may not be locked now.
        """
        if not old:
            # One that is made with a priority, for a further attempt, may have no room.
            if new["priority"] > 0:
                unit.stale([new["uuid"]])
            return
        if new["cost"] != old["cost"] and old["state"] in HELD:
            await spending.spend(unit, old, new, ledger_of(unit).concerning)
        if new["state"] != old["state"]:
            await _follow_state(unit, new)

    async def settle(self, unit: Unit) -> Sequence[Effect]:
        """Give room that became free to the first requests that wait for it."""
        await fill(unit, unit.take(Mark.TOUCHED))
        return ()


async def _follow_state(unit: Unit, new: Record) -> None:
    state = new["state"]
    if state == ContainerState.LOCKED:
        await _hold(unit, new)
    elif state == ContainerState.QUEUED:
        charged = (await quotas.charges_of(unit.tx, [new["uuid"]])).get(new["uuid"], {})
        amounts = rules.amounts_of(Container.from_record(new))
        for uuid, earlier in charged.items():
            charge = dataclasses.replace(earlier, is_held=False, amounts=amounts)
            await quotas.charge(unit.tx, new["uuid"], [uuid], charge)
        unit.touch(charged)
        # What it has may have become too little meanwhile.
        unit.stale([new["uuid"]])
    elif state in FINAL:
        unit.touch(await quotas.discharge(unit.tx, new["uuid"]))
        unit.touch(await quota_waits.unwait_container(unit.tx, new["uuid"]))


async def _hold(unit: Unit, row: Record) -> None:
    """Charge a container that is being locked, in place of what it was charged while it waited."""
    container = Container.from_record(row)
    amounts = rules.amounts_of(container)
    waits = await quota_waits.waits_for(unit.tx, [container.uuid])
    charged = (await quotas.charges_of(unit.tx, [container.uuid])).get(container.uuid, {})
    wanting = [
        subject
        for _, subject in await unit.committed(container.uuid)
        if subject.is_wanted and subject.uuid not in waits
    ]
    charged_subjects: dict[str, None] = {}
    short: Shortage | None = None
    is_free = False
    for subject in wanting:
        concerning = await ledger_of(unit).concerning(subject)
        outcome = await _room_to_hold(unit, container, subject, concerning, charged)
        if isinstance(outcome, Shortage):
            short = outcome
        else:
            is_free = True
            charged_subjects |= {quota.subject_uuid: None for quota in concerning}
    if not is_free and (short is not None or waits):
        subjects = [short.subject_uuid] if short else [wait.subject_uuid for wait in waits.values()]
        raise NoRoom(f"{container.uuid}: cannot lock: no room in {await _titles(unit, subjects)}")
    if surplus := charged.keys() - charged_subjects.keys():
        unit.touch(await quotas.discharge(unit.tx, container.uuid, surplus))
    charge = StoredCharge(container.priority, True, amounts, rules.runs_workflow(container))
    await quotas.charge(unit.tx, container.uuid, charged_subjects, charge)
    if waits:
        # All of its requests count while it is held.
        unit.touch(await quota_waits.unwait_container(unit.tx, container.uuid))
        unit.stale([container.uuid])


async def _titles(unit: Unit, subjects: Iterable[str]) -> str:
    by_subject = await quotas.find(unit.tx, dict.fromkeys(subjects))
    return ", ".join(quota.title for quota in by_subject.values()) or "a quota"


async def _room_to_hold(
    unit: Unit, container: Container, subject: ContainerRequest,
    concerning: Sequence[Quota], charged: Mapping[str, StoredCharge],
) -> Room | Shortage:  # fmt: skip
    """Whether a container may be locked: beside all that is held, and where it was not admitted
    before also beside all that was.
    """
    if any(quota.subject_uuid not in charged for quota in concerning):
        look = _Look.of(container, subject, await _rank(unit, subject))
        return await _look(unit, look, concerning, (), displaces=False)
    uuids = [quota.subject_uuid for quota in concerning]
    look = _Look.of(container, subject, container.priority)
    workflows = await _of_workflows(unit.tx, uuids, look, only_held=True)
    used = (
        await quotas.used(unit.tx, uuids, without=container.uuid, only_held=True) if uuids else {}
    )
    return rules.find_room(
        look.amounts,
        [
            Standing(
                quota=quota,
                used=used[quota.subject_uuid],
                workflows=workflows.get(quota.subject_uuid),
                spent=await spending.spent(unit.tx, quota, unit.now),
            )
            for quota in concerning
        ],
    )


async def end_tree(unit: Unit, request_uuid: str) -> None:
    """Remove the budget of a request that was deleted; what waits for it is looked at."""
    if Infix.REQUEST not in await unit.quota_kinds():
        return
    for row in await records.matching(unit.tx, QUOTAS, subject_uuid=request_uuid):
        await records.delete(unit.tx, QUOTAS, row["uuid"])
        await quotas.forget(unit.tx, request_uuid)
        await audit.deleted(unit.tx, unit.services, QUOTAS, row, user_uuid=unit.user_uuid)
        unit.forget_part(Ledger)
        # Without the quota there is room for all that waits for it.
        unit.touch([request_uuid])


async def refuse(unit: Unit, container_uuid: str) -> None:
    """Have a container looked at anew whose lock was refused: its requests wait, or have room
    again.
    """
    unit.touch(await quotas.discharge(unit.tx, container_uuid))
    unit.stale([container_uuid])


async def is_readable(tx: Transaction, quota: Quota, reader: str | None) -> bool:
    """Whether a user can read a quota, and so may be told its subject and its use; None is an
    administrator, who can.
    """
    if reader is None or quota.owner_uuid == reader:
        return True
    return await permission_queries.level_in(tx, reader, quota.owner_uuid) > 0


async def check(
    tx: Transaction, quota: Quota, check_one: Callable[[Quota], None], reader: str | None
) -> None:
    """Check a quota, for a user (None: an administrator). Raises Invalid, which names the quota if
    the user can read it.
    """
    try:
        check_one(quota)
    except Invalid:
        if await is_readable(tx, quota, reader):
            raise
        raise Invalid(rules.HIDDEN_FAULT) from None


async def verdicts(
    tx: Transaction, subjects: Iterable[ContainerRequest], now: str, *, reader: str | None
) -> dict[str, ReadinessVerdict]:
    """The requests that wait for a quota, by uuid, with the reason in words for a user
    (None: an administrator).
    """
    by_uuid = {subject.uuid: subject for subject in subjects}
    waits = await quota_waits.waits_of(tx, by_uuid)
    if not waits:
        return {}
    names = {wait.subject_uuid for wait in waits.values()}
    by_subject, used = await quotas.find(tx, names), await quotas.used(tx, names)
    spent = {uuid: await spending.spent(tx, quota, now) for uuid, quota in by_subject.items()}
    rows = await records.among(
        tx, CONTAINERS, "uuid", dict.fromkeys(wait.container_uuid for wait in waits.values())
    )
    amounts = {row["uuid"]: rules.amounts_of(Container.from_record(row)) for row in rows}
    verdict: dict[str, ReadinessVerdict] = {}
    for uuid, wait in waits.items():
        quota = by_subject.get(wait.subject_uuid)
        # Its quota was deleted a moment ago.
        if quota is not None:
            sentence = rules.shortage_sentence(
                quota,
                wait.reason,
                used=used[wait.subject_uuid],
                needed=amounts.get(wait.container_uuid, Amounts()),
                spent=spent.get(wait.subject_uuid, Spent()),
            )
            if not await is_readable(tx, quota, reader):
                sentence = rules.HIDDEN_WAIT
            is_money = wait.reason in (Limit.MONEY, Limit.BUDGET)
            readiness = Readiness.BUDGET if is_money else Readiness.QUOTA
            verdict[uuid] = ReadinessVerdict(readiness, sentence)
    return verdict


async def check_commit(unit: Unit, change: request.RequestChange) -> None:
    """Check that a request may be committed: not too many of its subjects wait. Raises Invalid."""
    subject = change.request
    if subject.state is not request_phases.RequestState.COMMITTED or "state" not in change.changed:
        return
    ledger = ledger_of(unit)
    for quota in await ledger.concerning(subject):
        if quota.queued is None:
            continue
        before = ledger.queued.get(quota.subject_uuid)
        if before is None:
            before = await quotas.queued(unit.tx, quota.subject_uuid, most=quota.queued + 1)
        queued = partial(rules.check_queued, queued=before)
        await check(unit.tx, quota, queued, await _reader(unit))
        # Counted once in a transaction of many requests.
        ledger.queued[quota.subject_uuid] = before + 1


async def check_new(unit: Unit, change: request.RequestChange, container: Container) -> None:
    """Check that a request may be committed that gets this new container. Raises Invalid, also
    when it could never run in its quotas.
    """
    await check_commit(unit, change)
    if change.request.state is request_phases.RequestState.COMMITTED:
        for quota in await ledger_of(unit).concerning(change.request):
            single = partial(
                rules.check_single,
                needed=rules.amounts_of(container),
                runs_workflow=rules.runs_workflow(container),
            )
            await check(unit.tx, quota, single, await _reader(unit))


async def _reader(unit: Unit) -> str | None:
    """The user who makes the changes; None for an administrator."""
    user = await records.get(unit.tx, USERS, unit.user_uuid)
    return None if user is not None and user["is_admin"] else unit.user_uuid
