"""`lading runs diff`: what differs between two runs, and the first cause."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict

import click

from lading.cli import display
from lading.cli.runs.commands import title_of
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.run_records.reading import RunReference, find_run, read_run, read_steps
from lading.core.errors import Invalid
from lading.core.quantities import shorten
from lading.core.runs.differences import (
    RunComparison,
    StepChange,
    StepReason,
    ValueChange,
    compare_runs,
)
from lading.core.runs.report import show_value

_SHOWN = 30
"""Steps that differ of which each has a line."""


@click.command("diff")
@click.argument("before")
@click.argument("after", required=False)
@display.with_json
def diff_run(before: str, after: str | None) -> display.Output:
    """Show how run AFTER differs from run BEFORE: parameters, code, and the steps with another
    result, with the first cause. One run alone is compared with its attempt before.

    \b
    lading runs diff cohort-6 cohort-7
    lading runs diff cohort-7
    """
    old, new, comparison = with_session(lambda session: _compare(session, before, after))
    first = comparison.first
    yield {
        "before": old,
        "after": new,
        "params": [asdict(change) for change in comparison.params],
        "source": [asdict(change) for change in comparison.source],
        "first_cause": asdict(first) if first else None,
        "changed": [asdict(change) for change in comparison.changes],
        "only_before": [asdict(step) for step in comparison.only_before],
        "only_after": [asdict(step) for step in comparison.only_after],
        "equal": comparison.equal,
    }
    titles = [title_of(side) for side in (old, new)]
    if old["uuid"] == new["uuid"]:
        titles = [f"{side['name']}#{side['attempt']}" for side in (old, new)]
    click.echo(f"{titles[0]} ({old['state']}) -> {titles[1]} ({new['state']})")
    for title, changes in (("parameter", comparison.params), ("source", comparison.source)):
        _show_values(title, changes)
    click.echo()
    _show_first(comparison)
    _show_steps(comparison)


async def _compare(
    session: CliSession, before: str, after: str | None
) -> tuple[Record, Record, RunComparison]:
    api = session.api
    if after is None:
        later = await find_run(api, before)
        new = await read_run(api, later)
        if new["attempt"] < 2:
            raise Invalid(f"{before}: has one attempt; name the run to compare it with")
        earlier = RunReference(uuid=later.uuid, attempt=new["attempt"] - 1)
    else:
        earlier, later = await find_run(api, before), await find_run(api, after)
        new = await read_run(api, later)
    old = await read_run(api, earlier)
    steps = [await read_steps(api, reference) for reference in (earlier, later)]
    return old, new, compare_runs(old, new, *steps)


def _show_values(title: str, changes: Sequence[ValueChange]) -> None:
    if changes:
        click.echo()
        display.table(
            (title.upper(), "BEFORE", "AFTER"),
            [
                (change.name, *(_value(value) for value in (change.before, change.after)))
                for change in changes
            ],
        )


def _value(value: object) -> str:
    return "-" if value is None else show_value(value)


def _show_first(comparison: RunComparison) -> None:
    first = comparison.first
    if first is None:
        if not (comparison.only_before or comparison.only_after or comparison.changes):
            click.echo(f"all {comparison.equal} steps are equal")
        return
    reasons = ", ".join(first.reasons)
    click.echo(f"first cause: {display.plain(first.after.name)} ({first.after.uuid}): {reasons}")
    for line in _details(first):
        click.echo(f"  {line}")


def _details(change: StepChange) -> list[str]:
    before, after = change.before, change.after
    lines: list[str] = []
    if StepReason.COMMAND in change.reasons:
        lines += [f"- {_command(before.command)}", f"+ {_command(after.command)}"]
    if StepReason.IMAGE in change.reasons:
        lines += [f"- image {before.image}", f"+ image {after.image}"]
    if StepReason.INPUT in change.reasons:
        lines += [f"- input {content}" for content in before.inputs if content not in after.inputs]
        lines += [f"+ input {content}" for content in after.inputs if content not in before.inputs]
    if StepReason.STATE in change.reasons:
        lines += [
            f"- {before.state} {before.fault}".rstrip(),
            f"+ {after.state} {after.fault}".rstrip(),
        ]
    return [*lines, f"see: lading diff {before.uuid} {after.uuid}"]


def _command(command: Sequence[str]) -> str:
    return display.plain(shorten(shlex.join(command), 200))


def _show_steps(comparison: RunComparison) -> None:
    rows = [
        (
            str(change.after.state),
            ", ".join(change.reasons) or "an earlier step",
            "another" if change.has_other_output else "same" if change.after.output else "none",
            display.plain(change.after.name),
        )
        for change in comparison.changes[:_SHOWN]
    ]
    rows += [
        (str(step.state), f"only {when}", "", display.plain(step.name))
        for when, steps in (("before", comparison.only_before), ("after", comparison.only_after))
        for step in steps[:_SHOWN]
    ]
    if rows:
        click.echo()
        display.table(("STATE", "DIFFERS BY", "OUTPUT", "STEP"), rows)
    total = len(comparison.changes) + len(comparison.only_before) + len(comparison.only_after)
    more = f", {total - len(rows)} more" if total > len(rows) else ""
    display.note(f"{comparison.equal} steps are equal, {total} differ{more}")
