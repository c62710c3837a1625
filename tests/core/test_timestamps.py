"""Timestamps: what is shown, and what is understood."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.quantities import format_time, later, parse_time


@given(st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_what_is_shown_is_understood(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment


@given(st.lists(st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)), max_size=5))  # noqa: DTZ001
def test_texts_sort_as_times(moments: list[datetime]) -> None:
    assert sorted(map(format_time, moments)) == [format_time(moment) for moment in sorted(moments)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-01-02", "2026-01-02T00:00:00.000000000Z"),
        ("2026-01-02 03:04", "2026-01-02T03:04:00.000000000Z"),
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456000Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05.000000000Z"),
        ("2026-01-02T03:04:05.5-0130", "2026-01-02T04:34:05.500000000Z"),
        ("2026-01-02T03:04:05+00:00Z", "2026-01-02T03:04:05.000000000Z"),
    ],
)
def test_lenient_forms(text: str, shown: str) -> None:
    assert format_time(parse_time(text)) == shown


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "2026-01-02T25:00:00Z"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        parse_time(text)


def test_other_zones_are_shown_in_utc() -> None:
    moment = datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=3)))
    assert format_time(moment) == "2026-01-02T00:00:00.000000000Z"


def test_early_years_sort_first() -> None:
    early = format_time(parse_time("0111-02-03T04:05:06.7Z"))
    assert early == "0111-02-03T04:05:06.700000000Z"
    assert early < format_time(parse_time("2026-01-01"))


def test_later_ends_with_the_last_year() -> None:
    assert later("2026-01-02T03:04:05.000000000Z", 86400) == "2026-01-03T03:04:05.000000000Z"
    last = "9999-12-31T23:59:59.999999000Z"
    for seconds in (1, 1 << 40, 1e300):
        assert later("9999-12-31T23:59:59.999999000Z", seconds) == last
    assert later("2026-01-02", 1 << 40) == last
