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
    tree = await find_tree(visit.api, request_uuid(visit), by_content=True)
    request = tree.outcomes[0].request
    now = visit.services.clock().timestamp()
    tasks = [_marked(task) for task in place_at_use(_tasks(tree))]
    chart = lay_out(tasks, now=now, width=_WIDTH, most=_ROWS)
    return visit.page(
        "timeline.html",
        request=request,
        title=request["name"] or shown_command(request),
        chart=chart,
        now=now,
        width=_WIDTH,
        is_cut=tree.is_cut,
        count=len(tree.outcomes),
        earlier=sum(task.is_earlier for task in tasks),
    )


def _tasks(tree: RequestTree) -> list[TimelineTask]:
    # Of several requests with one container the first one stands for its steps.
    makers: dict[str, str] = {}
    for outcome in tree.outcomes:
        if outcome.container is not None:
            makers.setdefault(outcome.container["uuid"], outcome.request["uuid"])
    return [
        _task(
            outcome,
            needs=tree.needs_of(outcome.request),
            maker=makers.get(outcome.request["requesting_container_uuid"] or "", ""),
        )
        for outcome in tree.outcomes
    ]


def _marked(task: TimelineTask) -> TimelineTask:
    """The task; the result of an earlier run is shown as reused."""
    is_marked = not task.is_earlier or task.is_reused or task.state != RequestStatus.DONE
    return task if is_marked else replace(task, state=task.state + REUSED)


def _task(outcome: RequestOutcome, *, needs: tuple[str, ...], maker: str) -> TimelineTask:
    request, container = outcome.request, outcome.container
    reused = bool(container) and is_reused(request, container or {})
    started = ended = None
    state = state_of(request, container)
    if container is not None:
        started = _seconds(container["started_at"])
        ended = _seconds(container["finished_at"])
    created = parse_time(request["created_at"]).timestamp()
    if ended is None and state in _ENDED:
        # It was cancelled without a container of its own: when is not known.
        started, ended = None, created
    return TimelineTask(
        key=request["uuid"],
        name=request["name"] or shown_command(request),
        state=shown_state(outcome) + (REUSED if reused else ""),
        created=created,
        started=started,
        ended=ended,
        needs=needs,
        maker=maker,
        is_reused=reused,
    )


def _seconds(timestamp: str | None) -> float | None:
    return parse_time(timestamp).timestamp() if timestamp else None
