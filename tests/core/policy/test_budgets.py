"""Money of quotas."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lading.core.policy.budgets import (
    Money,
    Period,
    Spent,
    crossed,
    exhausted,
    next_period,
    period_start,
)

DAYS = st.dates(date(2000, 1, 1), date(2100, 1, 1))


@given(day=DAYS, period=st.sampled_from(Period))
def test_a_day_is_in_its_period(day: date, period: Period) -> None:
    start, end = period_start(period, day.isoformat()), next_period(period, day.isoformat())
    assert start <= day.isoformat() < end
    last = (date.fromisoformat(end) - timedelta(days=1)).isoformat()
    assert (period_start(period, last), period_start(period, end)) == (start, end)


def test_weeks_begin_on_monday_and_months_with_their_first_day() -> None:
    assert period_start(Period.WEEK, "2026-01-01") == "2025-12-29"
    assert next_period(Period.MONTH, "2026-12-31") == "2027-01-01"
    assert next_period(Period.MONTH, "2026-01-31") == "2026-02-01"


def test_the_end_of_money() -> None:
    money = Money(limit=10, budget=100)
    assert exhausted(money, Spent(9.99, 99.99)) is None
    assert exhausted(money, Spent(10, 99)) == "money"
    assert exhausted(money, Spent(10, 100)) == "budget"
    assert exhausted(Money(), Spent(1e9, 1e9)) is None


@given(payments=st.lists(st.floats(0, 30), max_size=20), share=st.floats(0.1, 1.0))
def test_each_threshold_is_told_once(payments: list[float], share: float) -> None:
    money, spent = Money(budget=100, warn_share=share), Spent()
    told: list[tuple[str, bool]] = []
    for one in payments:
        after = Spent(spent.period + one, spent.total + one)
        told += crossed(money, spent, after)
        spent = after
    assert len(told) == len(set(told))
    assert (("budget", True) in told) is (spent.total >= 100)
    if spent.total >= 100 * share:
        assert told
