"""Selection of requests by name, project, user, property, age and state.

It has the options that several commands share, the calls that find the requests, and their order.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from lading.cli.options import DURATION, PROPERTY
from lading.cli.references import find_project
from lading.client.outcomes import RequestOutcome
from lading.client.request_states import (
    CONDITIONS,
    VAGUE,
    seconds_of,
    shown_state,
    status_of,
)
from lading.core.quantities import format_time

if TYPE_CHECKING:
    from lading.cli.session import CliSession
    from lading.client.api import Record

_Command = TypeVar("_Command", bound=Callable[..., Any])
# Half of the server's longest page, so that the first lines come sooner.
_PAGE = 500
_CONTAINER = (
    "uuid",
    "state",
    "exit_code",
    "created_at",
    "started_at",
    "finished_at",
    "runtime_status",
    "runtime_constraints",
    "scheduling_parameters",
    "usage",
    "priority",
)
_NEEDED = ("uuid", "name", "state", "priority", "created_at", "container_uuid")
STATES: Final = tuple(CONDITIONS)
"""States by which requests are selected: the states in lists, and the states of the API."""
SORTS: Final = ("created", "name", "state", "priority", "took", "memory", "cpu")
"""Orders of lists."""


class RequestSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on requests; an attribute that is not set admits all."""

    names: tuple[str, ...] = ()
    """Patterns, as for the shell, one of which has to match."""
    project: str | None = None
    """As in `references.find_project`."""
    user: str | None = None
    """Name, e-mail address or uuid of the user who submitted them."""
    properties: tuple[tuple[str, Any], ...] = ()
    state: str | None = None
    """One of STATES."""
    since: int = 0
    """Age in seconds of the oldest request to select, by the time of submission."""
    failed: bool = False
    """Only requests that have ended without success, cancelled ones too."""

    @property
    def is_counted(self) -> bool:
        """Whether the server can count these requests: it knows all conditions."""
        return not self.names and not self.failed and self.state not in VAGUE


def selecting(command: _Command) -> _Command:
    """Add the options of `matching`, and `--failed`."""
    return matching(
        click.option("--failed", is_flag=True, help="Select failed requests only.")(command)
    )


def matching(command: _Command) -> _Command:
    """Add the options `--name`, `--project`, `--user`, `--property` and `--since`."""
    for option in (
        click.option("--since", type=DURATION, default="0", metavar="TIME",
                     help="Select requests submitted in this time until now, such as 2h."),
        click.option("--property", "properties", type=PROPERTY, multiple=True, metavar="K=V",
                     help="Select requests with this property only."),
        click.option("--user", metavar="USER", help="Select requests of this user only."),
        click.option("--project", metavar="PROJECT", help="Select requests of this project only."),
        click.option("--name", "names", multiple=True, metavar="PATTERN",
                     help="Select requests with a matching name only, such as 'sort.*'."),
    ):  # fmt: skip
        command = option(command)
    return command


def state_option(command: _Command) -> _Command:
    """Add the option `--state`."""
    return click.option(
        "--state",
        type=click.Choice(STATES, case_sensitive=False),
        metavar="STATE",
        help="Select requests in this state only: waiting, running, done, failed, cancelled, draft;"
        " or one of the API, as Queued or Final.",
    )(command)


async def select(
    session: CliSession, criteria: RequestSelection, fields: tuple[str, ...], *, size: int = _PAGE
) -> AsyncGenerator[RequestOutcome]:
    """The requests that match, the newest first, with their containers; each call lists `size`
    requests. Raises the errors of the API.
    """
    filters = await conditions(session, criteria, datetime.now(UTC))
    before: list[Any] = []
    listed: set[str] = set()
    while True:
        rows = await session.api.list(
            "container_requests",
            filters=[*filters, *before],
            order=["created_at desc", "uuid desc"],
            select=sorted({*fields, *_NEEDED}),
            limit=size,
        )
        fresh = [row for row in rows if row["uuid"] not in listed]
        containers_by_uuid = await containers(session, fresh)
        for row in fresh:
            outcome = RequestOutcome(row, containers_by_uuid.get(row["container_uuid"] or ""))
            if is_meant(outcome, criteria):
                yield outcome
        if len(rows) < size or not fresh:
            return
        listed |= {row["uuid"] for row in fresh}
        # Not "<": several may have been created at the same moment.
        before = [["created_at", "<=", rows[-1]["created_at"]]]


async def count(session: CliSession, criteria: RequestSelection) -> int:
    """The number of requests that the server has; pattern of the name and `failed` do not
    count.
    """
    filters = await conditions(session, criteria, datetime.now(UTC))
    answer: Record = await session.api.request(
        "GET", "container_requests", params={"filters": filters, "limit": 0, "count": "exact"}
    )
    return int(answer["items_available"])


class Found(msgspec.Struct, frozen=True):
    """Requests that were found, and how many there are; None if more were not looked for."""

    requests: list[RequestOutcome]
    total: int | None


async def find(
    session: CliSession,
    criteria: RequestSelection,
    fields: tuple[str, ...] = (),
    *,
    most: int = 0,
    sort: str = "created",
) -> Found:
    """The first requests that match in the order `sort`, at most `most` (0: all)."""
    outcomes: list[RequestOutcome] = []
    # Another order is known only when all are.
    is_cut = bool(most) and sort == "created"
    size = min(most + 1, _PAGE) if is_cut and criteria.is_counted else _PAGE
    async with aclosing(select(session, criteria, fields, size=size)) as every:
        async for outcome in every:
            outcomes.append(outcome)
            # One more shows whether there are others.
            if is_cut and len(outcomes) > most:
                total = await count(session, criteria) if criteria.is_counted else None
                return Found(outcomes[:most], total)
    now = datetime.now(UTC)
    if sort != "created":
        outcomes.sort(key=lambda outcome: _sort_key(outcome, sort, now))
    return Found(outcomes[:most] if most else outcomes, len(outcomes))


def _sort_key(outcome: RequestOutcome, sort: str, now: datetime) -> Any:
    """Names and states from A to Z, amounts from the largest."""
    name = [
        (1, int(piece), "") if piece.isdecimal() else (0, 0, piece)
        for piece in re.split(r"(\d+)", outcome.request["name"] or "")
    ]
    if sort == "name":
        # sort.10 comes after sort.9; requests without a name come last.
        return not outcome.request["name"], name
    if sort == "state":
        return shown_state(outcome), name
    # Imported here: most lists are in the order of time.
    from lading.cli.running import usage

    amounts: dict[str, Callable[[], float | None]] = {
        "priority": lambda: outcome.request["priority"],
        "took": lambda: seconds_of(outcome, now),
        "memory": lambda: usage.memory_of(outcome.container or {}),
        "cpu": lambda: usage.cpu_of(outcome.container or {}),
    }
    amount = amounts[sort]()
    return amount is None, -(amount or 0)


async def conditions(session: CliSession, criteria: RequestSelection, now: datetime) -> list[Any]:
    """The filters of a list call that admit the requests that match, and perhaps more."""
    filters: list[Any] = []
    if criteria.names:
        # Only narrows the list: the patterns are applied to the answer.
        plain = [re.split(r"[*?[%_\\]", pattern, maxsplit=1)[0] for pattern in criteria.names]
        filters.append(["name", "like", common_beginning(plain) + "%"])
    if criteria.project is not None:
        filters.append(["owner_uuid", "=", await find_project(session, criteria.project)])
    if criteria.user is not None:
        # Imported here, as `usage` above: most selections are not by user.
        from lading.cli.accounts.users import find_user

        user = await find_user(session, criteria.user)
        filters.append(["committed_by_uuid", "=", user["uuid"]])
    for name, value in criteria.properties:
        filters.append([f"properties.<{name}>", "=", value])
    if criteria.state is not None:
        filters += CONDITIONS[criteria.state]
    elif criteria.failed:
        filters.append(["state", "=", "Final"])
    if criteria.since:
        since = format_time(now - timedelta(seconds=criteria.since))
        filters.append(["created_at", ">=", since])
    return filters


def is_meant(outcome: RequestOutcome, criteria: RequestSelection) -> bool:
    """Whether a request that the server admitted matches."""
    name = outcome.request["name"] or ""
    if criteria.names and not any(fnmatch.fnmatchcase(name, pattern) for pattern in criteria.names):
        return False
    if criteria.state in VAGUE and status_of(outcome) != criteria.state:
        return False
    return not criteria.failed or outcome.exit_code != 0


async def containers(
    session: CliSession, rows: list[Record], fields: tuple[str, ...] = _CONTAINER
) -> dict[str, Record]:
    """The containers of requests by uuid."""
    uuids = sorted({row["container_uuid"] for row in rows if row["container_uuid"]})
    if not uuids:
        return {}
    held = await session.api.list(
        "containers", filters=[["uuid", "in", uuids]], select=fields, limit=len(uuids)
    )
    return {row["uuid"]: row for row in held}


def common_beginning(texts: Sequence[str]) -> str:
    """The longest common beginning of all texts."""
    # All others lie between these two in the order of texts.
    first, last = min(texts), max(texts)
    length = next(
        (
            position
            for position, character in enumerate(first)
            if not last.startswith(character, position)
        ),
        len(first),
    )
    return first[:length]
