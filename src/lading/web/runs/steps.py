"""The table of the steps of a run, by state and name."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from lading.core.errors import Invalid
from lading.core.request_status import RequestStatus
from lading.core.runs.step_groups import group_steps
from lading.web.runs.list_pages import PAGE, page_address, row_number, view_address
from lading.web.runs.reading import read_view, shown_step_state
from lading.web.visit import Visit

_STATES: Final = (
    RequestStatus.RUNNING, RequestStatus.WAITING, RequestStatus.FAILED, RequestStatus.DONE,
    RequestStatus.CANCELLED,
)  # fmt: skip


async def show(visit: Visit) -> Response:
    """A page of the steps, in the order of their submission."""
    view = await read_view(visit)
    state, name = visit.query("state"), visit.query("step")
    if state and state not in _STATES:
        raise Invalid(f"state: {state[:40]!r} is none; these are: {', '.join(_STATES)}")
    chosen = [step for step in view.steps if state in ("", step.state) and name in ("", step.group)]
    start = row_number(visit)
    chips = [
        (each or "All", view_address(view, "steps", state=each, step=name), each == state)
        for each in ("", *_STATES)
    ]
    return visit.page(
        "run_steps.html",
        view=view,
        run=view.record,
        row=view.row,
        steps=[(step, shown_step_state(step)) for step in chosen[start : start + PAGE]],
        count=len(chosen),
        start=start,
        chips=chips,
        name=name,
        names=[group.name for group in group_steps(view.steps)],
        state=state,
        earlier=page_address(view, "steps", start - PAGE, state=state, step=name),
        later=page_address(view, "steps", start + PAGE, len(chosen), state=state, step=name),
    )
