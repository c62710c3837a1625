"""`lading cloud test`: a test of a cloud configuration with real VMs (the work is in
`wiring.cloudtest`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lading.cli import display

if TYPE_CHECKING:
    from lading.dispatch.fleets.cloud.cloud_selftest import SelftestStep


@click.group()
def cloud() -> None:
    """Test the configuration of a cloud before containers depend on it."""


@cloud.command()
@click.option(
    "--config", type=click.Path(dir_okay=False, exists=True, path_type=Path), required=True,
    help="The configuration: config.yml of 'lading up', or that of 'lading dispatch'.",
)  # fmt: skip
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="NAME",
    help="An instance type to try; more than once, or 'all'.",
)
@click.option("--command", default="", help="A command to run on each VM in the end.")
@click.option(
    "--set-id", default="", help="InstanceSetID of the test, for several at a time on this machine."
)
@click.option(
    "--listen",
    default="",
    metavar="HOST:PORT",
    help="Where VMs reach the server of the test; "
    "without it the address of this machine that faces them.",
)
@click.option(
    "--no-server",
    is_flag=True,
    help="Start no server: no request is run, its shell and port not tried.",
)
@display.json_option
def test(
    config: Path,
    types: tuple[str, ...],
    command: str,
    set_id: str,
    listen: str,
    no_server: bool,
    as_json: bool,
) -> None:
    """Make VMs as the dispatcher would, check that they can run containers, and remove them.

    A server is started here for the time of the test. A request runs on each VM, and the test uses
    a shell and a port of its container.

    Without --type the cheapest one is tried. The VMs are paid for while the test runs. Each fault
    is shown with its remedy. The exit code is 0 without faults, else 1; after Ctrl-C 130, once the
    VMs are removed.
    """
    from lading.wiring.cloudtest import CloudTestOptions, main

    steps: list[SelftestStep] = []

    def tell(step: SelftestStep) -> None:
        steps.append(step)
        if not as_json:
            _show(step)

    interrupted = False
    with display.steps("testing", is_quiet=as_json) as report:
        try:
            is_fit = main(
                CloudTestOptions(
                    config=config,
                    types=types,
                    command=command,
                    set_id=set_id,
                    listen=listen,
                    with_server=not no_server,
                ),
                tell=tell,
                doing=lambda what: report(display.shorten(what, 100), len(steps), 0),
            )
        # After an interruption `main` has removed the VMs before it raises.
        except (asyncio.CancelledError, KeyboardInterrupt):
            is_fit, interrupted = False, True
    if as_json:
        display.emit_json(
            {
                "ok": is_fit,
                "interrupted": interrupted,
                "steps": [dataclasses.asdict(one) for one in steps],
            }
        )
    else:
        click.echo(_verdict(is_fit, interrupted))
    sys.exit(130 if interrupted else 0 if is_fit else 1)


def _show(step: SelftestStep) -> None:
    mark = click.style("ok  ", fg="green") if step.ok else click.style("FAIL", fg="red")
    where = f"{step.type:<12}" if step.type else " " * 12
    click.echo(
        f"{mark}  {where}  {step.name:<12}  {display.duration(step.seconds):>7}  {step.found}"
    )
    if step.mend:
        click.echo(f"      to mend: {step.mend}")
    sys.stdout.flush()


def _verdict(is_fit: bool, interrupted: bool) -> str:
    if interrupted:
        return "The test was interrupted; its VMs are removed."
    return "This configuration works." if is_fit else "This configuration does not work yet."
