"""`lading import`: what is in a crate, stored on this server with the same hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from lading.cli import display
from lading.cli.references import find_project
from lading.cli.session import CliSession, with_session
from lading.client.provenance.crate_import import ImportedCrate, crate_name, import_crate
from lading.client.provenance.crate_reading import CrateReader
from lading.client.provenance.signing import load_signers

SIGNERS: Final = "LADING_CRATE_SIGNERS"
"""The variable that names the file of the public keys."""


@click.command("import")
@click.argument("crate", type=click.Path(path_type=Path))
@click.option(
    "--project", metavar="PROJECT", help="Project to store it in.  [default: a new project]"
)
@click.option(
    "--signers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar=SIGNERS,
    metavar="FILE",
    help=f"Public keys, by one of which it must be signed.  [default: ${SIGNERS}]",
)
@display.with_json
def import_(crate: Path, project: str | None, signers: Path | None) -> display.Output:
    """Store CRATE, a directory or an archive that `lading export` made.

    Its inputs, outputs and images become collections with the same hashes. Its records, logs and
    metadata become one collection more: they tell what another server has run, so that nothing
    here is reused because of them. A crate that was changed, or that lacks blocks, is refused with
    the name of what is wrong, and nothing is stored.
    """
    trusted = load_signers(signers) if signers else frozenset[bytes]()
    with CrateReader(crate) as reader:
        reader.check(trusted)
        name = crate_name(reader)

        async def action(session: CliSession) -> ImportedCrate:
            owner = await find_project(session, project) if project else None
            with display.progress("Storing") as report:
                return await import_crate(
                    session.api, session.blocks, reader, name=name, project=owner, progress=report
                )

        imported = with_session(action)
    yield {
        "project": imported.project_uuid,
        "collection": imported.collection_uuid,
        "signed_by": reader.signer or None,
        "stored": list(imported.new),
        "present": list(imported.present),
        "absent_images": list(imported.absent_images),
    }
    for pdh in imported.absent_images:
        display.note(f"image {pdh} is neither in the crate nor here; add it before a replay")
    if reader.signer:
        display.note(f"signed by {reader.signer}")
    display.note(
        f"stored {len(imported.new)} collections in {imported.project_uuid}; "
        f"{len(imported.present)} were here already"
    )
