from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lading.fileserving import conditions
from lading.fileserving.conditions import ConditionResult, ResourceState

HERE = ResourceState("tag", datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC))
NOTHING = ResourceState()
THEN = "Fri, 02 Jan 2026 03:04:05 GMT"
EARLIER, LATER = "Thu, 01 Jan 2026 00:00:00 GMT", "Sat, 03 Jan 2026 00:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "reads", "verdict"),
    [
        ({}, True, ConditionResult.GO_ON),
        ({"if-match": '"a", "tag"'}, False, ConditionResult.GO_ON),
        ({"if-match": 'W/"tag"'}, False, ConditionResult.REFUSED),
        ({"if-match": '"a"'}, True, ConditionResult.REFUSED),
        ({"if-match": "*"}, False, ConditionResult.GO_ON),
        ({"if-unmodified-since": EARLIER}, False, ConditionResult.REFUSED),
        ({"if-unmodified-since": THEN}, False, ConditionResult.GO_ON),
        ({"if-unmodified-since": "nonsense"}, False, ConditionResult.GO_ON),
        ({"if-match": "*", "if-unmodified-since": EARLIER}, False, ConditionResult.GO_ON),
        ({"if-none-match": 'W/"tag"'}, True, ConditionResult.NOT_MODIFIED),
        ({"if-none-match": '"tag"'}, False, ConditionResult.REFUSED),
        ({"if-none-match": '"a"', "if-modified-since": LATER}, True, ConditionResult.GO_ON),
        ({"if-modified-since": THEN}, True, ConditionResult.NOT_MODIFIED),
        ({"if-modified-since": EARLIER}, True, ConditionResult.GO_ON),
        ({"if-modified-since": THEN}, False, ConditionResult.GO_ON),
    ],
)
def test_judge(headers: dict[str, str], reads: bool, verdict: ConditionResult) -> None:
    assert conditions.judge_conditions(headers, HERE, reads=reads) is verdict


def test_of_nothing() -> None:
    assert (
        conditions.judge_conditions({"if-match": "*"}, NOTHING, reads=False)
        is ConditionResult.REFUSED
    )
    assert (
        conditions.judge_conditions({"if-none-match": "*"}, NOTHING, reads=False)
        is ConditionResult.GO_ON
    )
    assert (
        conditions.judge_conditions({"if-match": '""'}, NOTHING, reads=False)
        is ConditionResult.REFUSED
    )


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
    assert conditions.range_holds({"if-range": THEN}, ResourceState("tag")) is False


def test_dates_without_a_zone_are_utc() -> None:
    assert conditions.range_holds({"if-range": "Fri, 02 Jan 2026 03:04:05 -0000"}, HERE)
    assert conditions.http_date(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == THEN
