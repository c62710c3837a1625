"""`lading wait`: wait for many requests, and report how they ended.

The exit code is 0 if all of them succeeded, else the exit code of the first that failed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from lading.cli import display
from lading.cli.exit_codes import TIMED_OUT
from lading.cli.hangup import unread
from lading.cli.main import fail
from lading.cli.options import DURATION, PassingCommand
from lading.cli.references import find_request
from lading.cli.running import selection
from lading.cli.running.selection import RequestSelection, matching
from lading.cli.session import CliSession, tell_page, with_session
from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome, wait_for_all
from lading.client.request_states import status_of
from lading.core.errors import NotFound
from lading.core.request_status import RequestStatus

if TYPE_CHECKING:
    from lading.client.provenance.failures import FailureReport


@click.command(cls=PassingCommand)
@click.argument("requests", nargs=-1, metavar="[REQUEST]...")
@matching
@click.option("--timeout", type=DURATION, default="0", metavar="TIME", help="Wait no longer.")
@display.json_option
def wait(requests: tuple[str, ...], timeout: int, **selected: Any) -> None:
    """Wait until requests have ended: those that are named, and those that match the options.

    The exit code is 0 if all have succeeded, else that of the first that failed; 124 after
    --timeout. Ctrl-C stops the wait; the requests go on.
    """
    criteria = RequestSelection(**selected)
    if not requests and criteria == RequestSelection():
        raise click.UsageError(
            "Name requests, or give --name, --project, --user, --property or --since."
        )
    counts = Counts()

    async def action(
        session: CliSession,
    ) -> tuple[list[RequestOutcome], dict[str, FailureReport]]:
        uuids = await _find(session, requests, criteria)
        counts.total = len(uuids)
        async with asyncio.timeout(timeout or None):
            ended = await wait_and_show(session.api, uuids, counts=counts)
        if display.is_json_command():
            return ended, {}
        with unread():
            tell_failure(session, ended)
        return ended, await read_failures(session, ended)

    try:
        ended, failures = with_session(action)
    except TimeoutError:
        fault = f"{counts.total - counts.ended} of {counts.total} have not ended"
        fail(
            f"{fault} after {display.duration(timeout)}",
            TIMED_OUT,
            as_json=display.is_json_command(),
        )
    with unread():
        if display.is_json_command():
            display.emit_json([_row(outcome) for outcome in ended])
        else:
            show_end(ended, failures)
    sys.exit(worst(ended))


class Counts(msgspec.Struct):
    """Numbers of the awaited requests that have ended."""

    ended: int = 0
    total: int = 0


async def wait_and_show(
    api: ApiClient, uuids: Sequence[str], *, counts: Counts | None = None
) -> list[RequestOutcome]:
    """Wait until all requests are Final, with a bar; as `wait_for_all`. `counts` is kept up to
    date.
    """
    kept = counts or Counts()
    with display.progress("requests", is_bytes=False) as show:

        def report(ended: int, total: int) -> None:
            kept.ended, kept.total = ended, total
            show(ended, total)

        return await wait_for_all(api, uuids, report)


def tell_failure(session: CliSession, ended: Sequence[RequestOutcome]) -> None:
    """Tell a person at a terminal the page of the first request that failed, if one did."""
    failed = next((outcome for outcome in ended if outcome.exit_code), None)
    if failed is not None:
        tell_page(session, failed.request["uuid"])


async def read_failures(
    session: CliSession, ended: Sequence[RequestOutcome]
) -> dict[str, FailureReport]:
    """The steps that the first failures come from, with their last lines, by the uuid of the
    request.
    """
    if not any(outcome.exit_code for outcome in ended):
        return {}
    # Imported here: most waits end without a failure.
    from lading.cli.running.failures import AMONG_OTHERS, LINES_AMONG_OTHERS
    from lading.client.provenance.failures import find_failures

    return await find_failures(session.api, ended, most=AMONG_OTHERS, lines=LINES_AMONG_OTHERS)


def show_end(
    ended: Sequence[RequestOutcome],
    failures: Mapping[str, FailureReport],
    *,
    is_interrupted: bool = False,
) -> None:
    """Print the numbers of succeeded and cancelled requests. Each failed request has a line, and
    its last lines if it is in `failures`. Requests that Ctrl-C cancelled are only counted.
    """
    bad = [outcome for outcome in ended if outcome.exit_code]
    cancelled = [outcome for outcome in bad if status_of(outcome) is RequestStatus.CANCELLED]
    for outcome in bad:
        if not (is_interrupted and status_of(outcome) is RequestStatus.CANCELLED):
            click.echo(_line(outcome))
            _show_failure(failures.get(outcome.request["uuid"]))
    also = f", {len(cancelled)} cancelled" if cancelled else ""
    display.note(f"{len(ended) - len(bad)} of {len(ended)} succeeded{also}")


def _show_failure(report: FailureReport | None) -> None:
    if report is not None:
        # Imported here, as in `read_failures`.
        from lading.cli.running.failures import failure_text

        head, *lines = failure_text(report).split("\n")
        for line in ([f"  failed step: {head}"] if report.is_other else []) + lines:
            click.echo(line)


def _line(outcome: RequestOutcome) -> str:
    name = display.plain(outcome.request["name"] or "")
    beginning = f"{status_of(outcome)}  {outcome.request['uuid']}"
    return f"{beginning}  {name + ': ' if name else ''}{outcome.fault}"


def worst(ended: Sequence[RequestOutcome]) -> int:
    """The exit code for all of them: of the first that failed."""
    return next((outcome.exit_code for outcome in ended if outcome.exit_code), 0)


async def _find(session: CliSession, named: Sequence[str], criteria: RequestSelection) -> list[str]:
    uuids = [str((await find_request(session, name))["uuid"]) for name in named]
    if criteria != RequestSelection():
        rows = await selection.find(session, criteria)
        submitted = [
            outcome.request
            for outcome in rows.requests
            if outcome.request["state"] != "Uncommitted"
        ]
        # In the order of their creation.
        uuids += [row["uuid"] for row in reversed(submitted)]
        if not uuids:
            raise NotFound("no such request; see 'lading request list'")
    return list(dict.fromkeys(uuids))


def _row(outcome: RequestOutcome) -> Record:
    request, container = outcome.request, outcome.container or {}
    return {
        "uuid": request["uuid"],
        "name": request["name"],
        "exit_code": outcome.exit_code,
        "state": container.get("state"),
        "output": container.get("output"),
        "output_uuid": request["output_uuid"],
    }
