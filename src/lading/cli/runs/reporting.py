"""`lading runs report`: a run as a page for people who were not there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from lading.cli import display
from lading.cli.runs.showing import RunPicture, look
from lading.cli.session import CliSession, with_session
from lading.core.errors import Conflict, Invalid
from lading.core.request_status import RequestStatus
from lading.core.runs.report import make_report
from lading.core.runs.report_pages import write_html, write_markdown

_FAILURES = 100
_LINES = 12
_MOST = 2000
"""Requests of a crate."""


@click.command("report")
@click.argument("run", default="last")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write it there: HTML, or Markdown for a name that ends in .md.  [default: NAME.html]",
)  # fmt: skip
@click.option("--open", "is_opened", is_flag=True, help="Open it in a browser.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier file.")
@click.option(
    "--crate", type=click.Path(path_type=Path), metavar="PATH",
    help="Write all requests of the run as an RO-Crate too: a new directory, or a .zip file.",
)  # fmt: skip
@display.with_json
def report_run(
    run: str, output: Path | None, is_opened: bool, overwrite: bool, crate: Path | None
) -> display.Output:
    """Write the report on RUN: parameters, versions, graph, timeline, use, cost and warnings.

    \b
    lading runs report cohort-7 --open
    lading runs report cohort-7 -o cohort-7.html --crate cohort-7.zip
    """
    if crate is not None and os.path.lexists(crate):
        raise Conflict(f"{crate}: is there already; give a new name")
    picture = with_session(
        lambda session: look(session, run, failures=_FAILURES, lines=_LINES, is_whole=True)
    )
    target = output or Path(f"{_file_name(picture)}.html")
    if target.exists() and not overwrite:
        raise Conflict(f"{target}: is there already; --overwrite replaces it")
    report = make_report(
        picture.run,
        picture.steps,
        user=picture.user,
        lines=picture.lines,
        now=time.time(),
        names=picture.names,
    )
    write = write_markdown if target.suffix == ".md" else write_html
    target.write_text(write(report), encoding="utf-8")
    count = _write_crate(picture, crate) if crate is not None else 0
    yield {"output": str(target), "crate": str(crate) if crate else None, "requests": count}
    display.note(f"wrote the report to {target}")
    if crate is not None:
        display.note(f"wrote {count} requests to {crate}")
    if is_opened:
        click.launch(target.absolute().as_uri())


def _file_name(picture: RunPicture) -> str:
    run = picture.run
    name = "".join(mark if mark.isalnum() or mark in "-_." else "_" for mark in run["name"])
    return f"{name or run['uuid']}-{run['attempt']}"


def _write_crate(picture: RunPicture, target: Path) -> int:
    """Write the steps that have ended as an RO-Crate; their number. Raises Invalid."""
    from datetime import UTC, datetime
    from tempfile import TemporaryDirectory

    from lading import __version__
    from lading.client.provenance.crate_export import CrateOptions, export_crate
    from lading.client.provenance.crate_writing import CrateWriter
    from lading.core.quantities import format_time

    ended = (RequestStatus.DONE, RequestStatus.FAILED)
    uuids = [step.uuid for step in picture.steps if step.state in ended]
    if not 0 < len(uuids) <= _MOST:
        raise Invalid(f"--crate: the run has {len(uuids)} steps that have ended; 1 to {_MOST} fit")
    options = CrateOptions(
        published=format_time(datetime.now(UTC)),
        version=__version__,
        license_text="Not stated.",
        with_data=False,
        with_images=False,
    )

    async def action(session: CliSession, writer: CrateWriter) -> int:
        with display.progress("Exporting", is_bytes=False) as show:
            return await export_crate(
                session.api, session.blocks, uuids, writer, options, progress=show
            )

    # Beside the target, so that the crate appears whole or not at all.
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.absolute().parent) as folder:
        place = Path(folder) / "crate"
        with CrateWriter(place, packed=target.suffix == ".zip") as writer:
            count = with_session(lambda session: action(session, writer))
            writer.finish()
        place.rename(target)
    return count
