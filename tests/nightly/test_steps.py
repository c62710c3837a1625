"""Steps of the night: their ends, and what is left of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor import linux
from tests.levels import NIGHTLY
from tests.nightly import __main__ as nightly
from tests.nightly.steps import Outcome, run_step, table


def test_a_step_passes_or_fails_and_its_output_is_kept(tmp_path: Path) -> None:
    good = run_step("good", ["sh", "-c", "echo said; echo wrong >&2"], 60, tmp_path)
    bad = run_step("bad", ["sh", "-c", "exit 3"], 60, tmp_path)
    assert (good.has_passed, bad.has_passed, bad.code) == (True, False, 3)
    assert good.log.read_text() == "said\nwrong\n"


@pytest.mark.parametrize("ignores", ["", "trap '' TERM; "])
def test_a_step_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, ignores: str
) -> None:
    script = f"{ignores}sleep 1000 & echo $!; wait; wait"
    outcome = run_step("slow", ["sh", "-c", script], 1.0, tmp_path, parting=0.5)
    assert (outcome.code, outcome.has_passed) == (None, False)
    while linux.is_running(int(outcome.log.read_text())):
        # A killed process needs a moment.
        os.sched_yield()


def test_the_table_has_each_time_and_the_sum(tmp_path: Path) -> None:
    log = tmp_path / "log"
    outcomes = [
        Outcome("fuzz", 61.2, 0, log), Outcome("soak", 3600, 2, log), Outcome("cwl", 2, None, log)
    ]  # fmt: skip
    assert table(outcomes).splitlines() == [
        "fuzz         0:01:01  passed",
        f"soak         1:00:00  FAILED  {log}",
        f"cwl          0:00:02  too long  {log}",
        "sum          1:01:03  1 passed, 2 did not: soak, cwl",
    ]


@pytest.mark.parametrize(
    ("asked", "failing", "code"),
    [([], [], 0), ([], ["coverage"], 1), (["soak", "fuzz"], [], 0), (["soak"], ["fuzz"], 0)],
)
def test_it_goes_on_after_a_failed_step(
    asked: list[str],
    failing: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = []

    def run(name: str, command: list[str], limit: float, logs: Path) -> Outcome:
        assert command == ["make", name]
        ran.append(name)
        return Outcome(name, 1.0, int(name in failing), logs / name)

    monkeypatch.setattr(nightly, "run_step", run)
    monkeypatch.setattr(nightly, "LOGS", tmp_path)
    monkeypatch.setattr("sys.argv", ["nightly", *asked])
    assert nightly.main() == code
    assert ran == [step.target for step in NIGHTLY if not asked or step.target in asked]


def test_an_unknown_step_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["nightly", "fuz"])
    with pytest.raises(SystemExit):
        nightly.main()
