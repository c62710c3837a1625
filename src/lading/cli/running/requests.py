"""`lading request`: list, show, change, logs, why; `bulk_actions` has cancel, delete and rerun."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from lading.cli import display
from lading.cli.exit_codes import pass_on
from lading.cli.options import MOMENT, PROPERTY
from lading.cli.references import find_request
from lading.cli.running import bulk_actions, explanation, selection, usage
from lading.cli.running.selection import RequestSelection, selecting, state_option
from lading.cli.session import CliSession, tell_page, with_session
from lading.client.outcomes import RequestOutcome
from lading.client.request_states import (
    find_waits,
    is_reused,
    late_text,
    seconds_of,
    shown_command,
    shown_state,
    waits_unseen,
)
from lading.core.errors import NotFound
from lading.core.quantities import MAX_SHOWN

# Following a log takes long to import; lists need none.
if TYPE_CHECKING:
    from lading.cli.running.log_lines import Readable
    from lading.client.api import Record

_SELECT = (
    "uuid",
    "created_at",
    "state",
    "priority",
    "name",
    "command",
    "container_uuid",
    "container_count",
    "scheduling_parameters",
)
# Reasons of waiting that are told below the list.
_TOLD = 3
# Options whose field has another name.
_CHANGED = {"expires": "expires_at", "attempts": "container_count_max"}


@click.group()
def request() -> None:
    """List, show, change, cancel, repeat, delete and explain requests; read their logs.

    REQUEST is a uuid, the end of one, a name (the newest request that has it), or `last`.
    """


@request.command(name="list")
@state_option
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Most requests to list.",
)
@click.option(
    "--sort",
    type=click.Choice(selection.SORTS),
    default="created",
    show_default=True,
    help="The newest, the largest amount first; names and states from A to Z.",
)
@selecting
@display.with_json
def list_(limit: int, sort: str, **selected: Any) -> display.Output:
    """List requests, the newest first.

    STATE is waiting, running, done, failed (with the exit code) or cancelled, with the reason
    beside it, or draft for a request that was not submitted yet; --json has the states of the API.
    MEMORY is the most that it used, CPU the time of processors, beside what was asked for. On a
    narrow terminal columns are left out and commands cut, elsewhere to 300 characters. What a
    request waits for stands behind its state, and in a sentence below: a quota, its turn, another
    request, a time. Requests that are expected to miss their deadline are named below, too.
    """
    criteria = RequestSelection(**selected)

    async def action(session: CliSession) -> tuple[selection.Found, dict[str, Record]]:
        listed = await selection.find(session, criteria, _SELECT, most=limit, sort=sort)
        unseen = [
            outcome.request["uuid"]
            for outcome in listed.requests
            if waits_unseen(outcome.request, outcome.container)
        ]
        return listed, await find_waits(session.api, unseen) if unseen else {}

    listed, waits = with_session(action)
    outcomes, total = listed.requests, listed.total
    yield [
        {
            **outcome.request,
            "container": outcome.container,
            "waits": waits.get(outcome.request["uuid"]),
        }
        for outcome in outcomes
    ]
    now = datetime.now(UTC)
    display.table(
        ("REQUEST", "AGE", "STATE", "TOOK", "MEMORY", "CPU", "REUSED", "NAME OR COMMAND"),
        (_row(outcome, now, waits.get(outcome.request["uuid"])) for outcome in outcomes),
        optional=("REUSED", "CPU", "MEMORY", "AGE", "TOOK"),
    )
    for outcome in outcomes:
        if late := late_text(outcome, now):
            display.note(f"{outcome.request['uuid']}: {late}")
    for sentence, count in Counter(wait["sentence"] for wait in waits.values()).most_common(_TOLD):
        display.note(f"{count} of these: {sentence}" if len(waits) > 1 else sentence)
    if total is None:
        display.note(f"the newest {len(outcomes)}; there are more: --limit")
    elif total > len(outcomes):
        display.note(
            f"{len(outcomes)} of {total}; --limit, --name, --failed and --since show others"
        )


def _row(outcome: RequestOutcome, now: datetime, wait: Record | None) -> tuple[str, ...]:
    """A line of the list."""
    seconds = seconds_of(outcome, now)
    return (
        outcome.request["uuid"],
        display.age(outcome.request["created_at"], now),
        shown_state(outcome, wait),
        "" if seconds is None else display.duration(seconds),
        usage.shown_memory(outcome.container) if outcome.container else "",
        usage.shown_cpu(outcome.container) if outcome.container else "",
        "yes" if outcome.container and is_reused(outcome.request, outcome.container) else "",
        display.shorten(outcome.request["name"] or shown_command(outcome.request), MAX_SHOWN),
    )


@request.command()
@click.argument("uuid", metavar="REQUEST")
@display.json_option
def show(uuid: str) -> None:
    """Show one request and its container; of one that failed first the last lines of its standard
    error, or the step that it failed for.
    """
    # Imported here: other commands of this module show lists.
    from lading.cli.running import request_details

    with_session(lambda session: request_details.show(session, uuid))


@request.command()
@click.argument("uuids", nargs=-1, required=True, metavar="REQUEST...")
@click.option("--priority", type=click.IntRange(0, 1000), help="0 to 1000; 0 is on hold.")
@click.option(
    "--expires", type=MOMENT, metavar="TIME", help="Cancel it at this time: 18:00, or 2h from now."
)
@click.option("--attempts", type=click.IntRange(1), help="Containers to try when the system fails.")
@click.option("--name", help="Name of the request.")
@click.option("--description", help="Description of its purpose.")
@click.option(
    "--property",
    "properties",
    type=PROPERTY,
    multiple=True,
    metavar="K=V",
    help="Property of the request.",
)
@display.with_json
def change(
    uuids: tuple[str, ...],
    properties: tuple[tuple[str, Any], ...],
    **options: str | int | None,
) -> display.Output:
    """Change attributes of submitted requests."""
    asked = {
        _CHANGED.get(name, name): value for name, value in options.items() if value is not None
    }
    if not asked and not properties:
        raise click.UsageError("nothing to change; give for example --priority 900")

    async def action(session: CliSession) -> list[Record]:
        requests = [await find_request(session, uuid) for uuid in uuids]
        return [
            await session.api.update(
                "container_requests",
                request["uuid"],
                {
                    **asked,
                    **(
                        {"properties": {**request["properties"], **dict(properties)}}
                        if properties
                        else {}
                    ),
                },
            )
            for request in requests
        ]

    done = with_session(action)
    yield done
    for request in done:
        display.note(f"{request['uuid']}: changed")


for _action in (bulk_actions.cancel, bulk_actions.rerun, bulk_actions.delete):
    request.add_command(_action)


@request.command()
@click.argument("uuid", metavar="REQUEST")
@click.option("-f", "--follow", is_flag=True, help="Continue until the request is final.")
@click.option(
    "--file", "name", metavar="NAME", help="Another file of the log, for example crunch-run.txt."
)
@click.option(
    "-t", "--timestamps", is_flag=True, help="Keep the timestamps, both streams in order of time."
)
@click.option(
    "--dispatch", is_flag=True, help="Decisions of dispatchers about it, in place of its output."
)
@display.json_option
def logs(uuid: str, follow: bool, name: str | None, timestamps: bool, dispatch: bool) -> None:
    """Show the output of the command: its standard output on ours, its standard error on ours.

    With --json, one document with the text of each file, or with the decisions. With --follow, the
    exit code is that of the command; 124 to 127 without one, as `lading run` has it.
    """
    if dispatch and (follow or name or timestamps):
        raise click.UsageError(
            "--dispatch shows decisions; leave out --follow, --file and --timestamps"
        )
    if follow and (name or timestamps or display.is_json_command()):
        raise click.UsageError(
            "--follow shows the two streams as they come; leave out --file, --timestamps and --json"
        )
    if dispatch:
        display.show(_show_decisions(uuid))
    elif follow:
        pass_on(click.get_current_context())
        sys.exit(with_session(lambda session: _follow(session, uuid)))
    else:
        with_session(lambda session: _show_logs(session, uuid, name, is_raw=timestamps))


async def _follow(session: CliSession, uuid: str) -> int:
    """Show the log to the end; the exit code of the command."""
    from lading.cli.running.following import Follower, Watcher

    found = await find_request(session, uuid)
    watcher = Watcher(stdout=sys.stdout.buffer, stderr=sys.stderr.buffer, say=display.note)
    return (await Follower(session.api, found, watcher).follow()).exit_code


async def _show_logs(session: CliSession, uuid: str, name: str | None, *, is_raw: bool) -> None:
    """Show the log file `name`, or both streams; `is_raw`: with timestamps, in their order."""
    from lading.cli.running import log_lines

    request = await find_request(session, uuid)
    files = _log_files(
        session, request, [name] if name else ["stdout.txt", "stderr.txt"], is_raw=is_raw
    )
    if display.is_json_command():
        await log_lines.write_json(files, sys.stdout.buffer)
    elif is_raw:
        async with aclosing(log_lines.merged_log(list(files.values()))) as pieces:
            async for piece in pieces:
                display.write_all(sys.stdout.buffer, piece)
    else:
        for log_name, file in files.items():
            stream = sys.stderr if log_name == "stderr.txt" and name is None else sys.stdout
            await log_lines.copy_log(file, stream.buffer)
    if name and getattr(files[name], "is_missing", True):
        raise NotFound(f"{name}: no such file in the log{await _files_of(session, request)}")


async def _files_of(session: CliSession, request: Record) -> str:
    """List of the files of the log, for a message; "" while there is no log collection."""
    if not request["log_uuid"]:
        return ""
    log = await session.api.get("collections", request["log_uuid"])
    # Imported here: most calls read no tree.
    from lading.core.data import filetree

    tree = filetree.from_manifest(log["manifest_text"])
    names = sorted(path for path, _ in filetree.files(tree) if "/" not in path)
    return f"; it has {', '.join(names)}"


@request.command()
@click.argument("uuid", metavar="REQUEST")
@click.option("-v", "--verbose", is_flag=True, help="Name the attributes that never count, too.")
@display.with_json
def why(uuid: str, verbose: bool) -> display.Output:
    """Explain a request: the step that it failed for and its last lines; what was reused and why,
    or what differs from the nearest earlier container. Where an input differs, the cause is sought
    in the steps that made it.
    """
    # Imported here, as most commands of this module compare nothing.
    from lading.cli.provenance.differences import cause_text, climb
    from lading.cli.running.failures import failure_fields
    from lading.cli.running.request_details import failure_document
    from lading.client.provenance.failures import FailureReport, find_failure

    async def action(
        session: CliSession,
    ) -> tuple[Mapping[str, Any], str, FailureReport | None]:
        request = await find_request(session, uuid)
        answer: Mapping[str, Any] = await session.api.action(
            "container_requests", request["uuid"], "why", method="GET"
        )
        causes = await climb(session, request, answer)
        outcome = RequestOutcome(request, answer["container"])
        failure = await find_failure(session.api, outcome)
        if not display.is_json_command():
            tell_page(session, request["uuid"])
        return answer, cause_text(causes) if causes else "", failure

    answer, cause, failure = with_session(action)
    yield {**answer, "first_cause": cause or None, **failure_document(failure)}
    if lines := failure_fields(failure):
        click.echo(f"{lines}\n")
    explanation.show_why(answer, is_verbose=verbose)
    if cause:
        click.echo()
        click.echo(f"first cause: {cause}")


def _show_decisions(uuid: str) -> display.Output:
    async def action(session: CliSession) -> list[Mapping[str, Any]]:
        found = await find_request(session, uuid)
        answer = await session.api.action("container_requests", found["uuid"], "why", method="GET")
        decisions: list[Mapping[str, Any]] = answer["dispatch"]
        return decisions

    decisions = with_session(action)
    yield decisions
    if decisions:
        explanation.show_decisions(decisions)
    else:
        display.note("no dispatcher has decided anything about it yet")


def _log_files(
    session: CliSession, request: Record, names: list[str], *, is_raw: bool
) -> dict[str, Readable]:
    """The log files of the container of a request by name; empty without a container."""
    from lading.cli.running.following import LogFile

    container = request["container_uuid"]
    if not container:
        return dict.fromkeys(names, _Empty())
    return {
        name: LogFile(session.api, request["uuid"], container, name, is_raw=is_raw)
        for name in names
    }


class _Empty:
    """A log file of a request without a container."""

    async def read(self) -> AsyncGenerator[bytes]:
        """No bytes."""
        for piece in list[bytes]():
            yield piece
