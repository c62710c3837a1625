"""The first page: what runs, what waits, what failed lately."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from lading.concurrency import together
from lading.web.requests import rows
from lading.web.requests.rows import RequestRow
from lading.web.visit import Visit

# A summary: the list of requests has the rest.
_SHOWN: Final = 8
_PARTS: Final = (
    ("Running", "Running", "Nothing runs."),
    ("Waiting", "Waiting", "Nothing waits."),
    ("Failed", "Failed lately", "Nothing has failed lately."),
)


async def show(visit: Visit) -> Response:
    """The page."""
    values = await _values(visit)
    return visit.page("now.html", **values)


async def refresh(visit: Visit) -> Response:
    """Its part that changes."""
    return visit.page("now_parts.html", **await _values(visit))


async def _values(visit: Visit) -> dict[str, Any]:
    found: dict[str, list[RequestRow]] = {}

    async def find(state: str) -> None:
        found[state] = (await rows.find(visit, state=state, most=_SHOWN + 1)).rows

    await together(*(find(state) for state, _, _ in _PARTS))
    parts = [
        {
            "state": state,
            "title": title,
            "empty": empty,
            "rows": found[state][:_SHOWN],
            "more": len(found[state]) > _SHOWN,
        }
        for state, title, empty in _PARTS
    ]
    shown = [row for some in found.values() for row in some[:_SHOWN]]
    return {"parts": parts, "topics": rows.topics(shown, new=True)}
