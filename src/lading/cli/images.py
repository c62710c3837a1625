"""`lading image add` and `lading image ls`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from lading.cli import display
from lading.cli.session import Session, with_session
from lading.client.images.links import Registration, full_name, list_images, register


@click.group()
def image() -> None:
    """Add and list container images."""


@image.command()
@click.argument("source", nargs=-1, required=True, metavar="SOURCE | --from-host PROGRAM...")
@click.option("--from-host", is_flag=True, help="Make the image from programs of this machine.")
@click.option("--name", multiple=True, metavar="REPO:TAG", help="Name for it; may be given again.")
@display.json_option
def add(source: tuple[str, ...], from_host: bool, name: tuple[str, ...], as_json: bool) -> None:
    """Add a container image to the store.

    SOURCE is a docker-save or OCI archive or directory, a root file system as a tar or a directory, or the name of an
    image of the local Docker. With --from-host, the image is made from programs of this machine with the files and
    libraries they need: no registry, no Docker.

    \b
    lading image add debian.tar --name debian:12
    lading image add --from-host sh awk sort gzip --name tools:1
    """
    if len(source) > 1 and not from_host:
        raise click.UsageError(f"one SOURCE at a time, not {len(source)}; are these programs? then say --from-host")
    for one in name:
        full_name(one)

    async def action(session: Session) -> tuple[Registration, tuple[str, ...]]:
        with tempfile.TemporaryDirectory(prefix="lading-image-") as folder:
            return await _add(session, source, from_host, name, Path(folder), is_quiet=as_json)

    done, notes = with_session(action)
    if as_json:
        display.emit_json({**_plain(done.image), "is_new": done.is_new, "moved": done.moved, "notes": notes})
        return
    for text in notes:
        display.note(text)
    for text in done.moved:
        display.note(f"{text} was another image before")
    click.echo(done.image.digest)
    names = ", ".join(done.image.names) or "without a name; --name gives it one"
    display.note(f"{'added' if done.is_new else 'already there:'} {display.size(done.image.size)}, {names}")


@image.command(name="ls")
@display.json_option
def list_(as_json: bool) -> None:
    """List the images in the store, the one added last first."""
    images = with_session(lambda session: list_images(session.api))
    if as_json:
        display.emit_json([_plain(one) for one in images])
        return
    if not images:
        display.note("no image yet; try: lading image add --from-host sh awk sort gzip --name tools:1")
        return
    now = datetime.now(UTC)
    display.table(
        ("NAME", "IMAGE", "SIZE", "ADDED", "COLLECTION"),
        (
            (
                name,
                one.digest[7:19],
                display.size(one.size),
                f"{display.age(one.added_at, now)} ago",
                one.collection_uuid,
            )
            for one in images
            for name in one.names or ("-",)
        ),
    )


async def _add(
    session: Session, source: tuple[str, ...], from_host: bool, names: tuple[str, ...], folder: Path, *, is_quiet: bool
) -> tuple[Registration, tuple[str, ...]]:
    # Imported here: the sources of images are of no use to the other commands.
    from lading.client.images.from_host import this_host
    from lading.client.images.sources import docker_socket, normalise, normalise_programs

    if from_host:
        host = await asyncio.to_thread(this_host, os.environ)
        normal = await normalise_programs(source, folder, host=host)
    else:
        normal = await normalise(source[0], folder, socket=docker_socket(os.environ))
    with display.progress("Storing the image", is_quiet=is_quiet) as report:
        done = await register(
            session.api, session.blocks, normal, names=names or normal.names, now=datetime.now(UTC), progress=report
        )
    return done, normal.notes


def _plain(one: object) -> dict[str, object]:
    from dataclasses import asdict, is_dataclass

    assert is_dataclass(one)
    assert not isinstance(one, type)
    return asdict(one)
