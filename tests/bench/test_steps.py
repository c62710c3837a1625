from __future__ import annotations

from dataclasses import replace

import pytest

from bench.requests import Outcome
from bench.steps import STEPS, moments

BEGAN = "2026-01-01T00:00:0{}.000000000Z {}"
WORDS = (
    "crunch-run 1",
    "image x; 0 input collections",
    "starting the command",
    "the command ended with exit code 0",
)
OUTCOME = Outcome(
    queued=1767225600.0,
    finished=1767225609.0,
    heard=1767225609.5,
    output={},
    log={
        "crunch-run.txt": "".join(
            f"{BEGAN.format(at, text)}\n" for at, text in enumerate(WORDS, 1)
        ),
        "stdout.txt": "2026-01-01T00:00:03.600000000Z 1767225603500000000\n",
    },
)


def test_moments_are_in_the_order_of_the_steps() -> None:
    found = moments(OUTCOME)
    assert list(found) == [name for name, _ in STEPS[1:-1]]
    assert sorted(found.values()) == list(found.values())
    assert found["command"] - found["prepared"] == 0.5


def test_a_log_that_does_not_say_it_is_an_error() -> None:
    log = dict(OUTCOME.log)
    for name, text, fault in (
        ("crunch-run.txt", BEGAN.format(1, "x"), "no line"),
        ("stdout.txt", "", "lacks what"),
    ):
        with pytest.raises(RuntimeError, match=fault):
            moments(replace(OUTCOME, log={**log, name: text}))
