"""The output of `lading cloud test` and `lading kubernetes test`: each step as soon as it is over,
with its remedy, and the verdict.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from lading.cli import display
from lading.cli.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from lading.client.checks import CheckStep


def run_selftest(
    main: Callable[[Callable[[CheckStep], None], Callable[[str], None]], bool],
    *,
    created: str,
) -> display.Output:
    """Run a test; the exit code is 0 without faults, else 1, and 130 after an interruption. `main`
    gets a function for each step that is over and one for the present activity; it removes the
    things that the test has `created`, also before it raises.
    """
    steps: list[CheckStep] = []

    def tell(step: CheckStep) -> None:
        steps.append(step)
        if not display.is_json_command():
            _show(step)

    is_fit = is_interrupted = False
    with display.steps("testing") as report:
        try:
            is_fit = main(
                tell, lambda activity: report(display.shorten(activity, 100), len(steps), 0)
            )
        except (asyncio.CancelledError, KeyboardInterrupt):
            is_interrupted = True
    code = INTERRUPTED if is_interrupted else 0 if is_fit else 1
    document = {
        "ok": is_fit,
        "interrupted": is_interrupted,
        "steps": [_plain(step) for step in steps],
    }
    yield display.Conclusion(document, code)
    if is_interrupted:
        click.echo(f"The test was interrupted; its {created} are removed.")
    else:
        click.echo(f"This configuration {'works' if is_fit else 'does not work yet'}.")


def _plain(step: CheckStep) -> dict[str, object]:
    return {
        "name": step.name,
        "ok": step.ok,
        "found": step.finding,
        "mend": step.remedy,
        **step.subject,
        "seconds": step.seconds,
    }


def _show(step: CheckStep) -> None:
    mark = click.style("ok  ", fg="green") if step.ok else click.style("FAIL", fg="red")
    subject = next(iter(step.subject.values()), "")
    click.echo(
        f"{mark}  {subject:<12}  {step.name:<12}  {display.duration(step.seconds):>7}"
        f"  {step.finding}"
    )
    if step.remedy:
        click.echo(f"      to mend: {step.remedy}")
    sys.stdout.flush()
