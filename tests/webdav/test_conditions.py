from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lading.webdav import conditions
from lading.webdav.conditions import State, Verdict

HERE = State("tag", datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC))
NOTHING = State()
THEN = "Fri, 02 Jan 2026 03:04:05 GMT"
EARLIER, LATER = "Thu, 01 Jan 2026 00:00:00 GMT", "Sat, 03 Jan 2026 00:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "reads", "verdict"),
    [
        ({}, True, Verdict.GO_ON),
        ({"if-match": '"a", "tag"'}, False, Verdict.GO_ON),
        ({"if-match": 'W/"tag"'}, False, Verdict.REFUSED),
        ({"if-match": '"a"'}, True, Verdict.REFUSED),
        ({"if-match": "*"}, False, Verdict.GO_ON),
        ({"if-unmodified-since": EARLIER}, False, Verdict.REFUSED),
        ({"if-unmodified-since": THEN}, False, Verdict.GO_ON),
        ({"if-unmodified-since": "nonsense"}, False, Verdict.GO_ON),
        ({"if-match": "*", "if-unmodified-since": EARLIER}, False, Verdict.GO_ON),
        ({"if-none-match": 'W/"tag"'}, True, Verdict.NOT_MODIFIED),
        ({"if-none-match": '"tag"'}, False, Verdict.REFUSED),
        ({"if-none-match": '"a"', "if-modified-since": LATER}, True, Verdict.GO_ON),
        ({"if-modified-since": THEN}, True, Verdict.NOT_MODIFIED),
        ({"if-modified-since": EARLIER}, True, Verdict.GO_ON),
        ({"if-modified-since": THEN}, False, Verdict.GO_ON),
    ],
)
def test_judge(headers: dict[str, str], reads: bool, verdict: Verdict) -> None:
    assert conditions.judge(headers, HERE, reads=reads) is verdict


def test_of_nothing() -> None:
    assert conditions.judge({"if-match": "*"}, NOTHING, reads=False) is Verdict.REFUSED
    assert conditions.judge({"if-none-match": "*"}, NOTHING, reads=False) is Verdict.GO_ON
    assert conditions.judge({"if-match": '""'}, NOTHING, reads=False) is Verdict.REFUSED


@pytest.mark.parametrize(
    ("header", "holds"),
    [
        (None, True),
        ('"tag"', True),
        (THEN, True),
        ('W/"tag"', False),
        ('"a"', False),
        (LATER, False),
        ("x", False),
    ],
)
def test_ranges_of_the_same(header: str | None, holds: bool) -> None:
    assert conditions.range_holds({"if-range": header} if header else {}, HERE) is holds
    assert conditions.range_holds({"if-range": THEN}, State("tag")) is False


def test_dates_without_a_zone_are_utc() -> None:
    assert conditions.range_holds({"if-range": "Fri, 02 Jan 2026 03:04:05 -0000"}, HERE)
    assert conditions.http_date(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == THEN
