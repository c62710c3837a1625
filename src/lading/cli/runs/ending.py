"""`lading runs cancel` and `rm`: runs that are stopped, or go to the trash."""

from __future__ import annotations

import click

from lading.cli import display
from lading.cli.runs.commands import title_of
from lading.cli.runs.showing import state_line
from lading.cli.session import CliSession, with_session
from lading.client.api import Record
from lading.client.run_records import reading
from lading.client.run_records.reading import RunReference, find_run, read_run, read_steps
from lading.core.errors import Invalid
from lading.core.request_status import RequestStatus
from lading.core.runs.states import RunOutcome

_LIVE = (RequestStatus.WAITING, RequestStatus.RUNNING)


@click.command("cancel")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@display.with_json
def cancel_run(run: str, yes: bool) -> display.Output:
    """Cancel the steps of RUN that wait or run. Requests that other runs need go on.

    \b
    lading runs cancel cohort-7
    """
    reference, record = with_session(lambda session: _find(session, run))
    counts = record["counts"]
    live = counts["waiting"] + counts["running"]
    if not live and record["kind"] == "project":
        raise Invalid(f"{title_of(record)}: is {record['state']}; no step of it waits or runs")
    if not yes:
        display.confirm(f"cancel {live} step{'' if live == 1 else 's'} of {title_of(record)}?")
    cancelled = with_session(lambda session: _cancel(session, reference))
    yield cancelled
    display.note(f"{title_of(cancelled)} is {state_line(cancelled)}")


@click.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--preview", is_flag=True, help="Say what would go, and do nothing.")
@display.with_json
def rm_run(runs: tuple[str, ...], yes: bool, preview: bool) -> display.Output:
    """Put runs into the trash, with all attempts, outputs and logs. `lading project restore` takes
    one out again.

    \b
    lading runs rm cohort-6 cohort-7 --preview
    """
    chosen = with_session(lambda session: _preview(session, runs))
    if preview:
        yield chosen
    for run in chosen:
        click.echo(
            f"{title_of(run)}: {run['requests']} request{'' if run['requests'] == 1 else 's'}, "
            f"{run['collections']} outputs and logs, {display.size(run['bytes'])}",
            err=not preview,
        )
    if preview:
        return
    if live := [run for run in chosen if run["state"] in ("running", "waiting")]:
        raise Invalid(f"{title_of(live[0])}: is {live[0]['state']}; 'lading runs cancel' first")
    if not yes:
        display.confirm(f"put {len(chosen)} run{'' if len(chosen) == 1 else 's'} into the trash?")
    gone = with_session(lambda session: _trash(session, chosen))
    yield gone
    for run in gone:
        display.note(
            f"{run['name']} is in the trash until {run['delete_at']}; "
            f"'lading project restore {run['uuid']}' takes it out"
        )


async def _find(session: CliSession, named: str) -> tuple[RunReference, Record]:
    reference = await find_run(session.api, named)
    return reference, await read_run(session.api, reference)


async def _cancel(session: CliSession, reference: RunReference) -> Record:
    """Cancel the live steps, the last ones first, so that none starts in place of one that was
    cancelled.
    """
    from lading.cli.running.bulk_actions import act_on_each

    api = session.api
    if reference.plural == "container_requests":
        # With its container it cancels all that that asked for.
        await api.action("container_requests", reference.uuid, "cancel")
        return await read_run(api, reference)
    steps = await read_steps(api, reference)
    uuids = [step.uuid for step in reversed(steps) if step.state in _LIVE]
    await act_on_each(uuids, lambda uuid: api.action("container_requests", uuid, "cancel"))
    return await reading.end(
        api,
        reference.uuid,
        attempt=reference.attempt,
        outcome=str(RunOutcome.CANCELLED),
        note="cancelled by its user",
    )


async def _preview(session: CliSession, names: tuple[str, ...]) -> list[Record]:
    """The runs with the numbers of what they own. Raises Invalid for the runner of a workflow."""
    chosen: list[Record] = []
    for name in dict.fromkeys(names):
        reference, run = await _find(session, name)
        if run["kind"] != "project":
            raise Invalid(
                f"{title_of(run)}: is the request of a workflow; 'lading request delete "
                f"{run['uuid']}' deletes it, its steps stay"
            )
        owned = [["owner_uuid", "=", reference.uuid]]
        requests = await _count(session, "container_requests", owned)
        collections, size = 0, 0
        async for page in session.api.pages(
            "collections", filters=owned, select=("uuid", "file_size_total")
        ):
            collections += len(page)
            size += sum(row["file_size_total"] for row in page)
        chosen.append({**run, "requests": requests, "collections": collections, "bytes": size})
    return chosen


async def _count(session: CliSession, plural: str, filters: list[list[str]]) -> int:
    params = {"filters": filters, "limit": 0, "count": "exact"}
    answer: Record = await session.api.request("GET", plural, params=params)
    return int(answer["items_available"])


async def _trash(session: CliSession, chosen: list[Record]) -> list[Record]:
    return [await session.api.delete("groups", run["uuid"]) for run in chosen]
