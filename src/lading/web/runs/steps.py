"""The table of the steps of a run, by state and name, and the outputs of its steps."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.core.errors import Invalid
from lading.core.ids import EMPTY_PDH
from lading.core.request_status import RequestStatus
from lading.core.runs.step_groups import RunStep, group_steps
from lading.web.runs.reading import RunView, read_view, shown_step_state
from lading.web.visit import Visit

_PAGE: Final = 50
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
    start = _start(visit)
    chips = [
        (each or "All", _address(view, "steps", state=each, step=name), each == state)
        for each in ("", *_STATES)
    ]
    return visit.page(
        "run_steps.html",
        view=view,
        run=view.record,
        row=view.row,
        steps=[(step, shown_step_state(step)) for step in chosen[start : start + _PAGE]],
        count=len(chosen),
        start=start,
        chips=chips,
        name=name,
        names=[group.name for group in group_steps(view.steps)],
        state=state,
        earlier=_page_address(view, "steps", start - _PAGE, state=state, step=name),
        later=_page_address(view, "steps", start + _PAGE, len(chosen), state=state, step=name),
    )


async def show_outputs(visit: Visit) -> Response:
    """A page of the outputs, those of the last steps first."""
    view = await read_view(visit)
    name = visit.query("step")
    with_output = [
        step
        for step in reversed(_in_order(view))
        if step.output_uuid and step.output != EMPTY_PDH and name in ("", step.group)
    ]
    start = _start(visit)
    return visit.page(
        "run_outputs.html",
        view=view,
        run=view.record,
        row=view.row,
        steps=with_output[start : start + _PAGE],
        count=len(with_output),
        start=start,
        name=name,
        names=[group.name for group in group_steps(view.steps)],
        earlier=_page_address(view, "outputs", start - _PAGE, step=name),
        later=_page_address(view, "outputs", start + _PAGE, len(with_output), step=name),
    )


def _in_order(view: RunView) -> list[RunStep]:
    """The steps, each group after those that it needs."""
    return [step for group in group_steps(view.steps) for step in group.steps]


def _start(visit: Visit) -> int:
    """The number of the first row of the page. Raises Invalid."""
    digits = visit.query("from", "0")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 7:
        raise Invalid("from: must be a whole number, 0 or more")
    return int(digits)


def _page_address(
    view: RunView, path: str, start: int, count: int | None = None, **query: str
) -> str:
    """The address of another page; "" before the first row, and after the last of `count`."""
    if start <= -_PAGE or (count is not None and start >= count):
        return ""
    return _address(view, path, **query, **({"from": str(start)} if start > 0 else {}))


def _address(view: RunView, path: str, **query: str) -> str:
    attempt = {"attempt": str(view.attempt)} if view.attempt else {}
    encoded = urlencode({key: value for key, value in {**attempt, **query}.items() if value})
    return f"{view.place}/{path}" + (f"?{encoded}" if encoded else "")
