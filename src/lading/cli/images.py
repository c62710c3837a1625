"""`lading image`: add, pull and list images; build those for workflows and for HPC."""

from __future__ import annotations

import asyncio
import io
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lading.cli import display
from lading.cli.files.image_records import remove, share, show, unshare
from lading.cli.session import CliSession, with_session
from lading.client.images.links import (
    Registration,
    StoredImage,
    full_name,
    give_names,
    is_stored,
    list_images,
    own_image,
    register,
)
from lading.core.ids import is_pdh, is_uuid

if TYPE_CHECKING:
    from lading.client.images.archive import NormalImage
    from lading.client.images.manifests import RemoteImage
    from lading.client.images.registry import Registry

# Equal to `client.images.runner.DEFAULT_VERSION`, which is not imported, as `--help` needs the
# value.
DEFAULT_VERSION = "3.2.1"
REGISTRY = "LADING_REGISTRY"
"""Variable with the registry of image names without a host."""


@click.group()
def image() -> None:
    """Add and list container images."""


@image.command()
@click.argument("source", nargs=-1, required=True, metavar="SOURCE | --from-host PROGRAM...")
@click.option("--from-host", is_flag=True, help="Make the image from programs of this machine.")
@click.option("--name", multiple=True, metavar="REPO:TAG", help="Name for it; may be given again.")
@click.option(
    "--platform",
    "platform_name",
    metavar="linux/ARCH",
    help="Platform of SOURCE, for machines of another kind.  [default: this machine's]",
)
@click.option(
    "--project", metavar="PROJECT", help="Project for the image and its names, to share them by."
)
@click.option(
    "--no-check",
    "is_unchecked",
    is_flag=True,
    help="With --from-host: do not start each program once in the image.",
)
@display.with_json
def add(
    source: tuple[str, ...],
    from_host: bool,
    name: tuple[str, ...],
    platform_name: str | None,
    project: str | None,
    is_unchecked: bool,
) -> display.Output:
    """Add a container image to the store.

    SOURCE is a docker-save or OCI archive or directory, a root file system as a tar or a directory,
    or the name of an image of the local Docker. With --from-host, the image is made from programs
    of this machine with the files and libraries they need: no registry, no Docker. Each program is
    then started once in the image, with --version or --help for at most 2 s, and one that does not
    start is told.

    \b
    lading image add debian.tar --name debian:12
    lading image add --from-host sh awk sort gzip --name tools:1
    """
    if len(source) > 1 and not from_host:
        raise click.UsageError(
            f"one SOURCE at a time, not {len(source)}; are these programs? then use --from-host"
        )
    if from_host and platform_name:
        raise click.UsageError("programs of this machine have its platform: leave out --platform")
    # Checked before the work, which may take minutes.
    for new_name in name:
        full_name(new_name)

    async def action(session: CliSession) -> tuple[Registration, tuple[str, ...]]:
        with tempfile.TemporaryDirectory(prefix="lading-image-") as folder:
            project_uuid = await _project(session, project)
            done, notes = await _add(
                session,
                source,
                from_host,
                name,
                Path(folder),
                platform_name=platform_name,
                project=project_uuid,
            )
        if from_host and not is_unchecked:
            from lading.client.images.program_check import check_programs

            notes = (*notes, *await check_programs(session.api, done.image.pdh, source))
        return done, notes

    done, notes = with_session(action)
    yield from _tell(done, notes)


@image.command()
@click.argument("reference", metavar="[HOST/]REPO[:TAG][@DIGEST]")
@click.option(
    "--name",
    multiple=True,
    metavar="REPO:TAG",
    help="Name for it besides its own; may be given again.",
)
@click.option(
    "--platform",
    "platform_name",
    metavar="linux/ARCH",
    help="Platform to choose from several images under one name.  [default: this machine's]",
)
@click.option(
    "--registry",
    envvar=REGISTRY,
    metavar="HOST[:PORT]",
    help=f"Mirror of Docker Hub, for names without HOST.  [default: ${REGISTRY}, else Docker Hub]",
)
@click.option(
    "--plain-http", is_flag=True, help="The registry speaks HTTP; one on this machine is taken to."
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificates to trust.",
)
@click.option(
    "--project", metavar="PROJECT", help="Project for the image and its names, to share them by."
)
@display.with_json
def pull(
    reference: str,
    name: tuple[str, ...],
    platform_name: str | None,
    registry: str | None,
    plain_http: bool,
    ca: Path | None,
    project: str | None,
) -> display.Output:
    """Fetch an image from an OCI registry and add it to the store.

    Its names are REFERENCE and HOST/REPO@sha256:..., the name of exactly this content. A name
    without HOST is one of Docker Hub: debian:12, biocontainers/samtools:v1.9-4-deb_cv1. Users and
    passwords are those of `docker login` and `podman login`. The same command continues an
    interrupted pull; layers that were pulled with another image are not fetched again.

    \b
    lading image pull debian:12
    lading image pull 127.0.0.1:5000/tools:1.0 --name tools:1.0
    """
    for new_name in name:
        full_name(new_name)

    async def action(session: CliSession) -> tuple[Registration, RemoteImage, int]:
        return await pull_image(
            session,
            reference,
            more=name,
            platform_=platform_name,
            hub=registry,
            is_plain=plain_http,
            authorities=ca,
            project=await _project(session, project),
        )

    done, remote, fetched = with_session(action)
    yield from _tell(done, (), more={"pinned": remote.pinned, "fetched": fetched})
    display.note(f"fetched {display.size(fetched)}; this very content is {remote.pinned}")


async def pull_image(
    session: CliSession,
    reference: str,
    *,
    more: Sequence[str] = (),
    platform_: str | None = None,
    hub: str | None = None,
    is_plain: bool = False,
    authorities: Path | None = None,
    project: str = "",
) -> tuple[Registration, RemoteImage, int]:
    """Fetch an image from its registry and give it its names and `more`; the image, what the
    registry has, and the bytes that were fetched. `hub`: the registry of names without a host.
    """
    from lading.client.images.reference import parse_reference
    from lading.client.images.registry import Registry, connector, origin_of, parse_platform
    from lading.client.images.registry_access import find_login
    from lading.core.image_names import HUB

    target = parse_platform(platform_ or f"linux/{_architecture()}")
    asked = parse_reference(reference, registry=hub or HUB)
    origin = origin_of(asked, is_plain=is_plain)
    login = await asyncio.to_thread(find_login, os.environ, asked.login_host)
    async with Registry(origin, connect=connector(authorities), login=login) as registry:
        remote = await registry.resolve(asked, platform=target)
        # Unique and in order: `--name` may repeat one of the first.
        names = tuple(dict.fromkeys((*asked.names, remote.pinned, *more)))
        stored = await own_image(session.api, remote.config.digest, project=project)
        # An image with the same configuration is the same image, so that its layers need not be
        # fetched.
        if stored is not None:
            return await give_names(session.api, stored, names=names), remote, 0
        return await _pull(session, registry, remote, names, project=project)


async def pull_missing(session: CliSession, name: str) -> None:
    """Pull the image that a request names, unless the store has one of this name."""
    if is_pdh(name) or is_uuid(name) or await is_stored(session.api, name):
        return
    _, found, fetched = await pull_image(session, name, hub=os.environ.get(REGISTRY))
    display.note(f"pulled {name}: fetched {display.size(fetched)}, {found.pinned}")


@image.command()
@click.option(
    "--version", default=DEFAULT_VERSION, show_default=True, help="Version of arvados-cwl-runner."
)
@display.with_json
def runner(version: str) -> display.Output:
    """Add the image that `arvados-cwl-runner --submit` runs workflows in, and tools that name no
    image.

    It is named as that program looks for it: arvados/jobs:VERSION. It holds a root file system made
    by mmdebstrap from the package sources of this machine (Debian or Ubuntu), and packages of the
    Python package index. It takes some minutes; the image is kept in ~/.cache/lading.
    """

    async def action(session: CliSession) -> tuple[Registration, tuple[str, ...]]:
        from lading.client.images.runner import BuildHost, build_runner, image_name, make_run
        from lading.client.images.steps import run_steps
        from lading.client.servers.environment import cache_directory

        def tell(message: str) -> None:
            if not display.is_json_command():
                display.note(message)

        host = BuildHost(environ=os.environ, architecture=_architecture())
        with tempfile.TemporaryDirectory(prefix="lading-image-") as folder:
            normal = await run_steps(
                lambda steps: build_runner(
                    Path(folder),
                    version=version,
                    cache=cache_directory(os.environ),
                    host=host,
                    run=make_run(tell, steps),
                    steps=steps,
                )
            )
            return await _register(session, normal, (image_name(version),))

    done, notes = with_session(action)
    yield from _tell(done, notes)


@image.command(name="hpc")
@click.argument("programs", nargs=-1, metavar="[PROGRAM]...")
@click.option(
    "--name",
    multiple=True,
    metavar="REPO:TAG",
    help="Name for it; may be given again.  [default: hpc:latest]",
)
@display.with_json
def hpc_(programs: tuple[str, ...], name: tuple[str, ...]) -> display.Output:
    """Add an image for `lading hpc run`: Open MPI, sshd and the daemon, from Debian packages of
    this machine.

    It also holds PROGRAMs of this machine, by name or path: for example MPI programs that were
    compiled here.
    """
    for new_name in name:
        full_name(new_name)

    async def action(session: CliSession) -> tuple[Registration, tuple[str, ...]]:
        from lading.client.images.from_host import this_host
        from lading.client.images.hpc import build_hpc
        from lading.client.images.steps import run_steps
        from lading.hpc.package import write_package

        daemon = io.BytesIO()
        write_package(daemon)
        with tempfile.TemporaryDirectory(prefix="lading-image-") as folder:
            host = this_host(os.environ)
            with display.steps("Making the image") as report:
                normal = await run_steps(
                    lambda steps: build_hpc(
                        programs, Path(folder), host=host, daemon=daemon.getvalue(), steps=steps
                    ),
                    report,
                )
            return await _register(session, normal, name or ("hpc:latest",))

    done, notes = with_session(action)
    yield from _tell(done, notes)


@image.command(name="list")
@display.with_json
def list_() -> display.Output:
    """List the images in the store, the one added last first."""
    images = with_session(lambda session: list_images(session.api))
    yield [_plain(stored) for stored in images]
    if not images:
        display.note(
            "no image yet; try: lading image add --from-host sh awk sort gzip --name tools:1"
        )
        return
    now = datetime.now(UTC)
    display.table(
        ("NAME", "IMAGE", "SIZE", "ADDED", "COLLECTION"),
        (
            (
                name,
                stored.digest[7:19],
                display.size(stored.size),
                f"{display.age(stored.added_at, now)} ago",
                stored.collection_uuid,
            )
            for stored in images
            for name in stored.names or ("-",)
        ),
    )


# Its name before 0.3.
image.add_command(list_, "ls")
for _command in (share, unshare, remove, show):
    image.add_command(_command)


async def _add(
    session: CliSession,
    source: tuple[str, ...],
    from_host: bool,
    names: tuple[str, ...],
    folder: Path,
    *,
    platform_name: str | None,
    project: str,
) -> tuple[Registration, tuple[str, ...]]:
    # Imported here: the sources of images are not needed by other commands.
    from lading.client.images.from_host import this_host
    from lading.client.images.registry import parse_platform
    from lading.client.images.sources import docker_socket, normalise, normalise_programs

    architecture = parse_platform(platform_name).architecture if platform_name else ""
    with display.steps("Making the image") as report:
        if from_host:
            host = await asyncio.to_thread(this_host, os.environ)
            normal = await normalise_programs(source, folder, host=host, report=report)
        else:
            socket = docker_socket(os.environ)
            normal = await normalise(
                source[0], folder, socket=socket, architecture=architecture, report=report
            )
    return await _register(session, normal, names or normal.names, project=project)


async def _project(session: CliSession, name: str | None) -> str:
    """The uuid of a project, "" for the home of the caller."""
    if not name:
        return ""
    from lading.cli.references import find_project

    return await find_project(session, name)


def _architecture() -> str:
    from lading.core.images import goarch

    return goarch(platform.machine())


async def _pull(
    session: CliSession,
    registry: Registry,
    remote: RemoteImage,
    names: Sequence[str],
    *,
    project: str,
) -> tuple[Registration, RemoteImage, int]:
    from lading.client.images.layer_cache import LayerCache
    from lading.client.images.registry import assemble
    from lading.client.servers.environment import cache_directory

    # Layers are cached, so that an interrupted pull can continue.
    layer_cache = await asyncio.to_thread(LayerCache, cache_directory(os.environ) / "layers")
    with display.progress("Fetching the image") as report:
        config = await registry.config(remote)
        fetched = await registry.fetch(remote, layer_cache, progress=report)
    with tempfile.TemporaryDirectory(prefix="lading-image-") as folder:
        with display.steps("Making the image") as tell:
            normal = await assemble(remote, config, layer_cache, Path(folder), report=tell)
        done, _ = await _register(session, normal, names, project=project)
    await asyncio.to_thread(layer_cache.tidy)
    return done, remote, fetched


async def _register(
    session: CliSession,
    normal: NormalImage,
    names: Sequence[str],
    *,
    project: str = "",
) -> tuple[Registration, tuple[str, ...]]:
    with display.progress("Storing the image") as report:
        done = await register(
            session.api,
            session.blocks,
            normal,
            names=names,
            now=datetime.now(UTC),
            progress=report,
            project=project,
        )
    return done, normal.notes


def _tell(
    done: Registration,
    notes: Sequence[str],
    more: Mapping[str, object] | None = None,
) -> display.Output:
    outcome = {"is_new": done.is_new, "moved": done.moved, "notes": notes}
    yield {**_plain(done.image), **outcome, **(more or {})}
    for remark in notes:
        display.note(remark)
    for name in done.moved:
        display.note(f"{name} was another image before")
    click.echo(done.image.digest)
    names = ", ".join(done.image.names) or "without a name; --name gives it one"
    display.note(
        f"{'added' if done.is_new else 'already there:'} {display.size(done.image.size)}, {names}"
    )


def _plain(image: StoredImage) -> dict[str, object]:
    from msgspec import structs

    return structs.asdict(image)
