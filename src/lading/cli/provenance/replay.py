"""`lading replay`: run a request or a tree of requests again, and compare the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.references import FileReference, find_request, find_tree
from lading.cli.running.waiting import wait_and_show
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.causes import side_of
from lading.client.provenance.origins import find_origins
from lading.client.provenance.replaying import FirstDifference, first_difference, replay_request
from lading.client.request_states import shown_command
from lading.core.errors import Conflict, LadingError

_PAGE: Final = 500
"""Requests of one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    request: Record
    container: Record

    @property
    def name(self) -> str:
        return str(self.request["name"] or shown_command(self.request))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replay:
    """A step with what came of its replay; `fault`: why there is nothing to compare."""

    step: _Step
    outcome: RequestOutcome
    difference: FirstDifference | None = None
    fault: str = ""

    @property
    def is_equal(self) -> bool:
        return self.difference is None and not self.fault

    @property
    def said(self) -> str:
        return self.fault or (str(self.difference) if self.difference else "equal")


@click.command()
@click.argument("request")
@click.option(
    "--tree", "whole", is_flag=True, help="Replay all requests that led to this one, too."
)
@display.json_option
def replay(request: str, whole: bool, as_json: bool) -> int:
    """Run REQUEST again as its container is recorded, and compare the outputs.

    An earlier result is never used. Equal outputs have equal hashes; otherwise the first file and
    byte that differ are told. With --tree each step runs on its recorded inputs: a step that does
    not repeat changes nothing for those after it. Steps with access to the API, as runners of
    workflows, are left out of a tree. The exit code is 1 unless all are equal.
    """

    async def action(session: CliSession) -> list[_Replay]:
        steps = await _steps(session, request, whole=whole)
        made = await _submit(session, steps)
        if not as_json:
            display.note(f"{len(made)} submitted: {made[0]['name']}{_more(made)}")
        ended = await wait_and_show(
            session.api, [str(one["uuid"]) for one in made], is_quiet=as_json
        )
        return [
            await _compared(session, step, outcome)
            for step, outcome in zip(steps, ended, strict=True)
        ]

    found = with_session(action)
    if as_json:
        display.emit_json([_document(one) for one in found])
    else:
        _show(found)
    return 0 if all(one.is_equal for one in found) else 1


async def _steps(session: CliSession, text: str, *, whole: bool) -> list[_Step]:
    """The steps to replay, the earliest first. Raises Conflict for one without a container."""
    first = await find_request(session, text)
    uuids = [str(first["uuid"])]
    if whole:
        uuids = await find_origins(session.api, uuids[0])
    steps = []
    for uuid in uuids:
        side = await side_of(session.api, await session.api.get("container_requests", uuid))
        if side.container is None:
            raise Conflict(f"{uuid}: never ran, so that nothing is recorded to replay")
        step = _Step(request=dict(side.request), container=dict(side.container))
        if whole and step.container["runtime_constraints"].get("API"):
            display.note(f"{display.plain(step.name)}: has access to the API, left out")
            continue
        steps.append(step)
    if not steps:
        raise Conflict(f"{uuids[0]}: no step of it can be replayed")
    return sorted(steps, key=lambda one: str(one.request["created_at"]))


async def _submit(session: CliSession, steps: Sequence[_Step]) -> list[Record]:
    bodies = [replay_request(one.request, one.container) for one in steps]
    made: list[Record] = []
    for start in range(0, len(bodies), _PAGE):
        body = {"container_requests": bodies[start : start + _PAGE]}
        answer = await session.api.action("container_requests", None, "batch", body=body)
        made += answer["items"]
    return made


async def _compared(session: CliSession, step: _Step, outcome: RequestOutcome) -> _Replay:
    again = outcome.container or {}
    before, after = step.container, again
    if again.get("state") != "Complete":
        return _Replay(step=step, outcome=outcome, fault=f"not finished: {outcome.fault}")
    if before["exit_code"] != after["exit_code"]:
        fault = f"exit code {after['exit_code']}, it was {before['exit_code']}"
        return _Replay(step=step, outcome=outcome, fault=fault)
    if before["output"] == after["output"]:
        return _Replay(step=step, outcome=outcome)
    try:
        trees = [await find_tree(session, FileReference(one["output"])) for one in (before, after)]
        difference = await first_difference(session.blocks, *trees)
    except LadingError as error:
        fault = f"another hash; the files cannot be compared: {error.message}"
        return _Replay(step=step, outcome=outcome, fault=fault)
    return _Replay(step=step, outcome=outcome, difference=difference)


def _show(found: Sequence[_Replay]) -> None:
    equal = sum(one.is_equal for one in found)
    if len(found) > 1 or equal < len(found):
        display.table(
            ("STEP", "REPLAY", "RESULT"),
            [
                (display.shorten(one.step.name, 30), str(one.outcome.request["uuid"]), one.said)
                for one in found
            ],
        )
        click.echo()
    click.echo(f"reproduced {equal} of {len(found)}")


def _document(one: _Replay) -> dict[str, Any]:
    difference = one.difference
    return {
        "name": one.step.name,
        "request": one.step.request["uuid"],
        "replay": one.outcome.request["uuid"],
        "reproduced": one.is_equal,
        "fault": one.fault or None,
        "difference": difference
        and {
            "path": difference.path,
            "offset": difference.offset,
            "before": difference.before,
            "after": difference.after,
        },
    }


def _more(made: Sequence[Record]) -> str:
    return f" and {len(made) - 1} more" if len(made) > 1 else ""
