"""Two requests compared: fields in the words of `lading request why`, and their output files."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from lading.client import explanations
from lading.client.blocks import BlockClient
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.causes import Causes, StepComparison, find_causes, side_of
from lading.client.provenance.file_differences import compare_files
from lading.client.request_states import shown_command, shown_state
from lading.core.containers.comparison import ComparedRequest, compare_requests, part_of
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.data.tree_changes import Difference
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import Infix, infix_of, is_uuid
from lading.core.values import FieldDifference
from lading.process.concurrency import together
from lading.web.requests import machine
from lading.web.requests.page import request_uuid
from lading.web.visit import Visit

_MOST_FIELDS: Final = 300
"""Differences of fields that are shown of each kind."""
_MOST_FILES: Final = 300
"""Files that are shown."""
_LARGEST: Final = 50_000
"""Files of an output that is compared."""
_MOST_READ: Final = 64 << 20
"""Bytes of both outputs that are read to compare files that are packed into different blocks."""
_MOST_STEPS: Final = 50
"""Steps that are compared, with the two requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierStep:
    """A step that made an input, with its counterpart; `is_cause`: it is why the results differ."""

    name: str
    uuid: str
    counterpart: str
    difference: str
    is_cause: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputComparison:
    """Rows of files that differ (path, ours, theirs), their number, and why there are none.
    `is_cut`: some files of one size were not read, and may be equal.
    """

    rows: list[tuple[str, str, str]]
    total: int
    reason: str = ""
    is_cut: bool = False


async def show(visit: Visit) -> Response:
    """The page that compares a request with that in `with`."""
    uuid, reference = request_uuid(visit), visit.query("with").strip()
    ours = await _side_of_request(visit, uuid)
    values: dict[str, Any] = {
        "request": ours.request, "other": reference, "title": _title(ours), "fault": "",
    }  # fmt: skip
    if not reference:
        return visit.page("compare.html", **values, theirs=None)
    try:
        theirs = await other_side(visit, reference)
    except (Invalid, NotFound) as error:
        # The form stays, so that the text can be corrected.
        values |= {"fault": error.message, "theirs": None}
        return visit.page("compare.html", status=error.status, **values)
    comparison = compare_requests(ours, theirs)
    causes = await find_causes(visit.api, ours, theirs, most=_MOST_STEPS)
    return visit.page(
        "compare.html",
        **values,
        theirs=theirs.request,
        their_title=_title(theirs),
        states=[_state(ours), _state(theirs)],
        machines=[await _machine(visit, side) for side in (ours, theirs)],
        resolved=comparison.resolved,
        first=_sentence(comparison.cause),
        earlier=[_step_row(step, causes) for step in causes.steps[1:]],
        more_steps=causes.is_cut,
        kinds=[
            ("cause", "Differences that prevent reuse", *_rows(comparison.cause)),
            ("further", "Differences that reuse ignores", *_rows(comparison.further)),
            ("result", "Result", *_rows(comparison.result)),
        ],
        files=await _files(visit, ours, theirs),
    )


async def other_side(visit: Visit, reference: str) -> ComparedRequest:
    """The request with this uuid, one whose container has it, or the newest other one with this
    name. Raises Invalid, NotFound.
    """
    infix = infix_of(reference) if is_uuid(reference) else ""
    if infix == Infix.REQUEST:
        return await _side_of_request(visit, reference)
    if infix == Infix.CONTAINER:
        filters: list[list[str]] = [["container_uuid", "=", reference]]
        order, fault = "created_at asc", "There is no request with this container"
    elif infix:
        raise Invalid("with: must be the uuid of a request or of a container, or a name")
    else:
        filters = [["name", "=", reference], ["uuid", "!=", request_uuid(visit)]]
        order, fault = "created_at desc", "There is no other request with this name"
    requests = await visit.api.list("container_requests", filters=filters, order=[order], limit=1)
    if not requests:
        raise NotFound(f"{fault} that you can read")
    return await side_of(visit.api, requests[0])


async def _side_of_request(visit: Visit, uuid: str) -> ComparedRequest:
    return await side_of(visit.api, await visit.api.get("container_requests", uuid))


def _title(side: ComparedRequest) -> str:
    return str(side.request["name"] or shown_command(dict(side.request)))


def _state(side: ComparedRequest) -> str:
    container = dict(side.container) if side.container else None
    return shown_state(RequestOutcome(dict(side.request), container))


async def _machine(visit: Visit, side: ComparedRequest) -> str:
    held = (side.container or {}).get("uuid")
    return await machine.describe(visit, str(side.request["uuid"]), str(held)) if held else ""


def _sentence(differences: tuple[FieldDifference, ...]) -> str:
    return str(differences[0]) if differences else ""


def _step_row(step: StepComparison, causes: Causes) -> EarlierStep:
    sentence = _sentence(step.fields) or "only in inputs that an earlier step made"
    if not step.repeats:
        sentence = "the same command on the same inputs gave another output"
    return EarlierStep(
        name=step.name,
        uuid=str(step.ours.request["uuid"]),
        counterpart=str(step.theirs.request["uuid"]),
        difference=sentence,
        is_cause=step is causes.first,
    )


def _rows(compared: tuple[FieldDifference, ...]) -> tuple[list[tuple[str, ...]], int]:
    """Part, field and both values of each difference, and the number of all."""
    differences = [
        {"field": difference.field, "request": difference.ours, "container": difference.theirs}
        for difference in compared[:_MOST_FIELDS]
    ]
    rows = explanations.difference_rows({"nearest": {"differences": differences}})
    return [(part_of(row[0]), *row) for row in rows], len(compared)


async def _files(visit: Visit, ours: ComparedRequest, theirs: ComparedRequest) -> OutputComparison:
    trees: dict[int, FileTree] = {}

    async def read(number: int, side: ComparedRequest) -> None:
        trees[number] = await _tree(visit, side)

    try:
        await together(read(0, ours), read(1, theirs))
        blocks = BlockClient(visit.services.transport, visit.token)
        comparison = await compare_files(blocks, trees[0], trees[1], most=_MOST_READ)
    except LadingError as error:
        # An output may be in the trash, or not readable: the rest can be compared.
        return OutputComparison(rows=[], total=0, reason=error.message)
    rows = [
        _file_row(difference, is_unread=difference.path in comparison.unread)
        for difference in comparison.differences[:_MOST_FILES]
    ]
    return OutputComparison(
        rows=rows, total=len(comparison.differences), is_cut=bool(comparison.unread)
    )


async def _tree(visit: Visit, side: ComparedRequest) -> FileTree:
    name = side.request["output_uuid"] or (side.container or {}).get("output")
    if not name:
        raise NotFound(f"{side.request['uuid']} has no output yet")
    about = await visit.api.get("collections", name, select=("uuid", "file_count"))
    if (about.get("file_count") or 0) > _LARGEST:
        raise Invalid(f"The output of {side.request['uuid']} has too many files to compare here")
    text = await visit.api.get("collections", name, select=("manifest_text",))
    return await asyncio.to_thread(filetree.from_manifest, text["manifest_text"])


def _file_row(difference: Difference, *, is_unread: bool) -> tuple[str, str, str]:
    ours, theirs = _shown_file(difference.before), _shown_file(difference.after)
    if is_unread:
        return difference.path, ours, f"{theirs}, not read"
    return difference.path, ours, f"{theirs}, other bytes" if ours == theirs else theirs


def _shown_file(node: File | FileTree | None) -> str:
    if node is None:
        return "-"
    if isinstance(node, FileTree):
        return "empty directory"
    # Exact: two sizes that differ by a byte are not shown alike.
    return f"{node.size:,} bytes" if node.size != 1 else "1 byte"
