"""The output of the tests of a cloud and of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner, Result

from lading.cli import display
from lading.cli.selftests import run_selftest
from lading.client.checks import CheckState, CheckStep

GOOD = CheckStep(name="list", state=CheckState.OK, finding="none", subject={"type": "small"})
BAD = CheckStep(name="ssh", state=CheckState.FAILED, finding="refused", remedy="open the port")


def play(*words: str, steps: tuple[CheckStep, ...], fault: BaseException | None = None) -> Result:
    def main(tell: Callable[[CheckStep], None], doing: Callable[[str], None]) -> bool:
        doing("testing")
        for step in steps:
            tell(step)
        if fault is not None:
            raise fault
        return all(step.ok for step in steps)

    @click.command()
    @display.with_json
    def test() -> display.Output:
        yield from run_selftest(main, created="VMs")

    # As `main` of the command line: the value of a command is its exit code.
    return CliRunner().invoke(test, words, standalone_mode=False)


def test_each_step_and_the_verdict_are_shown() -> None:
    done = play(steps=(GOOD, BAD))
    assert done.return_value == 1
    assert done.stdout.splitlines() == [
        "ok    small         list           0.00 s  none",
        "FAIL                ssh            0.00 s  refused",
        "      to mend: open the port",
        "This configuration does not work yet.",
    ]
    assert play(steps=(GOOD,)).return_value == 0


def test_steps_are_a_document() -> None:
    done = play("--json", steps=(GOOD,))
    assert json.loads(done.stdout) == {
        "ok": True,
        "interrupted": False,
        "steps": [
            {
                "name": "list",
                "ok": True,
                "found": "none",
                "mend": "",
                "type": "small",
                "seconds": 0.0,
            }
        ],
    }


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_interruption_is_told(words: tuple[str, ...]) -> None:
    done = play(*words, steps=(), fault=KeyboardInterrupt())
    assert done.return_value == 130
    assert ("VMs are removed" in done.stdout) is not bool(words)
    assert ('"interrupted": true' in done.stdout) is bool(words)
