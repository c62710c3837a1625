"""`lading up`: the whole system on this machine (the work is in `wiring.up`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lading.cli import display
from lading.client.environment import default_data_directory

if TYPE_CHECKING:
    from lading.wiring.up import ServerReady


@click.command()
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Where everything is kept."
)
@click.option(
    "--listen",
    default="127.0.0.1:9440",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve on; port 0 picks a free one.",
)
@click.option(
    "--also", multiple=True, metavar="HOST:PORT", help="A further server there; needs PostgreSQL."
)
@display.json_option
def up(data: Path | None, listen: str, also: tuple[str, ...], as_json: bool) -> None:
    """Serve the API, the block store and the dispatcher from this machine, until stopped with
    Ctrl-C or TERM.

    No configuration is needed. DIR/env has the address and the token for clients, to be sourced;
    the commands of this user find the server without it when --data is not given.
    """
    from lading.wiring.up import main

    directory = data or default_data_directory(os.environ)

    def announce(ready: ServerReady) -> None:
        if as_json:
            display.emit_json(
                {"address": ready.address, "data": str(ready.data), "seconds": ready.seconds}
            )
        else:
            click.echo(
                f"lading: serving https://{ready.address}/ from {ready.data}, "
                f"ready in {ready.seconds:.1f} s; clients: . {ready.data / 'env'}"
            )
        sys.stdout.flush()

    sys.exit(main(directory, listen, also=also, on_ready=announce))
