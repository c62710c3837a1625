"""`lading runs get`: outputs of a run on disk, in directories named by its steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lading.cli import display
from lading.cli.references import FileReference, find_tree
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.run_records.reading import find_run, read_steps
from lading.core.errors import Conflict, NotFound
from lading.core.ids import EMPTY_PDH
from lading.core.request_status import RequestStatus
from lading.core.runs.step_groups import RunStep, needs_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command("get")
@click.argument("run")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--step", "steps", multiple=True, metavar="NAME", help="Outputs of this step.")
@click.option(
    "--all", "is_all", is_flag=True, help="Outputs of all steps, not of the last ones alone."
)
@click.option("--overwrite", is_flag=True, help="Replace files of one name.")
@display.with_json
def get_run(
    run: str, directory: Path, steps: tuple[str, ...], is_all: bool, overwrite: bool
) -> display.Output:
    """Write the outputs of RUN to DIRECTORY, by default of the steps whose outputs no other step
    reads: a directory for each step, in it one for each of several requests.

    \b
    lading runs get cohort-7 results --step merge
    """
    if directory.is_dir() and any(directory.iterdir()) and not overwrite:
        raise Conflict(f"{directory}: has files already; name another one, or --overwrite")

    async def action(session: CliSession) -> list[Record]:
        reference = await find_run(session.api, run)
        every = await read_steps(session.api, reference)
        chosen = choose(every, steps, is_all=is_all)
        if not chosen:
            known = ", ".join(dict.fromkeys(step.group for step in every)) or "none"
            raise NotFound(f"{run}: no such step has an output; its steps: {known}")
        return [
            await _write(session, step, path, overwrite=overwrite)
            for step, path in zip(chosen, places(chosen, directory), strict=True)
        ]

    from lading.cli.files import data

    written = with_session(action)
    yield written
    for entry in written:
        display.note(
            f"wrote {data.count(entry['files'], 'file')}, {display.size(entry['bytes'])}, "
            f"to {entry['path']}"
        )


def choose(steps: Sequence[RunStep], names: Sequence[str], *, is_all: bool) -> list[RunStep]:
    """The steps whose outputs are written: those named, all, or the last ones. Of several attempts
    at one name the latest that was done counts.
    """
    read = {uuid for needs in needs_of(steps).values() for uuid in needs}
    latest: dict[tuple[str, str], RunStep] = {}
    for step in steps:
        if step.state is not RequestStatus.DONE or step.output in ("", EMPTY_PDH):
            continue
        if step.group in names or (not names and (is_all or step.uuid not in read)):
            latest[step.group, step.name] = step
    return list(latest.values())


def places(steps: Sequence[RunStep], directory: Path) -> list[Path]:
    """The directory of each step; of one that is alone in its step that of the step."""
    numbers: dict[str, int] = {}
    for step in steps:
        numbers[step.group] = numbers.get(step.group, 0) + 1
    return [
        directory / _part(step.group)
        if numbers[step.group] == 1
        else directory / _part(step.group) / _part(step.name)
        for step in steps
    ]


def _part(name: str) -> str:
    """A name as one part of a path."""
    safe = "".join(mark if mark.isprintable() and mark not in "/\\" else "_" for mark in name)
    return safe if safe.strip(".") else f"_{safe}"


async def _write(session: CliSession, step: RunStep, path: Path, *, overwrite: bool) -> Record:
    from lading.cli.files import data

    tree = await find_tree(session, FileReference(step.output))
    written, files, size = await data.write_node(session, tree, path, name="", overwrite=overwrite)
    return {
        "step": step.group,
        "name": step.name,
        "path": str(written),
        "files": files,
        "bytes": size,
    }
