"""`lading export`: a request, or all that led to it, as an RO-Crate or for CWLProv."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lading import __version__
from lading.cli import display
from lading.cli.references import find_request
from lading.cli.session import CliSession, with_session
from lading.client.provenance.bag_writing import BagWriter
from lading.client.provenance.crate_export import CrateOptions, export_crate
from lading.client.provenance.crate_sources import rows_by_field
from lading.client.provenance.crate_writing import CrateWriter
from lading.client.provenance.cwlprov_export import BagOptions, WrittenBag, export_cwlprov
from lading.client.provenance.origins import find_origins
from lading.client.provenance.signing import load_key, sign
from lading.core.errors import Conflict, Unavailable
from lading.core.secrets import needed_names

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_UNSTATED: Final = "Not stated."
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
@click.option(
    "--format",
    "form",
    type=click.Choice(("ro-crate", "cwlprov")),
    default="ro-crate",
    show_default=True,
    help="Format of the export; cwlprov is for the run of a CWL workflow.",
)
@click.option(
    "--tree", "with_origins", is_flag=True, help="All requests that led to this one, too."
)
@click.option("--data", "with_data", is_flag=True, help="The files of inputs and outputs, too.")
@click.option("--images", "with_images", is_flag=True, help="The images, too.")
@click.option("--license", "license_text", default=_UNSTATED, help="Licence of the contents.")
@click.option(
    "--sign",
    "key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar=KEY,
    metavar="FILE",
    help=f"Private Ed25519 key of OpenSSH to sign it with.  [default: ${KEY}]",
)
@display.with_json
def export(
    request: str,
    output: Path,
    form: str,
    with_origins: bool,
    with_data: bool,
    with_images: bool,
    license_text: str,
    key: Path | None,
) -> display.Output:
    """Write REQUEST as an RO-Crate: metadata, records, logs, manifests, PROV-O.

    Several requests are a Workflow Run Crate 0.5, one is a Process Run Crate 0.5. Other programs
    read it without Lading. Data and images are named by their hashes; with --data and --images
    their files are in it, and `lading import` stores them on another server with the same hashes.
    `sha256sum -c checksums.sha256` verifies it; the signature is of that file.

    With --format cwlprov, REQUEST is that of arvados-cwl-runner. All its steps, with the files of
    their inputs and outputs, are written as a research object of CWLProv 0.6, a bag of BagIt that
    the program `cwlprov` reads. The signature is of tagmanifest-sha512.txt.
    """
    if form == "cwlprov" and (with_images or license_text != _UNSTATED):
        raise click.UsageError("--format cwlprov has no place for --images and --license")
    if os.path.lexists(output):
        raise Conflict(f"{output}: is there already; give a new name")
    if not output.absolute().parent.is_dir():
        raise Conflict(f"{output}: its directory is not there; make it first")
    signing = load_key(key) if key else None
    choice = _ExportOptions(
        request=request,
        with_origins=with_origins,
        with_data=with_data,
        with_images=with_images,
        license_text=license_text,
    )
    write = _write_bag if form == "cwlprov" else _write_crate
    # Beside the target, so that the crate appears whole or not at all.
    try:
        beside = tempfile.TemporaryDirectory(
            prefix=f".{output.name}.", dir=output.absolute().parent
        )
    except OSError as error:
        raise Unavailable(f"{output}: cannot be written: {error.strerror}") from error
    with beside as at:
        draft = Path(at) / "crate"
        count = write(draft, output.suffix == ".zip", choice, signing)
        # Refused if somebody made the target meanwhile, unless it is an empty directory.
        draft.rename(output)
    yield {"output": str(output), "requests": count, "signed": bool(signing)}
    display.note(f"wrote {count} request{'' if count == 1 else 's'} to {output}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExportOptions:
    """Options of one export."""

    request: str
    with_origins: bool
    with_data: bool
    with_images: bool
    license_text: str


def _write_crate(
    path: Path, packed: bool, choice: _ExportOptions, key: Ed25519PrivateKey | None
) -> int:
    options = CrateOptions(
        published=_now(),
        version=__version__,
        license_text=choice.license_text,
        with_data=choice.with_data,
        with_images=choice.with_images,
    )

    async def action(session: CliSession, writer: CrateWriter) -> int:
        first = str((await find_request(session, choice.request))["uuid"])
        uuids = await find_origins(session.api, first) if choice.with_origins else [first]
        with display.progress("Exporting", is_bytes=False) as report:
            count = await export_crate(
                session.api, session.blocks, uuids, writer, options, progress=report
            )
        await _tell_secrets(session, uuids)
        return count

    with CrateWriter(path, packed=packed) as writer:
        count = with_session(lambda session: action(session, writer))
        checksums = writer.finish()
        if key is not None:
            writer.add_signature(sign(checksums, key))
    return count


async def _tell_secrets(session: CliSession, uuids: Sequence[str]) -> None:
    """Say which secrets a replay of the requests needs: no record has them, and so no crate."""
    fields = ("uuid", "secrets_needed")
    rows = await rows_by_field(session.api, "container_requests", "uuid", uuids, fields)
    names = dict.fromkeys(
        name for row in rows for name in needed_names(row["secrets_needed"] or ())
    )
    if names:
        display.note(
            f"{', '.join(names)}: secrets that the commands need, and that are not in the crate; "
            "'lading replay --secret' gives them again"
        )


def _write_bag(
    path: Path, packed: bool, choice: _ExportOptions, key: Ed25519PrivateKey | None
) -> int:
    async def action(session: CliSession, writer: BagWriter) -> WrittenBag:
        uuid = str((await find_request(session, choice.request))["uuid"])
        options = BagOptions(published=_now(), version=__version__)
        with display.progress("Exporting", is_bytes=False) as report:
            return await export_cwlprov(
                session.api, session.blocks, uuid, writer, options, progress=report
            )

    with BagWriter(path, packed=packed) as writer:
        written = with_session(lambda session: action(session, writer))
        if key is not None:
            writer.add_signature(sign(written.checksums, key))
    return written.requests


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
