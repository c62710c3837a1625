"""`lading runs rerun`: the steps of a run, submitted again as its next attempt."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from lading.cli import display
from lading.cli.options import PROPERTY, secret_option
from lading.cli.running.secrets import SecretOption, read_needed, secrets_again
from lading.cli.runs.commands import title_of
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.request_states import REPEATED, repeated
from lading.client.run_records import reading
from lading.client.run_records.reading import RunReference, find_run, read_run, read_steps
from lading.core.errors import Invalid, LadingError
from lading.core.runs.attempts import ATTEMPT
from lading.core.runs.rerunning import RerunPlan, command_with, plan_rerun, renew, replace_inputs
from lading.core.runs.states import RunOutcome, RunState

_LIVE: Final = (RunState.WAITING, RunState.RUNNING)
_BATCH: Final = 200
"""Requests that one call reads."""
_MOST_PREVIEWED: Final = 1000
_FIELDS: Final = (*REPEATED, "uuid", "secrets_needed", "requesting_container_uuid", "created_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """The run, the attempt that is made, and the requests that are submitted again, each with its
    changes. `attempt` is None for the runner of a workflow, which makes a run of its own.
    """

    run: Record
    requests: list[Record]
    changes: list[Record]
    attempt: int | None

    @property
    def again(self) -> int:
        """The number of requests that may not reuse a result."""
        return sum(not change["use_existing"] for change in self.changes)

    @property
    def sentence(self) -> str:
        """`cohort-7#2: 3 steps run again, 5 reuse their results where they can`."""
        own = title_of({**self.run, "attempt": self.attempt or 1})
        others = len(self.requests) - self.again
        told = [f"{self.again} step{' runs' if self.again == 1 else 's run'} again"]
        if others:
            told.append(f"{others} reuse{'s its result' if others == 1 else ' their results'}"
                        " where possible")  # fmt: skip
        return f"{own}: {', '.join(told)}"


@click.command("rerun")
@click.argument("run")
@click.option(
    "--from", "start", multiple=True, metavar="STEP",
    help="Run this step again and all that need it; the others reuse their results.",
)  # fmt: skip
@click.option(
    "--set", "values", type=PROPERTY, multiple=True, metavar="K=V",
    help="Another value of an input of a CWL workflow; V may be JSON.",
)  # fmt: skip
@click.option("--reuse", is_flag=True, help="Use earlier results where they exist.")
@click.option("--priority", type=click.IntRange(1, 1000), default=500, show_default=True)
@secret_option
@click.option("--preview", is_flag=True, help="Show which would run and why, and submit nothing.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@display.with_json
def rerun_run(
    run: str,
    start: tuple[str, ...],
    values: tuple[tuple[str, Any], ...],
    reuse: bool,
    priority: int,
    secrets: tuple[SecretOption, ...],
    preview: bool,
    yes: bool,
) -> display.Output:
    """Submit the steps of RUN again, as its next attempt. A step that reads the output of another
    one reads that of the new one. With --reuse only what has failed or changed runs.

    The commands are those of the earlier attempt: other parameters need the program that made them,
    which the message for --set names. A CWL workflow takes --set, and is a run of its own then.

    \b
    lading runs rerun cohort-7 --reuse
    lading runs rerun cohort-7 --from merge --preview
    """
    changes: Record = {"state": "Committed", "priority": priority, "use_existing": reuse}
    chosen = with_session(lambda session: _choose(session, run, start, dict(values), changes))
    if preview:
        yield from _show(chosen)
        return
    contents = read_needed(secrets, chosen.requests)
    if not yes:
        display.confirm(f"{chosen.sentence}; go on?")
    renewed, requests = with_session(lambda session: _submit(session, chosen, contents))
    yield {
        "uuid": renewed["uuid"],
        "name": renewed["name"],
        "attempt": renewed["attempt"],
        "requests": [request["uuid"] for request in requests],
    }
    click.echo(title_of(renewed))
    display.note(f"{len(requests)} submitted; 'lading runs watch {renewed['uuid']}' shows them")


async def _choose(
    session: CliSession, named: str, start: Sequence[str], values: Record, changes: Record
) -> _Chosen:
    """The requests to submit. Raises NotFound, Invalid."""
    reference = await find_run(session.api, named)
    run = await read_run(session.api, reference)
    if run["state"] in _LIVE:
        raise Invalid(f"{title_of(run)}: is {run['state']}; 'lading runs cancel' or wait first")
    if run["kind"] == "workflow":
        if start:
            raise Invalid(
                f"--from: the runner of {title_of(run)} chooses its steps; leave it out: results "
                "that fit are reused"
            )
        (request,) = await _read(session, [reference.uuid])
        request = replace_inputs(request, values) if values else request
        return _Chosen(run=run, requests=[request], changes=[changes], attempt=None)
    if values:
        raise Invalid(
            f"--set: the program of the run makes its commands; {command_with(run, values)}"
        )
    plan = plan_rerun(await read_steps(session.api, reference), start)
    attempt = max(old["number"] for old in run["attempts"]) + 1 if run["attempts"] else 1
    requests = [
        renew(request, plan)
        for request in await _read(session, [step.uuid for step in plan.steps])
        # The container of another step asks for it again.
        if not _is_asked_for(request, plan)
    ]
    use = [changes["use_existing"] or request["uuid"] not in plan.again for request in requests]
    return _Chosen(
        run=run,
        requests=requests,
        changes=[{**changes, "use_existing": is_reused} for is_reused in use],
        attempt=attempt,
    )


def _is_asked_for(request: Record, plan: RerunPlan) -> bool:
    asking = request["requesting_container_uuid"]
    return asking is not None and any(step.container_uuid == asking for step in plan.steps)


async def _read(session: CliSession, uuids: Sequence[str]) -> list[Record]:
    """Requests, in the order of their uuids. Raises Invalid where one is gone."""
    rows: dict[str, Record] = {}
    for start in range(0, len(uuids), _BATCH):
        filters = [["uuid", "in", list(uuids[start : start + _BATCH])]]
        async for page in session.api.pages("container_requests", filters=filters, select=_FIELDS):
            rows |= {str(row["uuid"]): row for row in page}
    if missing := next((uuid for uuid in uuids if uuid not in rows), None):
        raise Invalid(f"{missing}: was deleted meanwhile; call 'lading runs rerun' again")
    return [rows[uuid] for uuid in uuids]


def _show(chosen: _Chosen) -> display.Output:
    from lading.cli.provenance.preview import show_pipeline
    from lading.client.provenance.previewing import preview_pipeline

    if len(chosen.requests) > _MOST_PREVIEWED:
        raise Invalid(f"--preview: the run has {len(chosen.requests):,} steps; "
                      f"{_MOST_PREVIEWED:,} at most")  # fmt: skip
    position = {request["uuid"]: f"#{at}" for at, request in enumerate(chosen.requests)}
    bodies = [
        {**repeated(request, position), **change}
        for request, change in zip(chosen.requests, chosen.changes, strict=True)
    ]
    if not display.is_json_command():
        click.echo(chosen.sentence)
    yield from show_pipeline(with_session(lambda session: preview_pipeline(session.api, bodies)))


async def _submit(
    session: CliSession, chosen: _Chosen, contents: dict[str, str]
) -> tuple[Record, list[Record]]:
    """Begin the attempt and submit its requests; the run, and the new requests."""
    from lading.cli.running.bulk_actions import submit_again

    run, api = chosen.run, session.api
    for request in chosen.requests:
        # A secret that is missing is found before anything changes.
        secrets_again(request, contents)
    if chosen.attempt is None:
        (request,) = await submit_again(session, chosen.requests, chosen.changes, contents)
        return await read_run(api, RunReference(uuid=request["uuid"])), [request]
    begun = await reading.begin(
        api,
        run["name"],
        project=run["owner_uuid"],
        # The call may be repeated: it must not begin two.
        session=uuid.uuid4().hex,
        params=run["params"],
        source=run["source"],
    )
    requests = [
        {**request, "properties": {**request["properties"], ATTEMPT: begun["attempt"]}}
        for request in chosen.requests
    ]
    reference = RunReference(uuid=begun["uuid"], attempt=begun["attempt"])
    try:
        submitted = await submit_again(session, requests, chosen.changes, contents)
    except LadingError as error:
        await reading.end(
            api,
            reference.uuid,
            attempt=reference.attempt,
            outcome=str(RunOutcome.FAILED),
            note=f"its steps could not be submitted again: {error.message}",
        )
        raise
    return await read_run(api, reference), submitted
