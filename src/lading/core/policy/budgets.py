"""Money of a quota: a limit for each day, week or month, and a budget for all time.

Spent is what the containers cost that are charged to the quota (`core.policy.quotas`), those that
run included: their supervisors report the cost so far. Days are those of UTC; a week begins on
Monday. From the limit on no further container starts; those that run go on, unless the quota says
`stop`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

_WEEK = 7


class Period(StrEnum):
    """The time for which a limit of money is set."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Limits in dollars; None is no limit. `warn_share`: the share of one at which is warned.
    `stops`: containers that run are stopped at the end, too.
    """

    limit: float | None = None
    period: Period = Period.MONTH
    budget: float | None = None
    warn_share: float = 0.8
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """Dollars spent in the present period, and in all."""

    period: float = 0.0
    total: float = 0.0


def period_start(period: Period, day: str) -> str:
    """The first day of the period of a day; days are written as 2026-01-31."""
    parsed = date.fromisoformat(day)
    match period:
        case Period.DAY:
            return day
        case Period.WEEK:
            return (parsed - timedelta(days=parsed.weekday())).isoformat()
    return parsed.replace(day=1).isoformat()


def next_period(period: Period, day: str) -> str:
    """The first day of the period after that of a day."""
    start = date.fromisoformat(period_start(period, day))
    match period:
        case Period.DAY:
            return (start + timedelta(days=1)).isoformat()
        case Period.WEEK:
            return (start + timedelta(days=_WEEK)).isoformat()
    later = start.replace(day=28) + timedelta(days=4)
    return later.replace(day=1).isoformat()


def exhausted(money: Money, spent: Spent) -> str | None:
    """The limit that is reached, "money" or "budget"; None for none."""
    if money.budget is not None and spent.total >= money.budget:
        return "budget"
    if money.limit is not None and spent.period >= money.limit:
        return "money"
    return None


def crossed(money: Money, before: Spent, after: Spent) -> tuple[tuple[str, bool], ...]:
    """The limits at which a payment reached the warning share or the end: "money" or "budget", and
    whether it is the end.
    """
    reached = []
    for name, most, was, now in (
        ("money", money.limit, before.period, after.period),
        ("budget", money.budget, before.total, after.total),
    ):
        if most is None:
            continue
        if was < most <= now:
            reached.append((name, True))
        elif was < most * money.warn_share <= now:
            reached.append((name, False))
    return tuple(reached)
