"""`lading export`: a request, or all that led to it, as an RO-Crate."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from lading import __version__
from lading.cli import display
from lading.cli.files.data import write_node
from lading.cli.references import find_request
from lading.cli.session import CliSession, with_session
from lading.client.images.links import list_images
from lading.client.provenance.causes import side_of
from lading.client.provenance.origins import find_origins
from lading.core.data import filetree
from lading.core.data.manifest import strip_signatures
from lading.core.errors import Conflict, LadingError
from lading.core.provenance.run_crate import (
    METADATA,
    CrateFile,
    CrateImage,
    CrateStep,
    contents_of,
    crate_document,
)

_PIECE: Final = 1 << 20
_UNSTATED: Final = "Not stated."
_CHECKSUMS: Final = "checksums.sha256"


@click.command()
@click.argument("request")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="A new directory, or a new file that ends in .zip.",
)
@click.option("--tree", "whole", is_flag=True, help="All requests that led to this one, too.")
@click.option("--data", "with_data", is_flag=True, help="The files of inputs and outputs, too.")
@click.option("--license", "license_text", default=_UNSTATED, help="Licence of what is in it.")
@display.json_option
def export(
    request: str, output: Path, whole: bool, with_data: bool, license_text: str, as_json: bool
) -> None:
    """Write REQUEST as an RO-Crate (Process Run Crate 0.5): metadata, records, logs and manifests.

    Other programs read it without Lading. Data and images are named by their hashes; with --data
    the files of inputs and outputs are in it. `sha256sum -c checksums.sha256` verifies it.
    """
    if output.exists() or output.is_symlink():
        raise Conflict(f"{output}: is there already; give a new name")
    if not output.absolute().parent.is_dir():
        raise Conflict(f"{output}: its directory is not there; make it first")

    async def action(session: CliSession, place: Path) -> int:
        steps = await _steps(session, request, whole=whole)
        paths = await _write(session, steps, place, with_data=with_data, is_quiet=as_json)
        images = await _images(session, steps)
        await asyncio.to_thread(_finish, place, output, paths, steps, images, license_text)
        return len(steps)

    # Beside the target, so that the crate appears whole or not at all.
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.absolute().parent) as at:
        place = Path(at) / "crate"
        place.mkdir()
        count = with_session(lambda session: action(session, place))
    if as_json:
        display.emit_json({"output": str(output), "requests": count})
    else:
        display.note(f"wrote {count} request{'' if count == 1 else 's'} to {output}")


async def _steps(session: CliSession, text: str, *, whole: bool) -> list[CrateStep]:
    """The requests to export, the earliest first. Raises Conflict where one has not ended."""
    first = await find_request(session, text)
    uuids = [str(first["uuid"])]
    if whole:
        uuids = await find_origins(session.api, uuids[0])
    names: dict[str, str] = {}
    steps = []
    for uuid in uuids:
        side = await side_of(session.api, await session.api.get("container_requests", uuid))
        if side.container is None or side.request["state"] != "Final":
            raise Conflict(f"{uuid}: has not run to its end; wait for it or cancel it first")
        user = str(side.request["modified_by_user_uuid"] or side.request["owner_uuid"])
        if user not in names:
            names[user] = await _user_name(session, user)
        steps.append(CrateStep(request=side.request, container=side.container, agent=names[user]))
    return steps


async def _user_name(session: CliSession, uuid: str) -> str:
    found = await session.api.list("users", filters=[["uuid", "=", uuid]], limit=1)
    return str(found[0].get("full_name") or found[0].get("username") or "") if found else ""


async def _write(
    session: CliSession,
    steps: Sequence[CrateStep],
    place: Path,
    *,
    with_data: bool,
    is_quiet: bool,
) -> list[str]:
    """Write records, logs, manifests and data; the paths of all files. What cannot be read is an
    error that names it.
    """
    data, images = contents_of(steps)
    written = []

    def write(path: str, text: str) -> None:
        target = place / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
        written.append(path)

    async def write_tree(path: str, signed: str) -> None:
        tree = filetree.from_manifest(signed)
        (place / path).parent.mkdir(exist_ok=True)
        await write_node(session, tree, place / path, name="", is_quiet=is_quiet)
        written.extend(f"{path}/{name}" for name, _ in filetree.files(tree))

    records = {str(side["uuid"]): side for one in steps for side in (one.request, one.container)}
    for uuid, record in records.items():
        write(f"records/{uuid}.json", _json(record))
    for pdh in sorted(data | images):
        signed = await _manifest(session, pdh)
        write(f"manifests/{pdh}.txt", strip_signatures(signed))
        if with_data and pdh in data:
            # Only a signed manifest gives access to the blocks.
            await write_tree(f"data/{pdh}", signed)
    for uuid, log in {str(one.container["uuid"]): one.container["log"] for one in steps}.items():
        if log:
            await write_tree(f"logs/{uuid}", await _manifest(session, log))
    return written


async def _manifest(session: CliSession, pdh: str) -> str:
    """The signed manifest. Raises Conflict for one that is gone or may not be read."""
    try:
        return str((await session.api.get("collections", pdh))["manifest_text"])
    except LadingError as error:
        raise Conflict(f"{pdh}: cannot be exported: {error.message}") from error


async def _images(session: CliSession, steps: Sequence[CrateStep]) -> dict[str, CrateImage]:
    wanted = contents_of(steps)[1]
    return {
        one.pdh: CrateImage(names=one.names, sha256=one.digest.removeprefix("sha256:"))
        for one in await list_images(session.api)
        if one.pdh in wanted
    }


def _finish(
    place: Path,
    output: Path,
    paths: Sequence[str],
    steps: Sequence[CrateStep],
    images: dict[str, CrateImage],
    license_text: str,
) -> None:
    """Write the metadata and the checksums, and put the crate where it belongs."""
    last = steps[-1].request
    files = [_measured(place, path) for path in sorted(paths)]
    document = crate_document(
        steps,
        name=str(last["name"] or last["uuid"]),
        published=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        license_text=license_text,
        files=files,
        images=images,
    )
    (place / METADATA).write_text(_json(document))
    files.append(_measured(place, METADATA))
    lines = [f"{one.sha256}  {one.path}" for one in files]
    (place / _CHECKSUMS).write_text("\n".join((*lines, "")))
    if output.suffix != ".zip":
        # Refused if somebody made the target meanwhile, unless it is an empty directory.
        place.rename(output)
        return
    packed = place.with_suffix(".zip")
    with zipfile.ZipFile(packed, "x", zipfile.ZIP_DEFLATED, strict_timestamps=False) as made:
        for path in (*(one.path for one in files), _CHECKSUMS):
            made.write(place / path, path)
    packed.rename(output)


def _measured(place: Path, path: str) -> CrateFile:
    hashed = hashlib.sha256()
    with (place / path).open("rb") as file:
        while piece := file.read(_PIECE):
            hashed.update(piece)
        size = file.tell()
    return CrateFile(path=path, size=size, sha256=hashed.hexdigest())


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False) + "\n"
