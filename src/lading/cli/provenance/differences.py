"""Differences between two requests: the first cause, the fields of each step, and the files of the
outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from lading.cli import display, references
from lading.cli.session import CliSession
from lading.client.api import Record
from lading.client.explanations import difference_rows
from lading.client.provenance.causes import Causes, StepComparison, find_causes
from lading.core.containers.comparison import ComparedRequest
from lading.core.errors import NotFound
from lading.core.ids import Infix, is_pdh, is_uuid
from lading.core.quantities import shorten_pair
from lading.core.values import FieldDifference

_LONGEST: Final = 40
"""Characters of a value in the table."""


async def find_both(session: CliSession, names: Sequence[str]) -> list[Record] | None:
    """The requests that both texts name; None if one of them names stored data."""
    uuids = [await _request_uuid(session, name) for name in names]
    if not all(uuids):
        return None
    return [await references.find_request(session, uuid) for uuid in uuids]


async def _request_uuid(session: CliSession, name: str) -> str:
    """The uuid of the request that a text names, or `last`; "" if it names stored data."""
    reference = references.need_reference(name)
    if reference.path or is_pdh(reference.name):
        return ""
    if is_uuid(reference.name) or reference.name == references.LAST:
        is_request = reference.name == references.LAST or is_uuid(reference.name, Infix.REQUEST)
        return reference.name if is_request else ""
    try:
        found = await references.find_named(session, reference.name)
    except NotFound:
        # The end of a uuid, which names requests alone.
        return str((await references.find_request(session, reference.name))["uuid"])
    return found if is_uuid(found, Infix.REQUEST) else ""


async def climb(session: CliSession, request: Record, answer: Mapping[str, Any]) -> Causes | None:
    """The causes of the difference between a request and the nearest earlier container, found
    through the steps that made inputs that differ; None if no input differs.

    `answer`: that of `container_requests/{uuid}/why`.
    """
    near = (answer["decision"] or {}).get("nearest")
    if not near or not request["container_uuid"]:
        return None
    if not any(str(difference["field"]).startswith("mounts") for difference in near["differences"]):
        return None
    container_uuids = [request["container_uuid"], near["container_uuid"]]
    rows = await session.api.list("containers", filters=[["uuid", "in", container_uuids]])
    containers = {row["uuid"]: row for row in rows}
    # The earlier container may be that of another user.
    if not all(uuid in containers for uuid in container_uuids):
        return None
    ours, theirs = (
        ComparedRequest(request=request, container=containers[uuid])
        for request, uuid in zip(
            (request, containers[container_uuids[1]]), container_uuids, strict=True
        )
    )
    return await find_causes(session.api, ours, theirs)


def cause_text(causes: Causes) -> str:
    """The first cause in one sentence; "" without one."""
    cause = causes.first
    return f"{display.plain(cause.name)}: {_sentence(cause)}" if cause else ""


def show_causes(causes: Causes) -> None:
    """Print the first cause, then all steps with their differences."""
    cause = causes.first
    if cause is None:
        click.echo("Both are one computation: nothing that reuse looks at differs.")
        return
    click.echo(f"first cause: {cause_text(causes)}")
    click.echo()
    rows = [
        (display.shorten(step.name, _LONGEST), *row) for step in causes.steps for row in _rows(step)
    ]
    display.table(("STEP", "FIELD", "BEFORE", "AFTER"), rows)
    if causes.is_cut:
        display.note("more steps differ, which were not compared")


def documents(causes: Causes) -> list[Mapping[str, Any]]:
    """The steps for programs."""
    return [
        {
            "name": step.name,
            "before": step.theirs.request["uuid"],
            "after": step.ours.request["uuid"],
            "is_cause": step is causes.first,
            "repeats": step.repeats,
            "explained_inputs": list(step.explained),
            "differences": [
                {"field": each.field, "before": each.theirs, "after": each.ours}
                for each in step.fields
            ],
        }
        for step in causes.steps
    ]


def _sentence(step: StepComparison) -> str:
    if not step.fields:
        return "the same command on the same inputs gave another output; it does not repeat"
    field, before, after = next(_values(step.fields[:1]))
    return f"{field} was {before}, and is {after}"


def _rows(step: StepComparison) -> list[tuple[str, str, str]]:
    rows = [
        (field, *shorten_pair(before, after, _LONGEST))
        for field, before, after in _values(step.fields)
    ]
    rows += [(f"mounts.{path}", "(made by an earlier step)", "") for path in step.explained]
    return rows if step.repeats else [*rows, ("output", "(not the same again)", "")]


def _values(fields: Sequence[FieldDifference]) -> Iterator[tuple[str, ...]]:
    differences = [
        {"field": difference.field, "request": difference.theirs, "container": difference.ours}
        for difference in fields
    ]
    return difference_rows({"nearest": {"differences": differences}})
