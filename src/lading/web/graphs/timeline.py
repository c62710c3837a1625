"""The timeline of a tree of requests, drawn by the server, and the same as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from starlette.responses import Response

from lading.client.outcomes import RequestOutcome
from lading.client.provenance.request_tree import RequestTree, find_tree
from lading.client.request_states import REUSED, is_reused, shown_command, shown_state, state_of
from lading.core.drawing.gantt import TimelineTask, lay_out, place_at_use
from lading.core.quantities import parse_time
from lading.core.request_status import RequestStatus
from lading.web.requests.page import request_uuid
from lading.web.visit import Visit

# More bars cannot be told apart on one page.
_ROWS: Final = 200
_WIDTH: Final = 560
"""Width of the bars in pixels."""
_ENDED: Final = ("Complete", "Cancelled")


async def show(visit: Visit) -> Response:
    """The page with the timeline."""
    found = await find_tree(visit.api, request_uuid(visit), by_content=True)
    request = found.outcomes[0].request
    now = visit.services.clock().timestamp()
    tasks = [_marked(one) for one in place_at_use(_tasks(found))]
    chart = lay_out(tasks, now=now, width=_WIDTH, most=_ROWS)
    return visit.page(
        "timeline.html",
        request=request,
        title=request["name"] or shown_command(request),
        chart=chart,
        now=now,
        width=_WIDTH,
        is_cut=found.is_cut,
        count=len(found.outcomes),
        earlier=sum(one.is_earlier for one in tasks),
    )


def _tasks(found: RequestTree) -> list[TimelineTask]:
    # Of several requests with one container the first one stands for its steps.
    makers: dict[str, str] = {}
    for one in found.outcomes:
        if one.container is not None:
            makers.setdefault(one.container["uuid"], one.request["uuid"])
    return [
        _task(
            one,
            needs=found.needs_of(one.request),
            maker=makers.get(one.request["requesting_container_uuid"] or "", ""),
        )
        for one in found.outcomes
    ]


def _marked(task: TimelineTask) -> TimelineTask:
    """The task; the result of an earlier run is shown as reused."""
    is_marked = not task.is_earlier or task.is_reused or task.state != RequestStatus.DONE
    return task if is_marked else replace(task, state=task.state + REUSED)


def _task(one: RequestOutcome, *, needs: tuple[str, ...], maker: str) -> TimelineTask:
    request, container = one.request, one.container
    reused = bool(container) and is_reused(request, container or {})
    started = ended = None
    state = state_of(request, container)
    if container is not None:
        started = _seconds(container["started_at"])
        ended = _seconds(container["finished_at"])
    made = parse_time(request["created_at"]).timestamp()
    if ended is None and state in _ENDED:
        # It was cancelled without a container of its own: when is not known.
        started, ended = None, made
    return TimelineTask(
        key=request["uuid"],
        name=request["name"] or shown_command(request),
        state=shown_state(one) + (REUSED if reused else ""),
        made=made,
        started=started,
        ended=ended,
        needs=needs,
        maker=maker,
        is_reused=reused,
    )


def _seconds(text: str | None) -> float | None:
    return parse_time(text).timestamp() if text else None
