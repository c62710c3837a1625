"""Reads each kind of source of `lading image add` into the normal form.

The content of a file or directory tells its kind: `manifest.json` is docker-save, `index.json` or
`oci-layout` is OCI, directories such as bin and usr are a root file system. A source that does not
exist as a file is the name of an image of the local Docker.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

from lading.client.images.archive import NormalImage, Parts, write_archive
from lading.client.images.documents import read_oci, read_saved
from lading.client.images.from_host import Host, from_host, goarch
from lading.client.images.members import DirectoryMembers, Slice, TarMembers, uncompressed
from lading.client.images.rootfs import is_rootfs, read_rootfs_directory, read_rootfs_tar
from lading.core.errors import Invalid, NotFound

DOCKER_SOCKET = Path("/var/run/docker.sock")


def docker_socket(environ: Mapping[str, str]) -> Path:
    """The socket of the local Docker (or podman): DOCKER_HOST if it names a socket, else the usual
    path.
    """
    host = environ.get("DOCKER_HOST", "")
    return Path(host.removeprefix("unix://")) if host.startswith("unix://") else DOCKER_SOCKET


async def normalise(source: str, folder: Path, *, socket: Path = DOCKER_SOCKET) -> NormalImage:
    """The image that `source` names, written in the normal form below the empty directory `folder`.

    Raises NotFound when nothing has this name, Malformed when it is damaged, Invalid when it cannot
    be used.
    """
    path = Path(source)
    if await asyncio.to_thread(path.exists):
        return await asyncio.to_thread(_from_path, path, folder)
    saved = await save_from_docker(source, folder / "saved.tar", socket=socket)
    return await asyncio.to_thread(_from_path, saved, folder)


async def normalise_programs(programs: Sequence[str], folder: Path, *, host: Host) -> NormalImage:
    """The image of these programs of `host`, written in the normal form below `folder`. Raises
    Invalid.
    """
    return await asyncio.to_thread(
        lambda: write_archive(from_host(programs, folder, host=host), folder / "image.tar")
    )


def _from_path(path: Path, folder: Path) -> NormalImage:
    return write_archive(
        read(path, folder, architecture=goarch(platform.machine())), folder / "image.tar"
    )


def read(path: Path, folder: Path, *, architecture: str) -> Parts:
    """The parts of the image at `path`; uncompressed files are written below `folder`."""
    source = str(path)
    if path.is_dir():
        inside = DirectoryMembers(path, source)
        if inside.find("manifest.json"):
            return read_saved(inside, folder)
        if inside.find("index.json"):
            return read_oci(inside, folder, architecture=architecture)
        if not is_rootfs(inside.tops()):
            raise Invalid(
                f"{source}: neither an image nor a root file system: it holds no bin, usr or etc"
            )
        return read_rootfs_directory(path, folder, architecture=architecture)
    plain = uncompressed(Slice(path, 0, path.stat().st_size), folder / "plain.tar", source).path
    members = TarMembers(plain, source)
    if members.find("manifest.json"):
        return read_saved(members, folder)
    if members.find("index.json"):
        return read_oci(members, folder, architecture=architecture)
    if not is_rootfs(members.tops()):
        raise Invalid(
            f"{source}: neither an image nor a root file system: it holds no bin, usr or etc"
        )
    return read_rootfs_tar(plain, folder, architecture=architecture, source=source)


async def save_from_docker(name: str, target: Path, *, socket: Path = DOCKER_SOCKET) -> Path:
    """Save an image of the local Docker (or podman) to the file `target`.

    Raises NotFound when Docker does not have it or does not run.
    """
    if not await asyncio.to_thread(socket.exists):
        raise NotFound(
            f"{name}: no such file or directory, and no Docker at {socket} to "
            "ask for an image of that name"
        )
    # Imported here: it takes long, and only this source needs it.
    import aiodocker

    reference = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    docker = aiodocker.Docker(url=f"unix://{socket}")
    try:
        await docker.images.inspect(reference)
        async with docker.images.export_image(reference) as stream:
            with target.open("wb") as file:
                while data := await stream.read(1 << 20):
                    await asyncio.to_thread(file.write, data)
    except aiodocker.DockerError as error:
        has_none = error.status == HTTPStatus.NOT_FOUND
        said = (
            "has no image of that name"
            if has_none
            else f"at {socket} does not answer: {error.message}"
        )
        raise NotFound(f"{name}: no such file or directory, and Docker {said}") from error
    finally:
        await docker.close()
    return target
