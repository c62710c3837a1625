"""`lading doctor`: the capabilities of this machine, and a command for each fault."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from lading.cli import display
from lading.cli.checks import Check, CheckedMachine, can_run, examine
from lading.client.environment import default_data_directory


@click.command()
@click.option(
    "--data",
    envvar="LADING_DATA",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory to be used.  [default: $LADING_DATA, else as 'lading up']",
)
@display.json_option
def doctor(data: Path | None, as_json: bool) -> None:
    """Check what this machine can run, and show a remedy for each fault.

    The exit code is 0 when containers can run here, else 1.
    """
    place = data or default_data_directory(os.environ)
    checks = examine(CheckedMachine(data=place, user=os.geteuid()))
    is_fit = can_run(checks)
    if as_json:
        display.emit_json({"can_run": is_fit, "checks": [_plain(check) for check in checks]})
    else:
        display.table(
            ("CHECK", "RESULT", "FOUND"),
            ((check.name, check.verdict, check.found) for check in checks),
        )
        click.echo()
        if any(check.mend for check in checks):
            click.echo("To mend:")
            display.fields((f"  {check.name}", check.mend) for check in checks)
            click.echo()
        click.echo(
            "This machine can run containers."
            if is_fit
            else "This machine cannot run containers yet."
        )
    sys.exit(0 if is_fit else 1)


def _plain(check: Check) -> dict[str, str]:
    return {"name": check.name, "verdict": check.verdict, "found": check.found, "mend": check.mend}
