"""`lading doctor`: checks of this machine, or of a running site, with a remedy for each fault."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lading.cli import display
from lading.cli.interruption import run_in_loop
from lading.client.servers.environment import default_data_directory

if TYPE_CHECKING:
    from lading.client.checks import CheckStep
    from lading.wiring.checked_machine import Check


@click.command()
@click.option(
    "--data",
    envvar="LADING_DATA",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory to be used.  [default: $LADING_DATA, else as 'lading up']",
)
@click.option(
    "--live",
    is_flag=True,
    help="Check the site that the environment names instead, up to a container that runs there.",
)
@click.option(
    "--site",
    "config",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Check the batch system that this configuration names instead, with its directories.",
)
@click.option("--image", default="", help="With --live: image with a shell.  [default: the newest]")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="With --live: seconds for the container to end.",
)
@display.with_json
def doctor(
    data: Path | None, live: bool, config: Path | None, image: str, timeout: float
) -> display.Output:
    """Check whether this machine can run containers, and show a remedy for each fault.

    With --live the site is checked, from here: server, clock, token, parts, blocks, collection,
    files, events, image, a container, its output. The records that this makes are removed again.

    With --site FILE it is run where a dispatcher for Slurm, Grid Engine or PBS is to run, by the
    same user.

    The exit code is 0 when containers can run, else 1.

    \b
    lading doctor
    lading doctor --live
    lading doctor --site config.yml
    """
    if live:
        yield from _check_site(image, timeout)
        return
    if config is not None:
        yield from _check_batch_system(config)
        return
    from lading.wiring.checked_machine import CheckedMachine
    from lading.wiring.machine_checks import can_run, examine, first_remedy

    place = data or default_data_directory(os.environ)
    checks = examine(CheckedMachine(data=place, user=os.geteuid()))
    is_fit = can_run(checks)
    document = {"can_run": is_fit, "checks": [_plain(check) for check in checks]}
    yield display.Conclusion(document, 0 if is_fit else 1)
    display.table(
        ("CHECK", "RESULT", "FOUND"),
        ((check.name, check.verdict, check.finding) for check in checks),
        # A finding is a sentence: its end counts.
        is_cut=False,
    )
    click.echo()
    _show_remedies(checks, first_remedy(checks, user=os.geteuid()))
    click.echo(
        "This machine can run containers." if is_fit else "This machine cannot run containers yet."
    )


def _show_remedies(checks: Sequence[Check], first: Check | None) -> None:
    """Show how to mend each fault; where no container can run, what to do first."""
    if first is not None:
        click.echo("First, so that containers can run:")
        click.echo(f"  {first.mend}\n")
    others = [check for check in checks if check.mend and check is not first]
    if others:
        click.echo("Then, or for another engine:" if first is not None else "To mend:")
        display.fields((f"  {check.name}", check.mend) for check in others)
        click.echo()


def _check_batch_system(path: Path) -> display.Output:
    """Run the checks of the batch system of a configuration, and show them."""
    from lading.config.site import load
    from lading.wiring.batch_checks import configured_system, examine_batch
    from lading.wiring.checked_machine import CheckResult

    config = load(path)
    checks = run_in_loop(examine_batch(config, configured_system(config)))
    is_fit = all(check.verdict is not CheckResult.MISSING for check in checks)
    document = {"can_run": is_fit, "checks": [_plain(check) for check in checks]}
    yield display.Conclusion(document, 0 if is_fit else 1)
    display.table(
        ("CHECK", "RESULT", "FOUND"),
        ((check.name, check.verdict, check.finding) for check in checks),
        is_cut=False,
    )
    click.echo()
    _show_remedies(checks, None)
    click.echo(
        "A dispatcher can run here." if is_fit else "A dispatcher cannot run containers here yet."
    )


def _check_site(image: str, timeout: float) -> display.Output:
    """Run the checks of the site, and show each when it is done."""
    from lading.cli.session import CliSession, with_session
    from lading.client.live_checks import LiveTest

    steps: list[CheckStep] = []

    def tell(step: CheckStep) -> None:
        steps.append(step)
        if not display.is_json_command():
            _show_live(len(steps), step)

    async def action(session: CliSession) -> bool:
        test = LiveTest(
            api=session.api,
            blocks=session.blocks,
            word=secrets.token_hex(8),
            image=image,
            patience=timeout,
        )
        return await test.run(tell)

    is_well = with_session(action)
    documents = [
        {
            "number": number,
            "name": step.name,
            "result": step.state,
            "seconds": step.seconds,
            "found": step.finding,
            "mend": step.remedy,
        }
        for number, step in enumerate(steps, 1)
    ]
    yield display.Conclusion({"ok": is_well, "checks": documents}, 0 if is_well else 1)
    click.echo()
    click.echo(
        "This site runs containers." if is_well else "This site is not well; see 'do' above."
    )


def _show_live(number: int, step: CheckStep) -> None:
    seconds = f"{step.seconds:8.3f} s" if step.state != "skipped" else " " * 10
    found = display.plain(step.finding)
    click.echo(f"{number:2}  {step.name:<10}  {step.state:<7}  {seconds}  {found}")
    if step.remedy:
        click.echo(f"    do: {step.remedy}")


def _plain(check: Check) -> dict[str, str]:
    return {
        "name": check.name,
        "verdict": check.verdict,
        "found": check.finding,
        "mend": check.mend,
    }
