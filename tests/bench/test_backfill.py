"""What backfill gains, and that no container starves for it."""

from __future__ import annotations

from bench import backfill


def test_the_processors_are_busier_and_the_large_ones_wait_no_longer() -> None:
    figures = {one.name: one for one in backfill.measure(containers=60)}
    before = figures["2 VCPUs, none passes: wait, small"]
    after = figures["2 VCPUs, known times: wait, small"]
    assert (after.p50 or 0.0) < (before.p50 or 0.0)
    large = figures["2 VCPUs, known times: wait, whole machine"]
    assert large.count + after.count == 60
