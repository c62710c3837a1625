"""`lading export`: a request, or all that led to it, as an RO-Crate."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from lading import __version__
from lading.cli import display
from lading.cli.references import find_request
from lading.cli.session import CliSession, with_session
from lading.client.provenance.crate_export import CrateOptions, export_crate
from lading.client.provenance.crate_writing import CrateWriter
from lading.client.provenance.origins import find_origins
from lading.client.provenance.signing import load_key, sign
from lading.core.errors import Conflict

KEY: Final = "LADING_SIGNING_KEY"
"""The variable that names the file of the private key."""


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
@click.option("--images", "with_images", is_flag=True, help="The images, too.")
@click.option("--license", "license_text", default="Not stated.", help="Licence of what is in it.")
@click.option(
    "--sign",
    "key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar=KEY,
    metavar="FILE",
    help=f"Private Ed25519 key of OpenSSH to sign it with.  [default: ${KEY}]",
)
@display.json_option
def export(
    request: str,
    output: Path,
    whole: bool,
    with_data: bool,
    with_images: bool,
    license_text: str,
    key: Path | None,
    as_json: bool,
) -> None:
    """Write REQUEST as an RO-Crate: metadata, records, logs, manifests, PROV-O.

    Several requests are a Workflow Run Crate 0.5, one is a Process Run Crate 0.5. Other programs
    read it without Lading. Data and images are named by their hashes; with --data and --images
    their files are in it, and `lading import` stores them on another server with the same hashes.
    `sha256sum -c checksums.sha256` verifies it; the signature is of that file.
    """
    if os.path.lexists(output):
        raise Conflict(f"{output}: is there already; give a new name")
    if not output.absolute().parent.is_dir():
        raise Conflict(f"{output}: its directory is not there; make it first")
    signing = load_key(key) if key else None
    options = CrateOptions(
        published=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        license_text=license_text,
        with_data=with_data,
        with_images=with_images,
    )

    async def action(session: CliSession, writer: CrateWriter) -> int:
        first = str((await find_request(session, request))["uuid"])
        uuids = await find_origins(session.api, first) if whole else [first]
        return await export_crate(session.api, session.blocks, uuids, writer, options)

    # Beside the target, so that the crate appears whole or not at all.
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.absolute().parent) as at:
        place = Path(at) / "crate"
        with CrateWriter(place, packed=output.suffix == ".zip") as writer:
            count = with_session(lambda session: action(session, writer))
            checksums = writer.finish()
            if signing is not None:
                writer.add_signature(sign(checksums, signing))
        # Refused if somebody made the target meanwhile, unless it is an empty directory.
        place.rename(output)
    if as_json:
        display.emit_json({"output": str(output), "requests": count, "signed": bool(signing)})
    else:
        display.note(f"wrote {count} request{'' if count == 1 else 's'} to {output}")
