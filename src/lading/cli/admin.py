"""`lading admin`: backups, tokens for further dispatchers, storage, upgrades, the move to
PostgreSQL, and the end of containers that hang.

The work is in `wiring.backup`, `wiring.dispatcher`, `wiring.upkeep` and `wiring.stores`.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from lading.cli import display
from lading.cli.files import storage
from lading.cli.interruption import run_in_loop
from lading.cli.session import CliSession, with_session
from lading.core.records.schema import Record
from lading.process import removal

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.group()
def admin() -> None:
    """Look after the data of 'lading up': backup, restoration, upgrades, moves, volumes, garbage;
    admit further dispatchers; end containers.
    """


for command in (storage.volumes, storage.gc, storage.scrub):
    admin.add_command(command)


@admin.command()
@_file
@storage.DATA
@click.option(
    "--without-blocks",
    is_flag=True,
    help="Leave the blocks out, if another backup has them.",
)
@display.with_json
def backup(file: Path, data: Path | None, without_blocks: bool) -> display.Output:
    """Write the records, the blocks and the secrets of a data directory to FILE. A running server
    need not be stopped.
    """
    # Imported in the command: most calls of `lading` need none of these modules (also below).
    from lading.wiring.backup import backup as work

    directory = storage.directory(data)
    with display.progress("Backing up") as report:
        made = work(directory, file.absolute(), progress=report, with_blocks=not without_blocks)
    yield {"file": str(file), "blocks": made.blocks, "bytes": made.size}
    click.echo(
        f"lading: {file} has {made.blocks} blocks, {display.size(made.size)}; "
        "it holds secrets: keep it safe"
    )


@admin.command()
@_file
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="A new directory.",
)
@display.with_json
def restore(file: Path, data: Path) -> display.Output:
    """Restore a data directory from a backup and verify all of it; then serve it with 'lading up
    --data'.
    """
    from lading.wiring.backup import restore as work

    with display.progress("Restoring") as report:
        restored = work(file.absolute(), storage.directory(data), progress=report)
    counts = {"data": str(data), "blocks": restored.blocks, "bytes": restored.size}
    document = {**counts, "damaged": restored.damaged, "missing": restored.missing}
    yield display.Conclusion(document, 1 if restored.damaged or restored.missing else 0)
    click.echo(
        f"lading: {data} has {restored.blocks} blocks, {display.size(restored.size)}, verified"
    )
    for fault, hashes in (
        ("damaged in the backup", restored.damaged),
        ("not in the backup", restored.missing),
    ):
        for block in hashes:
            display.note(f"block {block}: {fault}; collections that name it cannot be read whole")


@admin.command(name="dispatcher-token")
@_file
@storage.DATA
@click.option(
    "--for-arvados",
    is_flag=True,
    help="For a dispatcher of Arvados, whose crunch-run stores its own logs.",
)
@display.with_json
def dispatcher_token(file: Path, data: Path | None, for_arvados: bool) -> display.Output:
    """Make a token for one more dispatcher; write it with the server's address and certificate to
    FILE.

    The server must be running. Carry FILE to the other machine and start 'lading dispatch --join
    FILE' there. With --for-arvados the token in FILE is for the SystemRootToken of Arvados'
    crunch-dispatch-local or -slurm.
    """
    from lading.wiring.further_dispatcher import invite

    directory = storage.directory(data)
    made = invite(directory, file.absolute(), for_arvados=for_arvados)
    yield {"file": str(file), "token_uuid": made.token.split("/")[1], "api": made.api}
    click.echo(
        f"lading: {file} admits one dispatcher to {made.api}; it holds a secret: keep it safe"
    )


@admin.command()
@click.argument("containers", nargs=-1, required=True, metavar="CONTAINER...")
@click.option("--reason", default="", help="Reason, which their users read.")
@display.with_json
def end(containers: tuple[str, ...], reason: str) -> display.Output:
    """End containers that have a dispatcher or have lost it, by uuid, as an administrator.

    Their requests are tried again, as after the loss of a machine; 'lading request cancel' ends a
    request for good. The record of the container tells who ended it, and the reason.
    """

    async def action(session: CliSession) -> list[Record]:
        # All are looked up before the first is ended, so that a mistake changes nothing.
        for uuid in containers:
            await session.api.get("containers", uuid)
        body = {"reason": reason, "select": ["uuid", "state"]}
        return [
            await session.api.request("POST", f"containers/{uuid}/cancel", body=body)
            for uuid in containers
        ]

    ended = with_session(action)
    yield {"ended": [container["uuid"] for container in ended]}
    display.note(f"ended {', '.join(container['uuid'] for container in ended)}")


@admin.command("clear-cache")
@storage.DATA
@display.with_json
def clear_cache(data: Path | None) -> display.Output:
    """Remove the cached images and inputs of a data directory, and what is left of containers.

    Stop 'lading up' first. Without root it removes also the files that another program cannot:
    those of the user's subordinate ids. The rest of the directory is then removed by 'rm -r'.
    """
    from lading.supervisor import user_files

    directory = storage.directory(data)
    lock = directory.claim()
    try:
        directory.check_no_containers()
        places = (directory.cache, directory.run, directory.root / removal.NAME)
        user_files.remove(places)
    finally:
        os.close(lock)
    yield {"removed": [str(path) for path in places]}
    display.note(f"removed the cache of {directory.root}; it is made again at the next start")


@admin.command("move-records")
@storage.DATA
@display.with_json
def move_records(data: Path | None) -> display.Output:
    """Move the records from SQLite to the empty PostgreSQL database that config.yml names. Stop
    'lading up' first.
    """
    from lading.wiring.stores import MOVED
    from lading.wiring.stores import move_records as work

    directory = storage.directory(data)
    with display.progress("Moving", is_bytes=False) as report:
        copied = work(directory, progress=report)
    yield copied
    display.table(
        ("RECORDS", "MOVED"), ((name, str(count)) for name, count in copied.items() if count)
    )
    display.note(
        f"the records are in PostgreSQL now; {directory.root / MOVED} has the records from before"
    )


@admin.command()
@storage.DATA
@click.option("--check", is_flag=True, help="List the steps to take, and change nothing.")
@display.with_json
def upgrade(data: Path | None, check: bool) -> display.Output:
    """Bring the database to this version of Lading, before 'lading up' does it at its start.

    With --check a running server need not be stopped. A database of a later version is refused, and
    stays as it is.
    """
    from lading import __version__
    from lading.wiring import stores

    directory = storage.directory(data)
    upgrade_check = run_in_loop((stores.check_upgrade if check else stores.upgrade)(directory))
    yield {
        "found": upgrade_check.present,
        "version": upgrade_check.version,
        "done": not check,
        "steps": list(upgrade_check.steps),
        "columns": list(upgrade_check.columns),
    }
    if upgrade_check.present is None:
        words = "there are no records yet; 'lading up' makes the database"
    elif not upgrade_check.steps and not upgrade_check.columns:
        words = (
            f"the database is of version {upgrade_check.version}, which lading {__version__} has: "
        )
        words += "nothing to do"
    else:
        would = "would " if check else ""
        words = f"lading {__version__} {would}" + ("add " if check else "added ")
        words += (
            f"{len(upgrade_check.columns)} columns to the database,"
            f" which is of version {upgrade_check.present}"
        )
        if upgrade_check.steps:
            words += f", and {would}" + ("bring" if check else "brought")
            words += f" it to version {upgrade_check.version}"
            display.table(("STEP",), ((step,) for step in upgrade_check.steps))
    display.note(words)
