"""The spending of the money of quotas: reports of cost, warnings, and the end of a budget.

A supervisor reports the cost of its container so far, and at its end; each difference is added to
the subjects that the container is charged to. `core.policy.budgets` has the rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from lading.api.events import audit
from lading.api.unit import CancelRequest, ChangeFollower, Effect, Mark, Unit
from lading.core.containers.container import HELD, Container
from lading.core.containers.request import ContainerRequest
from lading.core.policy import budgets
from lading.core.policy.budgets import Spent
from lading.core.policy.quotas import ALL_SPENT, SHARE_SPENT, Limit, Quota, crossing_sentence
from lading.core.quantities import format_time, parse_time
from lading.core.records.log_rows import LogRowType
from lading.core.records.schema import Record
from lading.store import quotas
from lading.store.database import Transaction

# Containers that are warned, held or stopped at once; others when they are looked at.
_MOST: Final = 1000
Concerning: TypeAlias = Callable[[ContainerRequest], Awaitable[Sequence[Quota]]]
"""Finds the quotas that concern a request."""


def day_of(now: str) -> str:
    """The day of an API timestamp."""
    return now[:10]


def next_moment(quota: Quota, now: str) -> str:
    """The API timestamp at which the next period of a quota begins."""
    return format_time(parse_time(budgets.next_period(quota.money.period, day_of(now))))


async def spent(tx: Transaction, quota: Quota, now: str) -> Spent:
    """The spending of a quota; nothing is read for a quota without money."""
    money = quota.money
    if money.limit is None and money.budget is None:
        return Spent()
    return await spent_of(tx, quota, now)


async def spent_of(tx: Transaction, quota: Quota, now: str) -> Spent:
    """The spending in the present period of a quota, and in all."""
    since = budgets.period_start(quota.money.period, day_of(now))
    return await quotas.spent(tx, quota.subject_uuid, since)


class SpentBudgets(ChangeFollower):
    """Cancels the requests whose budget, which stops them, is spent."""

    works_off = Mark.STOPPED

    async def settle(self, unit: Unit) -> Sequence[Effect]:
        """The cancellations."""
        return [CancelRequest(uuid) for uuid in unit.take(Mark.STOPPED)]


async def spend(unit: Unit, old: Record, new: Record, concerning: Concerning) -> None:
    """Add the difference of the cost of a container to what the subjects have spent that it is
    charged to.
    """
    amount = float(new["cost"]) - float(old["cost"])
    charged = (await quotas.charges_of(unit.tx, [new["uuid"]])).get(new["uuid"], {})
    found = await quotas.find(unit.tx, charged.keys())
    for subject_uuid, quota in sorted(found.items()):
        before = await spent(unit.tx, quota, unit.now)
        await quotas.spend(unit.tx, [subject_uuid], day_of(unit.now), amount)
        after = Spent(before.period + amount, before.total + amount)
        for name, is_end in budgets.crossed(quota.money, before, after):
            await _tell(unit, quota, name, after, is_end=is_end)
            if is_end and quota.money.stops:
                await _stop(unit, quota, concerning)


async def _tell(unit: Unit, quota: Quota, name: str, after: Spent, *, is_end: bool) -> None:
    """Write an event that the share to warn at, or the end, is reached; at the end nothing further
    of the subject starts.
    """
    money = quota.money
    sentence = crossing_sentence(quota, name, after, is_end=is_end)
    about: Record = {"uuid": quota.uuid, "owner_uuid": quota.owner_uuid}
    properties: Record = {
        "text": sentence,
        "subject_uuid": quota.subject_uuid,
        "limit": name,
        "spent": after.total if name == Limit.BUDGET else after.period,
        "most": money.budget if name == Limit.BUDGET else money.limit,
    }
    kind = LogRowType.BUDGET_END if is_end else LogRowType.BUDGET_WARNING
    await audit.note(unit.tx, unit.services, about, kind, sentence, properties)
    if is_end:
        unit.stale(await quotas.admitted(unit.tx, quota.subject_uuid, most=_MOST))
    for uuid in await quotas.running(unit.tx, quota.subject_uuid, most=_MOST):
        # Without the name and the use: the record is read by others than readers of the quota.
        await _warn(unit, uuid, ALL_SPENT if is_end else SHARE_SPENT)


async def _warn(unit: Unit, container_uuid: str, warning: str) -> None:
    row = await unit.container(container_uuid)
    if row is not None and row["state"] in HELD:
        status = {**Container.from_record(row).runtime_status, "warning": warning}
        await unit.write_container(row, {"runtime_status": status}, expected={})


async def _stop(unit: Unit, quota: Quota, concerning: Concerning) -> None:
    """Have the requests for running containers cancelled that a quota concerns; for others these
    containers go on.
    """
    for container_uuid in await quotas.running(unit.tx, quota.subject_uuid, most=_MOST):
        for _, subject in await unit.committed(container_uuid):
            if any(concerned.uuid == quota.uuid for concerned in await concerning(subject)):
                unit.stop(subject.uuid)
