"""`lading cost`: what requests cost, what reuse saved, and what was lost.

The sums are those of `core.costs`, over the requests that the user can read.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from lading.cli import display
from lading.cli.options import DURATION
from lading.cli.running.selection import RequestSelection, conditions
from lading.cli.session import CliSession, with_session
from lading.core.containers.container import Container
from lading.core.costs import CostedRequest, CostGroup, CostLine, CostReport, report
from lading.core.quantities import format_time

if TYPE_CHECKING:
    from lading.client.api import Record

_REQUEST = (
    "uuid",
    "created_at",
    "owner_uuid",
    "committed_by_uuid",
    "container_uuid",
    "attempted_container_uuids",
    "cumulative_cost",
)
_CONTAINER = (
    "uuid",
    "created_at",
    "finished_at",
    "state",
    "command",
    "exit_code",
    "runtime_status",
    "cost",
    "subrequests_cost",
)
# Uuids in one call: a call that fits into the address of a GET.
_BATCH = 200
_PAGE = 1000
_MONTH = "30d"


@click.command()
@click.option(
    "--by",
    type=click.Choice([group.value for group in CostGroup]),
    default=CostGroup.PROJECT.value,
    show_default=True,
    help="Group of requests that each line adds up.",
)
@click.option(
    "--since",
    type=DURATION,
    default=_MONTH,
    show_default=True,
    metavar="TIME",
    help="Count requests submitted in this time until now.",
)
@click.option("--project", metavar="PROJECT", help="Count requests of this project only.")
@click.option("--user", metavar="USER", help="Count requests that this user submitted only.")
@display.with_json
def cost(by: str, since: int, project: str | None, user: str | None) -> display.Output:
    """Show the cost of requests in dollars, savings by reuse, and losses.

    A container is counted once, for the request that it was made for. SAVED is the cost of the
    results that other requests used in place of a container of their own. PREEMPTED, FAILED and
    CANCELLED are the parts of SPENT that went to containers that ended so. Days are those on which
    containers ended (UTC). Prices are in the configuration: InstanceTypes, Local.Price,
    SLURM.VCPUPrice.
    """
    group, criteria = CostGroup(by), RequestSelection(project=project, user=user, since=since)

    async def action(session: CliSession) -> tuple[CostReport, dict[str, str]]:
        costs = report(await _requests(session, criteria), by=group)
        return costs, await _names(session, group, costs.groups)

    costs, names = with_session(action)
    yield _document(costs, names, group, since)
    rows = [_row(names.get(key, key) or "-", line) for key, line in costs.groups.items()]
    headings = ("REQUESTS", "SPENT", "SAVED", "PREEMPTED", "FAILED", "CANCELLED", by.upper())
    display.table(headings, rows)
    click.echo()
    display.fields(_total(costs.total))


def _row(name: str, line: CostLine) -> tuple[str, ...]:
    amounts = (
        line.spent,
        line.saved_by_reuse,
        line.lost_to_preemption,
        line.lost_to_failures,
        line.lost_to_cancellation,
    )
    return (str(line.requests), *(_dollars(amount) for amount in amounts), name)


def _total(line: CostLine) -> list[tuple[str, str]]:
    return [
        ("requests", str(line.requests)),
        ("spent", _dollars(line.spent)),
        ("saved by reuse", _dollars(line.saved_by_reuse)),
        ("lost to preemption", _dollars(line.lost_to_preemption)),
        ("lost to failures", _dollars(line.lost_to_failures)),
        ("lost to cancellation", _dollars(line.lost_to_cancellation)),
    ]


def _dollars(amount: float) -> str:
    return f"{amount:.4f}"


def _document(
    costs: CostReport, names: dict[str, str], group: CostGroup, since: int
) -> dict[str, Any]:
    return {
        "since": format_time(datetime.now(UTC) - timedelta(seconds=since)) if since else None,
        "by": str(group),
        "total": costs.total.shown(),
        "groups": [
            {"key": key, "name": names.get(key, key), **line.shown()}
            for key, line in costs.groups.items()
        ],
    }


async def _requests(session: CliSession, criteria: RequestSelection) -> list[CostedRequest]:
    filters = [
        *await conditions(session, criteria, datetime.now(UTC)),
        ["state", "in", ["Committed", "Final"]],
    ]
    pages = session.api.pages("container_requests", filters=filters, select=_REQUEST, size=_PAGE)
    rows = [row async for page in pages for row in page]
    containers = await _containers(session, {uuid for row in rows for uuid in _tried(row)})
    return [
        CostedRequest(
            uuid=row["uuid"],
            created_at=row["created_at"],
            project=row["owner_uuid"],
            user=row["committed_by_uuid"] or row["owner_uuid"],
            containers=tuple(containers[uuid] for uuid in _tried(row) if uuid in containers),
            charged=row["cumulative_cost"] or 0.0,
        )
        for row in rows
    ]


def _tried(row: Record) -> list[str]:
    """The containers of a request, the present one last."""
    uuids = [*(row["attempted_container_uuids"] or ()), row["container_uuid"]]
    return [uuid for uuid in dict.fromkeys(uuids) if uuid]


async def _containers(session: CliSession, uuids: Iterable[str]) -> dict[str, Container]:
    found = await _listed(session, "containers", uuids, _CONTAINER)
    return {row["uuid"]: Container.from_record(row) for row in found}


async def _names(session: CliSession, group: CostGroup, keys: Iterable[str]) -> dict[str, str]:
    """Names of projects and users by uuid; an unreadable record keeps its uuid as its name."""
    if group not in (CostGroup.PROJECT, CostGroup.USER):
        return {}
    wanted = list(keys)
    users = await _listed(session, "users", wanted, ("uuid", "username"))
    names = {row["uuid"]: row["username"] or row["uuid"] for row in users}
    if group is CostGroup.PROJECT:
        names = {uuid: f"home of {name}" for uuid, name in names.items()}
        rows = await _listed(session, "groups", wanted, ("uuid", "name"))
        names |= {row["uuid"]: row["name"] for row in rows}
    return names


async def _listed(
    session: CliSession, plural: str, uuids: Iterable[str], select: tuple[str, ...]
) -> list[Record]:
    wanted = sorted(uuids)
    found: list[Record] = []
    for start in range(0, len(wanted), _BATCH):
        part = wanted[start : start + _BATCH]
        filters = [["uuid", "in", part]]
        found += await session.api.list(plural, filters=filters, select=select, limit=len(part))
    return found
