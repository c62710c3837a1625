"""What is said about samples."""

from __future__ import annotations

import pytest

from bench.api.http import Run
from bench.figures import absent, calls, durations, percentile, throughput


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_percentiles_are_samples(share: float, value: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], share) == value


def test_no_samples_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


def test_durations_are_milliseconds_and_promises_are_checked() -> None:
    kept = durations("x", [0.01, 0.02, 0.03], p50_limit=20)
    assert (kept.p50, kept.p99, kept.met) == (20.0, 30.0, True)
    assert durations("x", [0.021], p50_limit=20).met is False
    assert durations("x", [1.0]).met is None
    both = durations("x", [0.01, 0.3], p50_limit=40, p99_limit=200)
    assert (both.target, both.met) == ("p50 <= 40 ms, p99 <= 200 ms", False)


def test_throughput_is_a_rate() -> None:
    assert throughput("x", 300, 10.0).rate == 30.0
    assert throughput("x", 300, 10.0, least=31).met is False


def test_what_could_not_be_measured_says_why() -> None:
    assert absent("docker", "not installed").note == "not installed"


def test_calls_keep_both_promises_or_break_them() -> None:
    run = Run(seconds=2.0, latencies=[0.01] * 100, server=0.5, database=0.25, client=0.1)
    kept = calls("x", run, least=50, p99_limit=15)
    assert (kept.rate, kept.p99, kept.server, kept.database, kept.client) == (
        50.0,
        10.0,
        5.0,
        2.5,
        1.0,
    )
    assert (kept.target, kept.met) == (">= 50 /s, p99 < 15 ms", True)
    assert calls("x", run, least=50, done=99).met is False
    assert calls("x", run, p99_limit=10).met is False
    assert calls("x", run).met is None
