"""`lading admin`: backup and restoration of the data of this machine (the work is in `wiring.backup`)."""

from __future__ import annotations

from pathlib import Path

import click

from lading.cli import display
from lading.wiring.directory import DataDirectory, default_data_directory

_data = click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Where everything is kept.")
_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.group()
def admin() -> None:
    """Back up and restore the data directory of 'lading up'."""


@admin.command()
@_file
@_data
@display.json_option
def backup(file: Path, data: Path | None, as_json: bool) -> None:
    """Write the records, the blocks and the secrets of a data directory to FILE, also while it is served."""
    from lading.wiring.backup import backup as work

    directory = DataDirectory((data or default_data_directory()).absolute())
    with display.progress("Backing up", is_quiet=as_json) as report:
        made = work(directory, file.absolute(), progress=report)
    if as_json:
        display.emit_json({"file": str(file), "blocks": made.blocks, "bytes": made.size})
    else:
        click.echo(
            f"lading: {file} has {made.blocks} blocks, {display.size(made.size)}; it holds secrets: keep it safe"
        )


@admin.command()
@_file
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), required=True, help="A new directory.")
@display.json_option
def restore(file: Path, data: Path, as_json: bool) -> None:
    """Make the data directory of a backup anew, verifying all of it; then serve it with 'lading up --data'."""
    from lading.wiring.backup import restore as work

    with display.progress("Restoring", is_quiet=as_json) as report:
        made = work(file.absolute(), DataDirectory(data.absolute()), progress=report)
    if as_json:
        found = {"data": str(data), "blocks": made.blocks, "bytes": made.size}
        display.emit_json({**found, "damaged": made.damaged, "missing": made.missing})
    else:
        click.echo(f"lading: {data} has {made.blocks} blocks, {display.size(made.size)}, verified")
        for what, hashes in (("damaged in the backup", made.damaged), ("not in the backup", made.missing)):
            for one in hashes:
                display.note(f"block {one}: {what}; collections that name it cannot be read whole")
    if made.damaged or made.missing:
        raise click.exceptions.Exit(1)
