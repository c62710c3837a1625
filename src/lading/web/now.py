"""The page of the present: what runs, what waits, what failed lately; the use of the machines, the
rate and the cost of today, the health of the parts.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final

from starlette.responses import Response

from lading.client.api import Record
from lading.core.errors import LadingError
from lading.core.quantities import format_time, parse_time
from lading.core.request_status import RequestStatus
from lading.process.concurrency import together
from lading.web.requests import rows
from lading.web.requests.rows import RequestRow
from lading.web.site import machines
from lading.web.visit import Visit

# A summary: the list of requests has the rest.
_SHOWN: Final = 8
_COUNTED: Final = 1000
_HOUR: Final = 3600.0
_PARTS: Final = (
    (RequestStatus.RUNNING, "Running", "Nothing runs."),
    (RequestStatus.WAITING, "Waiting", "Nothing waits."),
    (RequestStatus.FAILED, "Failed lately", "Nothing has failed lately."),
)


async def show(visit: Visit) -> Response:
    """The page."""
    values = await _values(visit)
    return visit.page("now.html", **values)


async def refresh(visit: Visit) -> Response:
    """Its part that changes."""
    return visit.page("now_parts.html", **await _values(visit))


async def _values(visit: Visit) -> dict[str, Any]:
    rows_by_state: dict[RequestStatus, list[RequestRow]] = {}

    async def find(state: RequestStatus) -> None:
        rows_by_state[state] = (await rows.find(visit, state=state, most=_SHOWN + 1)).rows

    site: dict[str, Any] = {"use": None, "health": None, "today": None}

    async def look_at_machines() -> None:
        site["use"] = _use(await machines.list_reports(visit.api))

    async def look_at_health() -> None:
        site["health"] = await visit.api.request("GET", "health")

    async def look_at_today() -> None:
        site["today"] = await _today(visit)

    await together(
        *(find(state) for state, _, _ in _PARTS),
        *(_quietly(look()) for look in (look_at_machines, look_at_health, look_at_today)),
    )
    parts = [
        {
            "state": state,
            "title": title,
            "empty": empty,
            "rows": rows_by_state[state][:_SHOWN],
            "more": len(rows_by_state[state]) > _SHOWN,
        }
        for state, title, empty in _PARTS
    ]
    shown = [row for some in rows_by_state.values() for row in some[:_SHOWN]]
    return {"parts": parts, "site": site, "topics": rows.topics(shown, new=True)}


async def _quietly(look: Awaitable[None]) -> None:
    """Look at what is beside the lists. A token of limited scope does not see it, which is no
    reason not to show the lists.
    """
    with suppress(LadingError):
        await look


def _use(reports: list[Record]) -> dict[str, Any]:
    """Reserved resources and price of all machines."""
    listed = [machine for report in reports for machine in report["machines"]]
    return {
        "machines": len(listed),
        "price": sum(float(machine["price"]) for machine in listed),
        "amounts": [
            (name, key, sum(machine["reserved"][key] for machine in listed), total)
            for name, key in (("VCPUs", "vcpus"), ("RAM", "ram"))
            if (total := sum(machine["total"][key] for machine in listed))
        ],
    }


async def _today(visit: Visit) -> dict[str, Any]:
    """The containers that have ended since midnight (UTC), as far as the reader sees them: how
    many, how many within the last hour, and their cost; `is_cut` where there were more.
    """
    now = visit.services.clock()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    containers = await visit.api.list(
        "containers",
        filters=[["finished_at", ">=", format_time(midnight)]],
        select=("finished_at", "cost", "exit_code", "state"),
        order=("finished_at desc",),
        limit=_COUNTED,
    )
    ages = [
        (now - parse_time(container["finished_at"])).total_seconds() for container in containers
    ]
    return {
        "ended": len(containers),
        "failed": sum(
            container["state"] != "Complete" or bool(container["exit_code"])
            for container in containers
        ),
        "within_hour": sum(age <= _HOUR for age in ages),
        "cost": sum(float(container["cost"] or 0) for container in containers),
        "is_cut": len(containers) == _COUNTED,
    }
