"""Checks: their steps, remedies, times, and those that need others."""

from __future__ import annotations

from collections.abc import Callable

from lading.client.checks import CheckFault, CheckRunner, CheckState, CheckStep
from lading.core.errors import LadingError, NotFound


def make_runner(
    steps: list[CheckStep], remedy_of: Callable[[str, LadingError], str] | None = None
) -> CheckRunner:
    times = iter(range(99))
    return CheckRunner(
        {"a": "mend a"},
        tell=steps.append,
        clock=lambda: float(next(times)),
        remedy_of=remedy_of or (lambda _name, _error: ""),
    )


async def answer() -> int:
    return 5


async def fail(error: LadingError) -> int:
    raise error


async def test_a_step_has_the_finding_and_its_time() -> None:
    steps: list[CheckStep] = []
    doing: list[str] = []
    runner = make_runner(steps)
    runner.doing = doing.append
    runner.subject = {"type": "small"}
    assert await runner.attempt("a", answer(), lambda number: f"{number} things") == 5
    [step] = steps
    assert (step.finding, step.ok, step.remedy, step.seconds) == ("5 things", True, "", 1.0)
    assert (step.subject, doing, runner.failed) == ({"type": "small"}, ["a"], set())


async def test_the_remedy_is_that_of_the_fault_of_the_error_or_of_the_check() -> None:
    steps: list[CheckStep] = []
    runner = make_runner(steps, lambda name, _: "find it" if name == "b" else "")
    for name, error in (
        ("a", NotFound("none")),
        ("b", NotFound("none")),
        ("b", CheckFault("none", "the best")),
        ("c", NotFound("none")),
    ):
        assert await runner.attempt(name, fail(error)) is None
    assert [step.remedy for step in steps] == ["mend a", "find it", "the best", ""]
    assert {step.state for step in steps} == {CheckState.FAILED}


def test_a_check_that_needs_another_is_skipped() -> None:
    steps: list[CheckStep] = []
    runner = make_runner(steps)
    runner.fail("a", "no answer")
    runner.skip("b", "a")
    assert (steps[1].state, steps[1].ok) == (CheckState.SKIPPED, False)
    assert "'a'" in steps[1].finding
    assert runner.failed == {"a", "b"}
