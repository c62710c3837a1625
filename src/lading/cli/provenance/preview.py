"""`lading preview`: what a whole pipeline would do, and why; nothing is submitted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.options import ASSIGNMENT
from lading.cli.references import find_request
from lading.cli.session import CliSession, with_session
from lading.client.provenance.causes import side_of
from lading.client.provenance.origins import find_origins
from lading.client.provenance.previewing import StepPreview, preview_pipeline, summary
from lading.core.errors import Conflict, Invalid
from lading.core.provenance.batch import BatchSteps
from lading.core.provenance.run_crate import CrateStep

_MOST: Final = 1000
"""Steps of one preview, as many as a server accepts in one batch."""
_MOST_BYTES: Final = 64 << 20


@click.command()
@click.argument("source", metavar="FILE|REQUEST")
@click.option(
    "--env",
    "variables",
    type=ASSIGNMENT,
    multiple=True,
    metavar="K=V",
    help="Another value, in all steps that have the variable.",
)
@display.with_json
def preview(source: str, variables: tuple[tuple[str, str], ...]) -> display.Output:
    """Show which steps of a pipeline would be reused, which would run, and why.

    FILE has the body of a batch of requests, as `workflow.json` of `lading export` has it; `#N`
    names an earlier step. REQUEST stands for all requests that led to it, as they are recorded; of
    a CWL workflow name the runner. Times and costs are those of earlier runs.
    """

    path = Path(source)
    items_in_file = _read(path) if path.is_file() else None

    async def action(session: CliSession) -> list[StepPreview]:
        items = await _recorded(session, source) if items_in_file is None else items_in_file
        return await preview_pipeline(session.api, _changed(items, dict(variables)))

    yield from show_pipeline(with_session(action))


def show_pipeline(steps: Sequence[StepPreview]) -> display.Output:
    """Print the summary, and the steps that would run."""
    yield {"summary": summary(steps), "steps": [_document(step) for step in steps]}
    click.echo(display.plain(summary(steps)))
    running = [step for step in steps if step.reused is None]
    if not running:
        return
    click.echo()
    display.table(
        ("STEP", "TOOK", "COST", "RUNS BECAUSE"),
        [
            (
                display.shorten(step.name, 30),
                "?" if step.seconds is None else display.duration(step.seconds),
                "?" if step.cost is None else f"{step.cost:.2f}",
                display.plain(step.reason),
            )
            for step in running
        ],
    )
    timed = [step for step in running if step.seconds is not None]
    seconds = sum(step.seconds or 0.0 for step in timed)
    cost = sum(step.cost or 0.0 for step in timed)
    click.echo()
    click.echo(
        f"before, {len(timed)} of these {len(running)} took {display.duration(seconds)} in all, "
        f"and cost {cost:.2f} dollars"
    )


def _read(path: Path) -> list[Mapping[str, Any]]:
    if path.stat().st_size > _MOST_BYTES:
        raise Invalid(f"{path}: has more than {_MOST_BYTES} bytes")
    try:
        document = json.loads(path.read_text())
    except (ValueError, RecursionError, OSError) as error:
        raise Invalid(f"{path}: is no JSON: {error}") from error
    items = document.get("container_requests") if isinstance(document, dict) else document
    if not isinstance(items, list) or not all(_is_step(item) for item in items) or not items:
        raise Invalid(f"{path}: must have `container_requests`, an array of attributes of requests")
    if len(items) > _MOST:
        raise Invalid(f"{path}: has {len(items)} steps; {_MOST} are possible")
    return items


def _is_step(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("mounts") or {}, dict):
        return False
    return all(isinstance(mount, dict) for mount in (item.get("mounts") or {}).values())


async def _recorded(session: CliSession, name: str) -> list[Mapping[str, Any]]:
    """The steps that led to a request, without steps that only submit others."""
    first = await find_request(session, name)
    uuids = await find_origins(session.api, str(first["uuid"]))
    if len(uuids) > _MOST:
        raise Conflict(f"{name}: {len(uuids)} requests led to it; {_MOST} are possible")
    sides = [
        await side_of(session.api, await session.api.get("container_requests", uuid))
        for uuid in uuids
    ]
    steps: list[Mapping[str, Any]] = []
    batch, visited = BatchSteps(), set()
    for side in sorted(sides, key=lambda side: (side.request["created_at"], side.request["uuid"])):
        container = side.container
        if container is None:
            raise Conflict(f"{side.request['uuid']}: never ran, so that its inputs are not known")
        if container["uuid"] in visited or (container["runtime_constraints"] or {}).get("API"):
            continue
        visited.add(container["uuid"])
        steps.append(batch.step(CrateStep(request=side.request, container=container)))
    if not steps:
        raise Conflict(f"{name}: has no steps but such as submit others")
    return steps


def _changed(
    items: Sequence[Mapping[str, Any]], variables: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    unknown = [
        name
        for name in variables
        if not any(name in (item.get("environment") or {}) for item in items)
    ]
    if unknown:
        raise Invalid(f"--env {unknown[0]}: no step has this variable")
    return [
        {
            **item,
            "environment": {
                name: variables.get(name, value)
                for name, value in (item.get("environment") or {}).items()
            },
        }
        for item in items
    ]


def _document(step: StepPreview) -> Mapping[str, Any]:
    return {
        "name": step.name,
        "reused": step.reused,
        "reason": step.reason or None,
        "seconds": step.seconds,
        "cost": step.cost,
    }
