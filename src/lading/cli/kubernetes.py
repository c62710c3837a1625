"""`lading kubernetes test`: tests the configuration of a cluster; its work is in
`wiring.trials.clustertest`.
"""

from __future__ import annotations

from pathlib import Path

import click

from lading.cli import display
from lading.cli.options import site_config_option
from lading.cli.selftests import run_selftest


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
@display.with_json
def test(config: Path, kinds: tuple[str, ...], listen: str, no_server: bool) -> display.Output:
    """Make Pods as the dispatcher would, check that they can run containers, and remove them.

    A server is started here for the time of the test. A request runs in the cluster, and the test
    uses a shell and a port of its container.

    Without --node the first kind of node is tried. Each fault is shown with its remedy; a right
    that the dispatcher lacks is named. The exit code is 0 without faults, else 1; after Ctrl-C 130,
    once the Pods are removed.
    """
    from lading.wiring.trials.clustertest import ClusterTestOptions, main

    options = ClusterTestOptions(
        config=config, kinds=kinds, listen=listen, with_server=not no_server
    )
    yield from run_selftest(
        lambda tell, doing: main(options, tell=tell, doing=doing), created="Pods"
    )
