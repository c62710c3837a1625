"""`lading kubernetes test`: tests the configuration of a cluster; its work is in
`wiring.clustertest`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lading.cli import display
from lading.cli.options import site_config_option

if TYPE_CHECKING:
    from lading.dispatch.fleets.kubernetes.kubernetes_selftest import ClusterStep


@click.group()
def kubernetes() -> None:
    """Test the configuration of a Kubernetes cluster before containers depend on it."""


@kubernetes.command()
@site_config_option
@click.option(
    "--node",
    "kinds",
    multiple=True,
    metavar="NAME",
    help="A kind of node to try; more than once, or 'all'.",
)
@click.option(
    "--listen",
    default="",
    metavar="HOST:PORT",
    help="Where Pods reach the server of the test; "
    "without it the address of this machine that faces the API server.",
)
@click.option(
    "--no-server",
    is_flag=True,
    help="Start no server: no request is run, its shell and port not tried.",
)
@display.json_option
def test(config: Path, kinds: tuple[str, ...], listen: str, no_server: bool) -> None:
    """Make Pods as the dispatcher would, check that they can run containers, and remove them.

    A server is started here for the time of the test. A request runs in the cluster, and the test
    uses a shell and a port of its container.

    Without --node the first kind of node is tried. Each fault is shown with its remedy; a right
    that the dispatcher lacks is named. The exit code is 0 without faults, else 1; after Ctrl-C 130,
    once the Pods are removed.
    """
    from lading.wiring.clustertest import ClusterTestOptions, main

    steps: list[ClusterStep] = []

    def tell(step: ClusterStep) -> None:
        steps.append(step)
        if not display.is_json_command():
            _show(step)

    interrupted = False
    with display.steps("testing") as report:
        try:
            is_fit = main(
                ClusterTestOptions(
                    config=config, kinds=kinds, listen=listen, with_server=not no_server
                ),
                tell=tell,
                doing=lambda what: report(display.shorten(what, 100), len(steps), 0),
            )
        # After an interruption `main` has removed the Pods before it raises.
        except (asyncio.CancelledError, KeyboardInterrupt):
            is_fit, interrupted = False, True
    if display.is_json_command():
        display.emit_json(
            {
                "ok": is_fit,
                "interrupted": interrupted,
                "steps": [dataclasses.asdict(one) for one in steps],
            }
        )
    elif interrupted:
        click.echo("The test was interrupted; its Pods are removed.")
    else:
        click.echo(f"This configuration {'works' if is_fit else 'does not work yet'}.")
    sys.exit(130 if interrupted else 0 if is_fit else 1)


def _show(step: ClusterStep) -> None:
    mark = click.style("ok  ", fg="green") if step.ok else click.style("FAIL", fg="red")
    click.echo(
        f"{mark}  {step.kind:<12}  {step.name:<12}  {display.duration(step.seconds):>7}"
        f"  {step.found}"
    )
    if step.mend:
        click.echo(f"      to mend: {step.mend}")
    sys.stdout.flush()
