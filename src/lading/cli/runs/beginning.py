"""`lading runs begin`, `end` and `add`: runs of programs that do not name them themselves."""

from __future__ import annotations

import os
import shlex
import uuid
from typing import Any

import click

from lading.cli import display
from lading.cli.options import PROPERTY
from lading.cli.references import find_project, find_request
from lading.cli.runs.commands import title_of
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.run_records import reading
from lading.client.run_records.reading import RunReference, find_run
from lading.client.run_records.submitting import (
    ATTEMPT,
    RUN,
    named_run,
    need_run,
    run_of,
    this_source,
)
from lading.core.runs.states import RunOutcome


@click.command("begin")
@click.argument("name")
@click.option("--project", metavar="PROJECT", help="Project that owns it.  [default: yours]")
@click.option(
    "--param", "params", type=PROPERTY, multiple=True, metavar="K=V",
    help="Parameter of the run; V may be JSON. No secrets: whoever reads the run sees it.",
)  # fmt: skip
@display.with_json
def begin_run(
    name: str, project: str | None, params: tuple[tuple[str, Any], ...]
) -> display.Output:
    """Begin the next attempt of the run NAME, and print variables for the shell: all requests that
    it then submits are steps of this attempt.

    \b
    eval "$(lading runs begin cohort-7 --param k=25)"
    """
    own, attempt = named_run(name)

    async def action(session: CliSession) -> Record:
        return await reading.begin(
            session.api,
            own,
            project=await find_project(session, project) if project else None,
            attempt=attempt,
            # The call may be repeated: it must not begin two.
            session=uuid.uuid4().hex,
            params=dict(params),
            source=this_source(),
        )

    begun = with_session(action)
    yield begun
    # By its uuid: it may be in a project, where its name alone would not find it.
    click.echo(f"export {RUN}={shlex.quote(begun['uuid'])} {ATTEMPT}={begun['attempt']}")
    display.note(
        f"attempt {begun['attempt']} of {begun['name']}; "
        f"'lading runs show {shlex.quote(begun['name'])}'"
    )


@click.command("end")
@click.argument("run", required=False)
@click.option("--failed", is_flag=True, help="Its program failed.")
@click.option("--done", is_flag=True, help="It is done, though a step failed: it was made good.")
@click.option("--note", default="", help="Why.")
@display.with_json
def end_run(run: str | None, failed: bool, done: bool, note: str) -> display.Output:
    """Note the end of the program of RUN, by default of that in LADING_RUN. A run needs no end: it
    has ended when its steps have.

    \b
    lading runs end
    lading runs end cohort-7 --failed --note 'no plot'
    """
    if failed and done:
        raise click.UsageError("Give --failed or --done, not both.")

    async def action(session: CliSession) -> Record:
        name, attempt = need_run(run_of(os.environ, run))
        reference = await find_run(session.api, name)
        record = await reading.read_run(
            session.api, RunReference(uuid=reference.uuid, attempt=attempt)
        )
        has_failed = failed or (record["counts"]["failed"] and not done)
        outcome = RunOutcome.FAILED if has_failed else RunOutcome.DONE
        return await reading.end(
            session.api, reference.uuid, attempt=attempt, outcome=str(outcome), note=note
        )

    ended = with_session(action)
    yield ended
    display.note(f"{title_of(ended)} is {ended['state']}")


@click.command("add")
@click.argument("run")
@click.argument("requests", nargs=-1, required=True, metavar="REQUEST...")
@click.option("--step", default="", help="Name of the step that they are of.")
@display.with_json
def add_run(run: str, requests: tuple[str, ...], step: str) -> display.Output:
    """Move requests that were submitted without a run into RUN, with their outputs and logs. The
    run is made if there is none.

    \b
    lading runs add cohort-7 last
    """

    async def action(session: CliSession) -> Record:
        name, attempt = named_run(run)
        uuids = [str((await find_request(session, request))["uuid"]) for request in requests]
        reference = await _find_or_begin(session, name, attempt)
        body: Record = {"uuids": uuids, "step": step}
        body |= {"attempt": reference.attempt} if reference.attempt else {}
        added: Record = await session.api.action("groups", reference.uuid, "add_to_run", body=body)
        return added

    added = with_session(action)
    yield added
    display.note(f"{len(requests)} added to {title_of(added)}")


async def _find_or_begin(session: CliSession, name: str, attempt: int | None) -> RunReference:
    from lading.core.errors import NotFound

    try:
        reference = await find_run(session.api, name)
    except NotFound:
        begun = await reading.begin(session.api, name, session=uuid.uuid4().hex)
        return RunReference(uuid=begun["uuid"], attempt=begun["attempt"])
    return RunReference(uuid=reference.uuid, attempt=attempt)
