"""Details of a difference: images by layers and packages, resources, machines, small files, and
whole trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.session import CliSession
from lading.client.explanations import difference_rows
from lading.client.files.downloads import read_files
from lading.client.provenance.causes import Causes
from lading.client.provenance.image_differences import ImageDifference, compare_images
from lading.client.provenance.run_differences import Row, machine_rows, resource_rows
from lading.client.provenance.text_differences import LARGEST, content_difference
from lading.client.provenance.tree_differences import StepDifference
from lading.core.containers.comparison import ComparedRequest
from lading.core.data.filetree import File
from lading.core.data.tree_changes import Difference
from lading.core.errors import LadingError
from lading.core.quantities import shorten_pair

_MOST_FILES: Final = 3
_MOST_PACKAGES: Final = 20
_LONGEST: Final = 40


@dataclass(slots=True, kw_only=True)
class Details:
    """Details shown beside the causes. `image_fault`: reason why the images cannot be compared."""

    image: ImageDifference | None = None
    image_fault: str = ""
    resources: Sequence[Row] = ()
    machine: Sequence[Row] = ()
    contents: Mapping[str, list[str]] = field(default_factory=dict)


async def find_details(
    session: CliSession, causes: Causes, theirs: ComparedRequest, ours: ComparedRequest
) -> Details:
    """The details of the difference of two requests."""
    details = Details()
    for step in causes.steps:
        pair = [
            str((side.container or {}).get("container_image") or "")
            for side in (step.theirs, step.ours)
        ]
        if all(pair) and pair[0] != pair[1]:
            try:
                details.image = await compare_images(session.api, session.blocks, *pair)
            except LadingError as error:
                details.image_fault = error.message
    if theirs.container is not None and ours.container is not None:
        before, after = dict(theirs.container), dict(ours.container)
        details.resources = resource_rows(before, after)
        details.machine = await machine_rows(session.api, session.blocks, before, after)
    return details


async def find_contents(session: CliSession, files: Sequence[Difference]) -> dict[str, list[str]]:
    """Differences of the first few small files, by path."""
    lines_by_path: dict[str, list[str]] = {}
    for difference in files:
        before, after = difference.before, difference.after
        if not isinstance(before, File) or not isinstance(after, File):
            continue
        if max(before.size, after.size) > LARGEST or len(lines_by_path) == _MOST_FILES:
            continue
        pair = [b"", b""]
        async for number, piece in read_files(session.blocks, [before, after]):
            pair[number] += piece
        lines = content_difference(difference.path, *pair)
        if lines:
            lines_by_path[difference.path] = lines
    return lines_by_path


def show_details(details: Details) -> None:
    """Print images, resources and machines."""
    if details.image is not None:
        click.echo()
        _show_image(details.image)
    elif details.image_fault:
        display.note(f"the images are not compared: {details.image_fault}")
    for title, rows in (("RESOURCES", details.resources), ("MACHINE", details.machine)):
        if rows:
            click.echo()
            display.table((title, "BEFORE", "AFTER"), [_cut(row) for row in rows])


def show_contents(lines_by_path: Mapping[str, list[str]], path: str) -> None:
    """Print how a file differs, below its name."""
    for line in lines_by_path.get(path, ()):
        click.secho(f"    {line}", fg={"+": "green", "-": "red"}.get(line[:1]))


def show_trees(steps: Sequence[StepDifference]) -> None:
    """Print the steps of two trees that differ."""
    rows: list[tuple[str, ...]] = []
    for step in steps:
        name = display.shorten(step.name, _LONGEST)
        if step.before is None or step.after is None:
            sides = ("-", "a step") if step.before is None else ("a step", "-")
            rows.append((name, "(the step)", *sides))
        differences = [
            {"field": each.field, "request": each.theirs, "container": each.ours}
            for each in step.fields
        ]
        for row in difference_rows({"nearest": {"differences": differences}}):
            field, before, after = row
            shown = shorten_pair(before, after, _LONGEST)
            rows.append((name, display.shorten(field, _LONGEST), *shown))
        rows += [
            (name, f"mounts.{path}", "(made by an earlier step)", "") for path in step.explained
        ]
    same = sum(not step.differs for step in steps)
    click.echo(f"{len(steps)} steps, {same} of them equal")
    if rows:
        click.echo()
        display.table(("STEP", "FIELD", "BEFORE", "AFTER"), rows)


def details_document(details: Details) -> Mapping[str, Any]:
    """The details for programs."""
    image = details.image
    return {
        "image": image
        and {
            "layers": {"before": image.before, "after": image.after, "shared": image.shared},
            "packages": [_row(row) for row in image.packages],
        },
        "resources": [_row(row) for row in details.resources],
        "machine": [_row(row) for row in details.machine],
        "contents": dict(details.contents),
    }


def trees_document(steps: Sequence[StepDifference]) -> list[Mapping[str, Any]]:
    """The steps of two trees for programs."""
    return [
        {
            "name": step.name,
            "before": step.before["uuid"] if step.before else None,
            "after": step.after["uuid"] if step.after else None,
            "differs": step.differs,
            "explained_inputs": list(step.explained),
            "differences": [
                {"field": each.field, "before": each.theirs, "after": each.ours}
                for each in step.fields
            ],
        }
        for step in steps
    ]


def _show_image(image: ImageDifference) -> None:
    click.echo(
        f"image: {image.shared} layers shared, of {image.before} before and {image.after} after"
    )
    shown = image.packages[:_MOST_PACKAGES]
    if shown:
        rows = [(name, before or "-", after or "-") for name, before, after in shown]
        display.table(("PACKAGE", "BEFORE", "AFTER"), [_cut(row) for row in rows])
    if len(image.packages) > len(shown):
        click.echo(f"... {len(image.packages) - len(shown)} more packages")


def _cut(row: Row) -> Row:
    name, before, after = (display.shorten(cell, _LONGEST) for cell in row)
    return name, before, after


def _row(row: Row) -> Mapping[str, str]:
    return {"name": row[0], "before": row[1], "after": row[2]}
