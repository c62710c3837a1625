"""`lading runs show`: one run, its failures with their last lines, its steps as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.runs.commands import dollars, parameters_line, time_left, title_of, took, user_names
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.run_records.reading import (
    find_run,
    input_names,
    last_lines,
    read_run,
    read_steps,
)
from lading.core.quantities import shorten
from lading.core.request_status import RequestStatus
from lading.core.runs.states import RunCounts
from lading.core.runs.step_groups import (
    RunInput,
    RunStep,
    StepGroup,
    failures_of,
    group_steps,
    inputs_of,
    tree_of,
)

_FAILURES: Final = 20
"""Failures whose last lines are shown without --all."""
_INPUTS: Final = 10
"""Inputs that are shown without --all."""
_MOST_NAMED: Final = 50
"""Inputs whose names are read."""
_DEEPEST: Final = 12
"""Indented steps of the tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPicture:
    """A run with its steps, and the last lines of its failures by uuid."""

    run: Record
    steps: list[RunStep]
    lines: dict[str, list[str]] = field(default_factory=dict)
    user: str = ""
    names: dict[str, str] = field(default_factory=dict)
    """Names of input collections by content."""


@click.command("show")
@click.argument("run", default="last")
@click.option(
    "--all", "is_all", is_flag=True, help="Show each request of a step, and all failures."
)
@click.option(
    "--lines", type=click.IntRange(0, 100), default=1, show_default=True,
    help="Last lines of each failure.",
)  # fmt: skip
@display.with_json
def show_run(run: str, is_all: bool, lines: int) -> display.Output:
    """Show a run: failures with the last line that each wrote, then its steps as a tree.

    \b
    lading runs show cohort-7
    lading runs show cohort-7#1 --lines 10
    """
    most = 10_000 if is_all else _FAILURES
    picture = with_session(
        lambda session: look(session, run, failures=most, lines=lines, is_whole=True)
    )
    yield document(picture)
    show_head(picture)
    show_failures(picture, most)
    click.echo()
    show_tree(group_steps(picture.steps), is_all=is_all)
    show_inputs(picture, is_all=is_all)


async def look(
    session: CliSession, named: str, *, failures: int, lines: int, is_whole: bool = False
) -> RunPicture:
    """Read a run, its steps, and the last lines of its first failures; `is_whole`: the names of its
    inputs too.
    """
    import asyncio

    reference = await find_run(session.api, named)
    run = await read_run(session.api, reference)
    steps = await read_steps(session.api, reference)
    failed = failures_of(steps)[: failures if lines else 0]
    gate = asyncio.Semaphore(8)

    async def read(step: RunStep) -> list[str]:
        async with gate:
            return await last_lines(session.api, step, most=lines)

    async with asyncio.TaskGroup() as group:
        tasks = {step.uuid: group.create_task(read(step)) for step in failed}
    names = await user_names(session, [run["user_uuid"]])
    contents = [read.content for read in inputs_of(steps)][:_MOST_NAMED] if is_whole else []
    return RunPicture(
        run=run,
        steps=steps,
        lines={uuid: task.result() for uuid, task in tasks.items()},
        user=names.get(run["user_uuid"], ""),
        names=await input_names(session.api, contents),
    )


def document(picture: RunPicture) -> Record:
    """The run for programs, with its steps and the last lines of its failures."""
    return {
        **picture.run,
        "failures": [
            {
                "uuid": step.uuid,
                "name": step.name,
                "step": step.group,
                "exit_code": step.exit_code,
                "fault": step.fault,
                "last_lines": picture.lines.get(step.uuid, []),
            }
            for step in failures_of(picture.steps)
        ],
        "inputs": [
            {**asdict(read), "name": picture.names.get(read.content, "")}
            for read in inputs_of(picture.steps)
        ],
        "steps": [
            {
                "name": group.name,
                "state": group.state,
                "needs": group.needs,
                "counts": group.counts.shown(),
                "seconds": group.seconds,
                "cost": group.cost,
                "requests": [asdict(step) for step in group.steps],
            }
            for group in group_steps(picture.steps)
        ],
    }


def show_head(picture: RunPicture) -> None:
    """Print what there is to know about a run as a whole."""
    run, now = picture.run, datetime.now(UTC)
    display.fields(
        [
            ("run", f"{title_of(run)}  ({run['uuid']})"),
            ("state", state_line(run)),
            ("note", run["note"]),
            ("parameters", parameters_line(run["params"])),
            ("source", source_line(run["source"])),
            ("begun", f"{display.age(run['began_at'], now)} ago"
             f"{f' by {picture.user}' if picture.user else ''}"),
            ("took", took(run, now)),
            ("expected end", f"in {left}" if (left := time_left(run, now)) else ""),
            ("cost", cost_line(run)),
            ("attempts", _attempts_line(run)),
        ]
    )  # fmt: skip


def state_line(run: Record) -> str:
    """The state with the numbers of steps: `failed: 48 of 50 done, 1 failed, 12 reused`."""
    counts = run["counts"]
    parts = [f"{counts['done']} of {counts['total']} done"]
    parts += [
        f"{counts[name]} {name}"
        for name in ("failed", "cancelled", "running", "waiting", "draft", "reused", "repeated")
        if counts[name]
    ]
    return f"{run['state']}: {', '.join(parts)}" if counts["total"] else f"{run['state']}: no steps"


def source_line(source: Mapping[str, Any]) -> str:
    """The origin of the code: `pipeline.sh, commit 1a2b3c4d5e6f, with changes`."""
    parts = [str(source[name]) for name in ("script", "url", "kind") if source.get(name)]
    if commit := source.get("commit"):
        parts.append(f"commit {str(commit)[:12]}")
    if source.get("is_dirty"):
        parts.append("with changes that are not committed")
    return ", ".join(parts)


def cost_line(run: Record) -> str:
    """The cost of a run, and the cost that reuse saved; "" for nothing."""
    saved = f"; reuse saved {dollars(run['saved'])}" if run["saved"] > 0 else ""
    return f"${dollars(run['cost']) or '0'}{saved}" if run["cost"] > 0 or saved else ""


def _attempts_line(run: Record) -> str:
    numbers = [str(attempt["number"]) for attempt in run["attempts"]]
    return f"{', '.join(numbers)}; this is {run['attempt']}" if len(numbers) > 1 else ""


def show_failures(picture: RunPicture, most: int) -> None:
    """Print the failures with their last lines, the first to end first."""
    failed = failures_of(picture.steps)
    for step in failed[:most]:
        click.echo()
        fault = f": {step.fault}" if step.fault else ""
        head = f"failed {display.plain(step.name)} ({step.uuid}){display.plain(fault)}"
        click.echo(click.style(head, fg="red"))
        for line in picture.lines.get(step.uuid, ()):
            click.echo(f"  | {line}")
    if len(failed) > most:
        click.echo()
        display.note(f"and {len(failed) - most} further failures; --all shows them")


def show_tree(groups: Sequence[StepGroup], *, is_all: bool) -> None:
    """Print the steps, each below one of those that it needs."""
    rows: list[tuple[str, ...]] = []
    for depth, group in tree_of(groups):
        indent = "  " * min(depth, _DEEPEST)
        rows.append(_group_row(group, f"{indent}{shorten(group.name, 60)}"))
        if is_all and len(group.steps) > 1:
            rows += [
                _step_row(step, f"{indent}  - {shorten(step.name, 60)}") for step in group.steps
            ]
    display.table(("STATE", "DONE", "REUSED", "TIME", "COST", "STEP"), rows, optional=("COST",))


def show_inputs(picture: RunPicture, *, is_all: bool) -> None:
    """Print the contents that no step of the run made."""
    inputs = inputs_of(picture.steps)
    shown = inputs if is_all else inputs[:_INPUTS]
    if not shown:
        return
    click.echo()
    display.table(
        ("INPUT", "CONTENT", "READ BY"),
        [(picture.names.get(read.content, ""), read.content, _readers(read)) for read in shown],
    )
    if len(inputs) > len(shown):
        display.note(f"and {len(inputs) - len(shown)} further inputs; --all shows them")


def _readers(read: RunInput) -> str:
    return shorten(", ".join(read.readers), 120)


def _group_row(group: StepGroup, name: str) -> tuple[str, ...]:
    counts = group.counts
    return (
        group_state(counts, str(group.state)),
        f"{counts.done}/{counts.total}",
        str(counts.reused or ""),
        display.duration(group.seconds) if group.seconds else "",
        dollars(group.cost),
        # A blank at the begin would be taken away.
        name.replace("  ", "· "),
    )


def _step_row(step: RunStep, name: str) -> tuple[str, ...]:
    is_failed = step.state is RequestStatus.FAILED
    code = f" {step.exit_code}" if is_failed and step.exit_code else ""
    return (
        f"{step.state}{code}",
        "",
        "1" if step.is_reused else "",
        display.duration(step.seconds) if step.seconds and not step.is_reused else "",
        "" if step.is_reused else dollars(step.cost),
        name.replace("  ", "· "),
    )


def group_state(counts: RunCounts, state: str) -> str:
    """The state of a step, with the number of failures among several: `failed 2`."""
    return f"{state} {counts.failed}" if counts.failed and counts.total > 1 else state
