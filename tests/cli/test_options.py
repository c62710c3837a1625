"""Values of options."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from lading.cli.options import (
    ASSIGNMENT,
    DURATION,
    INPUT,
    MOMENT,
    NUMBERS,
    PROPERTY,
    RETRY,
    SIZE,
    SIZES,
)
from lading.cli.running.inputs import Input
from lading.core.quantities import parse_time


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SIZE, "512MiB", 512 << 20),
        (SIZE, "1000", 1000),
        (SIZE, 5, 5),
        (DURATION, "90", 90),
        (DURATION, "2h", 7200),
        (ASSIGNMENT, "A=", ("A", "")),
        (ASSIGNMENT, ("A", "b"), ("A", "b")),
        (ASSIGNMENT, "LADING_TEST", ("LADING_TEST", "here")),
        (INPUT, Input(target="/in"), Input(target="/in")),
        (NUMBERS, "4", 4),
        (NUMBERS, "2-8", [2, 8]),
        (NUMBERS, 3, 3),
        (SIZES, "1MiB-2MiB", [1 << 20, 2 << 20]),
        (SIZES, "1.5GiB", 3 << 29),
        (PROPERTY, "a=b=c", ("a", "b=c")),
        (PROPERTY, "a=[1]", ("a", [1])),
        (PROPERTY, ("a", 1), ("a", 1)),
        (RETRY, "node=5,delay=1m", ("node", {"limit": 5, "delay": 60})),
        (RETRY, "oom=factor=2,most=1KiB", ("oom", {"factor": 2.0, "most": 1024})),
        (RETRY, ("oom", {}), ("oom", {})),
        (MOMENT, "2026-12-24T18:00:00Z", "2026-12-24T18:00:00.000000000Z"),
        (MOMENT, "2026-12-24 18:00+01:00", "2026-12-24T17:00:00.000000000Z"),
    ],
)
def test_values(
    kind: click.ParamType[Any], text: object, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADING_TEST", "here")
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SIZE, "x"), (DURATION, "x"), (ASSIGNMENT, "=x"), (INPUT, "x"), (NUMBERS, "0"),
        (NUMBERS, "-1"), (NUMBERS, "a-b"), (SIZES, "2GiB-1GiB"), (PROPERTY, "=x"), (PROPERTY, "x"),
        (RETRY, "moon=1"), (RETRY, "oom"), (RETRY, "node=factor=2"), (RETRY, "oom=x"),
        (MOMENT, "25:00"), (MOMENT, "2026-13-01"), (MOMENT, ""), (MOMENT, "999999999999d"),
    ],
)  # fmt: skip
def test_what_is_no_value(kind: click.ParamType[Any], text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)


def test_a_clock_time_is_the_next_one() -> None:
    now = datetime.now(UTC)
    for text in ("0:00", "12:34", "23:59"):
        moment = parse_time(str(MOMENT.convert(text, None, None)))
        assert timedelta(0) < moment - now <= timedelta(hours=25)


def test_a_duration_is_from_now() -> None:
    moment = parse_time(str(MOMENT.convert("1d2h", None, None)))
    assert timedelta(hours=25, minutes=59) < moment - datetime.now(UTC) <= timedelta(hours=26)
