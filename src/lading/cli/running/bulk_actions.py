"""`lading request cancel`, `delete` and `rerun`: actions on many requests.

The requests are named, or match options; matching requests are counted and confirmed before the
first is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from lading.cli import display
from lading.cli.options import secret_option
from lading.cli.references import find_request
from lading.cli.running import mass_cancellation, selection
from lading.cli.running.secrets import SecretOption, read_needed, secrets_again
from lading.cli.running.selection import RequestSelection, selecting, state_option
from lading.cli.session import CliSession, with_session
from lading.client.request_states import REPEATED, repeated
from lading.core.errors import Invalid, LadingError, NotFound

if TYPE_CHECKING:
    from lading.client.api import Record

# Calls at a time. The server carries out writes one after another, so more would only wait there.
_AT_A_TIME = 16
_PAGE = 1000
"""Requests of one call of a batch, the most that a server accepts."""


@click.command()
@click.argument("requests", nargs=-1, metavar="[REQUEST]...")
@selecting
@state_option
@click.option("--all", "is_all", is_flag=True, help="Select all requests that you may change.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of the requests that match.")
@display.with_json
def cancel(requests: tuple[str, ...], is_all: bool, yes: bool, **selected: Any) -> display.Output:
    """Cancel requests that are named, or that have not ended and match the options. A container
    that another request needs continues.

    More than a thousand that match, and all with --all, are cancelled by the server in the
    background, the newest first, while this command shows the progress; --json prints one object a
    line then. It goes on if the command is interrupted.
    """
    criteria = RequestSelection(**selected)
    if is_all and (requests or criteria != RequestSelection()):
        raise click.UsageError("--all selects all requests: leave out names and other options.")
    if not requests and (is_all or criteria != RequestSelection()):
        matching = with_session(lambda session: mass_cancellation.find(session, criteria))
        if matching is not None and (is_all or matching[1] > _PAGE):
            _cancel_many(*matching, is_sure=yes)
            return
    chosen = _chosen(
        requests,
        criteria,
        lambda request: bool(request["state"] == "Committed"),
        "Cancel",
        "that has not ended",
        is_sure=yes,
    )
    uuids = [str(request["uuid"]) for request in chosen]
    done = with_session(
        lambda session: act_on_each(
            uuids, lambda uuid: session.api.action("container_requests", uuid, "cancel")
        )
    )
    yield from _tell(chosen, done, ("was final already", "cancelled", "not cancelled"))


@click.command()
@click.argument("requests", nargs=-1, metavar="[REQUEST]...")
@selecting
@state_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of the requests that match.")
@display.with_json
def delete(requests: tuple[str, ...], yes: bool, **selected: Any) -> display.Output:
    """Delete requests that are named, or that have ended and match the options. Their outputs and
    logs stay; a request that was deleted does not come back.
    """
    chosen = _chosen(
        requests,
        RequestSelection(**selected),
        lambda request: bool(request["state"] == "Final"),
        "Delete",
        "that has ended",
        is_sure=yes,
    )
    live = next((request for request in chosen if request["state"] == "Committed"), None)
    if live is not None:
        uuid = live["uuid"]
        if live["priority"]:
            raise Invalid(f"{uuid}: has not ended; 'lading request cancel {uuid}' first")
        raise Invalid(f"{uuid}: is being cancelled; 'lading wait {uuid}' first")
    uuids = [str(request["uuid"]) for request in chosen]
    done = with_session(
        lambda session: act_on_each(
            uuids, lambda uuid: session.api.delete("container_requests", uuid)
        )
    )
    yield from _tell(chosen, done, ("deleted", "deleted", "not deleted"))


@click.command()
@click.argument("requests", nargs=-1, metavar="[REQUEST]...")
@selecting
@state_option
@click.option("--reuse", is_flag=True, help="Use earlier results where they exist.")
@click.option("--priority", type=click.IntRange(1, 1000), default=500, show_default=True)
@secret_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of the requests that match.")
@display.with_json
def rerun(
    requests: tuple[str, ...],
    reuse: bool,
    priority: int,
    yes: bool,
    secrets: tuple[SecretOption, ...],
    **selected: Any,
) -> display.Output:
    """Submit requests again that are named, or that have ended and match the options, and print
    the uuids of the new ones.

    They are run again, even if they have succeeded. Where one of them needs another one of them,
    the new one needs the other new one. No record has secrets: --secret gives them again.

    \b
    lading request rerun last
    lading request rerun --name 'sort.*' --failed
    """
    ended_requests = _chosen(
        requests,
        RequestSelection(**selected),
        lambda record: bool(record["state"] == "Final"),
        "Run again",
        "that has ended",
        is_sure=yes,
        fields=(*REPEATED, "secrets_needed"),
    )
    # Requests that others need come first, as in the batch an item may name earlier ones only.
    ended_requests = sorted(
        ended_requests, key=lambda record: (record["created_at"], record["uuid"])
    )
    changes = {"state": "Committed", "priority": priority, "use_existing": reuse}
    contents = read_needed(secrets, ended_requests)
    submitted = with_session(
        lambda session: submit_again(
            session, ended_requests, [changes] * len(ended_requests), contents
        )
    )
    yield submitted
    click.echo("\n".join(str(record["uuid"]) for record in submitted))
    display.note(f"{_counted(submitted)} submitted; 'lading wait' waits for them")


async def submit_again(
    session: CliSession,
    records: Sequence[Record],
    changes: Sequence[Mapping[str, Any]],
    contents: Mapping[str, str],
) -> list[Record]:
    """Submit requests again, each after those that it needs and with its own changes; the new ones,
    in the same order. `contents` are those of secrets by their names. Raises Invalid for a secret
    that is missing.
    """
    # All of them before the first is submitted.
    secrets = [secrets_again(record, contents) for record in records]
    renewed: dict[str, str] = {}
    submitted: list[Record] = []
    for start in range(0, len(records), _PAGE):
        some = records[start : start + _PAGE]
        places = {str(record["uuid"]): f"#{number}" for number, record in enumerate(some)}
        answer = await session.api.action(
            "container_requests",
            None,
            "batch",
            body={
                "container_requests": [
                    {**repeated(record, {**renewed, **places}), **change, **secret}
                    for record, change, secret in zip(
                        some, changes[start:], secrets[start:], strict=False
                    )
                ]
            },
        )
        submitted += answer["items"]
        renewed |= {
            str(record["uuid"]): str(new["uuid"])
            for record, new in zip(some, answer["items"], strict=True)
        }
    return submitted


def _chosen(
    named: Sequence[str],
    criteria: RequestSelection,
    is_possible: Callable[[Record], bool],
    verb: str,
    which: str,
    *,
    is_sure: bool,
    fields: tuple[str, ...] = (),
) -> list[Record]:
    """The requests that are named, or that match and were confirmed. Raises UsageError,
    NotFound, and Invalid where no confirmation is possible.
    """
    if bool(named) == (criteria != RequestSelection()):
        raise click.UsageError(
            "Name requests, or give --name, --project, --user, --property, --state, --since or "
            "--failed."
        )

    async def look_up(session: CliSession) -> list[Record]:
        if named:
            return await _find_named(session, named, verb)
        matching = await selection.find(session, criteria, fields)
        return [outcome.request for outcome in matching.requests if is_possible(outcome.request)]

    matching = with_session(look_up)
    if named:
        return matching
    _confirm(len(matching), verb, which, is_sure=is_sure)
    return matching


async def _find_named(session: CliSession, named: Sequence[str], verb: str) -> list[Record]:
    """The requests that are named. Raises the errors of `find_request`; where several are named,
    the message says that nothing was done to the others.
    """
    try:
        return [await find_request(session, name) for name in named]
    except (NotFound, Invalid) as error:
        if len(named) == 1:
            raise
        raise type(error)(
            f"{error.message}; none of the {len(named)} was touched: name them again without it "
            f"to {verb.lower()} the others"
        ) from error


def _cancel_many(filters: list[Any], count: int, *, is_sure: bool) -> None:
    """Have the server cancel all that match, once they are confirmed."""
    _confirm(count, "Cancel", "that has not ended", is_sure=is_sure)
    done = with_session(lambda session: mass_cancellation.run(session, filters))
    refused = f"; {done['refused']:,} are not yours to cancel" if done["refused"] else ""
    display.note(f"{done['cancelled']:,} of {done['total']:,} requests cancelled{refused}")


def _confirm(count: int, verb: str, which: str, *, is_sure: bool) -> None:
    """Ask before the requests that match are changed. Raises NotFound, Invalid."""
    if not count:
        raise NotFound(f"no request {which} matches; see 'lading request list'")
    counted = f"{count:,} request{'' if count == 1 else 's'}"
    if not (is_sure or sys.stdin.isatty()):
        raise Invalid(f"{counted} {'match' if count > 1 else 'matches'}; "
                      f"give --yes to {verb.lower()}")  # fmt: skip
    if not is_sure:
        display.confirm(f"{verb} {counted}?")


async def act_on_each(
    uuids: Sequence[str], action: Callable[[str], Awaitable[Record]]
) -> list[Record | LadingError]:
    """Act on each request, several at a time; the answers, or the errors, in the same order."""
    # Imported here: help and completion need none.
    import asyncio

    gate = asyncio.Semaphore(_AT_A_TIME)

    async def act(uuid: str) -> Record | LadingError:
        async with gate:
            try:
                return await action(uuid)
            except LadingError as error:
                # The others go on: the user asked for each of them.
                return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(act(uuid)) for uuid in uuids]
    return [task.result() for task in tasks]


def _tell(
    requests: Sequence[Record],
    answers: Sequence[Record | LadingError],
    words: tuple[str, str, str],
) -> display.Output:
    """Print the result for each; `words`: for one that was Final, for another, and for one whose
    call failed. Raises the first of the errors, once all are printed.
    """
    errors = [answer for answer in answers if isinstance(answer, LadingError)]
    yield [answer for answer in answers if not isinstance(answer, LadingError)]
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(answer, LadingError):
            display.note(f"{request['uuid']}: {words[2]}: {answer.message}")
        else:
            display.note(f"{request['uuid']}: {words[request['state'] != 'Final']}")
    if errors:
        raise errors[0]


def _counted(chosen: Sequence[Record]) -> str:
    return f"{len(chosen)} request{'' if len(chosen) == 1 else 's'}"
