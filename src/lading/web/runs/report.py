"""The report on a run as one page of HTML, to be read or saved.

It quotes texts that strangers wrote. They are escaped, and the page has no origin, no scripts and
no network, as a file that a container wrote.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from lading.client.run_records import reading
from lading.core.errors import TooLarge
from lading.core.runs.report import make_report
from lading.core.runs.report_pages import write_html
from lading.core.runs.step_groups import RunStep, failures_of
from lading.process.concurrency import together
from lading.web import browser_rules
from lading.web.rendering import visible
from lading.web.runs.reading import RunView, read_view
from lading.web.visit import Visit

_MOST_STEPS: Final = 10_000
"""Requests of a run; the command line writes the report on a larger one."""
_FAILURES, _LINES = 20, 12
"""Failures whose last lines are quoted, and lines of each."""
_AT_ONCE: Final = 8
"""Logs that are read at a time."""


async def show(visit: Visit) -> Response:
    """The report; with `save=1` the browser saves it. Raises NotFound, TooLarge."""
    view = await read_view(visit)
    if len(view.steps) > _MOST_STEPS:
        raise TooLarge(
            f"the run has more than {_MOST_STEPS:,} requests; write it by 'lading runs report'"
        )
    report = make_report(
        view.record,
        view.steps,
        user=view.row.user,
        lines=await _last_lines(visit, view),
        now=visit.services.clock().timestamp(),
    )
    # Characters that could mislead a reader are shown by their codes, as on all pages.
    page = str(visible(write_html(report)))
    headers = {
        "Content-Security-Policy": browser_rules.REPORT,
        "Cache-Control": "no-store",
        "Content-Disposition": _disposition(view, is_saved=visit.query("save") == "1"),
    }
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)


async def _last_lines(visit: Visit, view: RunView) -> dict[str, list[str]]:
    """The last lines of the first failures, by the uuids of the steps."""
    turns = asyncio.Semaphore(_AT_ONCE)
    lines: dict[str, list[str]] = {}

    async def read_lines(step: RunStep) -> None:
        async with turns:
            lines[step.uuid] = await reading.last_lines(visit.api, step, most=_LINES)

    await together(*(read_lines(step) for step in failures_of(view.steps)[:_FAILURES]))
    return lines


def _disposition(view: RunView, *, is_saved: bool) -> str:
    """A Content-Disposition header (RFC 6266) with the name of the run."""
    name = f"{view.row.name}-{view.row.attempt}.html"
    plain = "".join(
        mark if mark.isascii() and (mark.isalnum() or mark in "._-") else "_" for mark in name
    )
    kind = "attachment" if is_saved else "inline"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
