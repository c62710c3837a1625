"""The outputs of a run by step and request, each with its first files, those to look at first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from lading.client.api import Record
from lading.core.data import filetree
from lading.core.errors import LadingError
from lading.core.ids import EMPTY_PDH
from lading.core.runs.step_groups import RunStep, group_steps
from lading.web.previews import is_looked_at, is_picture_name
from lading.web.runs.list_pages import PAGE, page_address, row_number
from lading.web.runs.reading import RunView, read_view
from lading.web.visit import Visit

_FILES: Final = 5
"""Files of an output that are named here."""
_MOST_FILES: Final = 200
"""Files of a collection that is read for their names."""
_MOST_BYTES: Final = 64 << 30
"""Bytes of such a collection: the text of a larger one would be long."""
_THUMBNAILS: Final = 12
"""Pictures that a page shows."""
_SMALL: Final = 2 << 20
"""Bytes of a picture that a page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutputFile:
    """A file of an output; `has_thumbnail`: the page shows the picture itself."""

    path: str
    size: int
    has_thumbnail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRow:
    """The output of a step; `count` is the number of its files, None where that is not known."""

    step: RunStep
    files: tuple[RunOutputFile, ...]
    count: int | None


async def show(visit: Visit) -> Response:
    """A page of the outputs, those of the last steps first."""
    view = await read_view(visit)
    name = visit.query("step")
    steps = [
        step
        for step in reversed(_in_order(view))
        if step.output_uuid and step.output != EMPTY_PDH and name in ("", step.group)
    ]
    start = row_number(visit)
    return visit.page(
        "run_outputs.html",
        view=view,
        run=view.record,
        row=view.row,
        outputs=await _read_rows(visit, steps[start : start + PAGE]),
        count=len(steps),
        start=start,
        name=name,
        names=[group.name for group in group_steps(view.steps)],
        earlier=page_address(view, "outputs", start - PAGE, step=name),
        later=page_address(view, "outputs", start + PAGE, len(steps), step=name),
    )


def _in_order(view: RunView) -> list[RunStep]:
    """The steps by group, the group that was submitted last comes last: a step is submitted after
    those that it needs.
    """
    groups = sorted(group_steps(view.steps), key=lambda group: group.steps[-1].created_at)
    return [step for group in groups for step in group.steps]


async def _read_rows(visit: Visit, steps: Sequence[RunStep]) -> list[OutputRow]:
    """The rows of some steps. Two calls read the files of all."""
    uuids = sorted({str(step.output_uuid) for step in steps})
    counts: dict[str, int] = {}
    files: dict[str, list[RunOutputFile]] = {}
    # A token of limited scope reads no collections, which is no reason not to show the list.
    with suppress(LadingError):
        for record in await _collections(visit, uuids, "file_count", "file_size_total"):
            if (record["file_size_total"] or 0) <= _MOST_BYTES:
                counts[record["uuid"]] = record["file_count"] or 0
        few = [uuid for uuid, count in counts.items() if count <= _MOST_FILES]
        for record in await _collections(visit, few, "unsigned_manifest_text"):
            text = record["unsigned_manifest_text"]
            files[record["uuid"]] = await asyncio.to_thread(_first_files, text)
    left = _THUMBNAILS
    rows: list[OutputRow] = []
    for step in steps:
        uuid, shown = str(step.output_uuid), list[RunOutputFile]()
        for file in files.get(uuid, ()):
            has_thumbnail = left > 0 and is_picture_name(file.path) and file.size <= _SMALL
            left -= has_thumbnail
            shown.append(RunOutputFile(path=file.path, size=file.size, has_thumbnail=has_thumbnail))
        rows.append(OutputRow(step=step, files=tuple(shown), count=counts.get(uuid)))
    return rows


async def _collections(visit: Visit, uuids: Sequence[str], *fields: str) -> list[Record]:
    if not uuids:
        return []
    filters = [["uuid", "in", list(uuids)]]
    return await visit.api.list(
        "collections", filters=filters, select=("uuid", *fields), limit=len(uuids)
    )


def _first_files(manifest: str) -> list[RunOutputFile]:
    """The first files of a collection: pictures and pages come before the others."""
    files = [
        RunOutputFile(path=path, size=file.size)
        for path, file in filetree.files(filetree.from_manifest(manifest))
    ]
    return sorted(files, key=lambda file: (not is_looked_at(file.path), file.path))[:_FILES]
