"""Requests by name, project, age and outcome: the options that several commands share."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from lading.cli.options import DURATION
from lading.cli.session import CliSession
from lading.client.api import Record
from lading.client.outcomes import RequestOutcome
from lading.core.quantities import format_time

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PAGE = 500
_CONTAINER = (
    "uuid",
    "state",
    "exit_code",
    "created_at",
    "started_at",
    "finished_at",
    "runtime_status",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSelection:
    """Which requests are meant; an attribute that is not set admits all."""

    name: str | None = None
    """A pattern, as for the shell."""
    project: str | None = None
    state: str | None = None
    since: int = 0
    """Those submitted in so many seconds until now."""
    failed: bool = False


def selecting(command: _Command) -> _Command:
    """Add the options `--name`, `--project`, `--since` and `--failed`."""
    for option in (
        click.option("--failed", is_flag=True, help="Only those that have failed."),
        click.option("--since", type=DURATION, default="0", metavar="TIME",
                     help="Only those of the last, for example, 2h."),
        click.option("--project", metavar="UUID", help="Only those of this project."),
        click.option("--name", metavar="PATTERN", help="Only those with such a name, as 'sort.*'."),
    ):  # fmt: skip
        command = option(command)
    return command


async def select(
    session: CliSession, wanted: RequestSelection, fields: tuple[str, ...], *, size: int = _PAGE
) -> AsyncGenerator[RequestOutcome]:
    """The requests that are meant, the newest first, with their containers; `size` are looked at
    with each call. Raises the errors of the API.
    """
    filters = _filters(wanted, datetime.now(UTC))
    before: list[Any] = []
    seen: set[str] = set()
    while True:
        rows = await session.api.list(
            "container_requests",
            filters=[*filters, *before],
            order=["created_at desc", "uuid desc"],
            select=sorted({*fields, "uuid", "name", "state", "created_at", "container_uuid"}),
            limit=size,
        )
        fresh = [row for row in rows if row["uuid"] not in seen]
        containers = await _containers(session, fresh)
        for row in fresh:
            one = RequestOutcome(row, containers.get(row["container_uuid"] or ""))
            if _is_meant(one, wanted):
                yield one
        if len(rows) < size or not fresh:
            return
        seen |= {row["uuid"] for row in fresh}
        # Not "<": several may have been created at the same moment.
        before = [["created_at", "<=", rows[-1]["created_at"]]]


async def count(session: CliSession, wanted: RequestSelection) -> int:
    """The number of requests that the server has, whatever their names and outcomes."""
    filters = _filters(wanted, datetime.now(UTC))
    answer: Record = await session.api.request(
        "GET", "container_requests", params={"filters": filters, "limit": 0, "count": "exact"}
    )
    return int(answer["items_available"])


async def find(
    session: CliSession, wanted: RequestSelection, fields: tuple[str, ...] = (), *, most: int = 0
) -> list[RequestOutcome]:
    """The newest requests that are meant, at most `most` (0: all)."""
    found = []
    is_exact = wanted.name is None and not wanted.failed
    size = min(most, _PAGE) if most and is_exact else _PAGE
    async with aclosing(select(session, wanted, fields, size=size)) as every:
        async for one in every:
            found.append(one)
            if len(found) == most:
                break
    return found


def _filters(wanted: RequestSelection, now: datetime) -> list[Any]:
    filters: list[Any] = []
    if wanted.name is not None:
        # Only narrows the list: the pattern is applied to the answer.
        filters.append(["name", "like", re.split(r"[*?[%_\\]", wanted.name, maxsplit=1)[0] + "%"])
    if wanted.project is not None:
        filters.append(["owner_uuid", "=", wanted.project])
    if wanted.state is not None or wanted.failed:
        filters.append(["state", "=", wanted.state or "Final"])
    if wanted.since:
        since = format_time(now - timedelta(seconds=wanted.since))
        filters.append(["created_at", ">=", since])
    return filters


def _is_meant(one: RequestOutcome, wanted: RequestSelection) -> bool:
    name = one.request["name"] or ""
    if wanted.name is not None and not fnmatch.fnmatchcase(name, wanted.name):
        return False
    return not wanted.failed or one.exit_code != 0


async def _containers(session: CliSession, rows: list[Record]) -> dict[str, Record]:
    """The containers of requests by uuid."""
    uuids = sorted({row["container_uuid"] for row in rows if row["container_uuid"]})
    if not uuids:
        return {}
    held = await session.api.list(
        "containers", filters=[["uuid", "in", uuids]], select=_CONTAINER, limit=_PAGE
    )
    return {row["uuid"]: row for row in held}
