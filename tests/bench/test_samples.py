"""The floors of the pipeline of 50 samples."""

from __future__ import annotations

from bench.samples import own_seconds


def test_two_samples_run_at_a_time_and_the_other_steps_alone() -> None:
    spans = [("index", 0.0, 1.0), ("count-q15.0", 1.0, 2.0), ("count-q15.1", 1.0, 3.0)]
    assert own_seconds([*spans, ("merge", 3.0, 3.5), ("plot", 4.0, 4.25)]) == 1 + 1.5 + 0.75
