"""The graph of a run, in which the requests of one step are one node, and its timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from lading.client.request_states import REUSED
from lading.core.drawing.folding import FoldedGraph, FoldedNode, LineageNode
from lading.core.drawing.gantt import TimelineTask, lay_out
from lading.core.drawing.placement import HEIGHT, WIDTH, place
from lading.core.quantities import parse_time
from lading.core.request_status import RequestStatus
from lading.core.runs.step_groups import RunStep, StepGroup, group_steps, needs_of
from lading.web.runs import rows
from lading.web.runs.reading import read_view, shown_step_state
from lading.web.visit import Visit

_NODES: Final = 200
"""Steps of one drawing: a larger one cannot be read."""
_ROWS: Final = 60
"""Requests of a timeline with a row for each; of more, each step is a row."""
_MOST_ROWS: Final = 200
_WIDTH: Final = 560
"""Width of the bars in pixels."""
_LIVE: Final = (RequestStatus.WAITING, RequestStatus.RUNNING)
_FIRST: Final = (
    RequestStatus.FAILED, RequestStatus.CANCELLED, RequestStatus.RUNNING, RequestStatus.WAITING,
    RequestStatus.DRAFT, RequestStatus.DONE,
)  # fmt: skip
"""States in the order in which a reader must see them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabel:
    """The state of the requests of a node, the states in words with numbers, and all states."""

    look: str
    words: str
    summary: str


async def show_graph(visit: Visit) -> Response:
    """The page with the graph."""
    view = await read_view(visit)
    groups = group_steps(view.steps)
    drawing = place(_graph(groups[:_NODES]), start="")
    labels = {group.name: _label(group) for group in groups[:_NODES]}
    return visit.page(
        "run_graph.html",
        view=view,
        run=view.record,
        row=view.row,
        drawing=drawing,
        labels=labels,
        left_out=max(0, len(groups) - _NODES),
        node_width=WIDTH,
        node_height=HEIGHT,
    )


async def show_timeline(visit: Visit) -> Response:
    """The page with the timeline; a step that was reused takes no time in it."""
    view = await read_view(visit)
    now = visit.services.clock().timestamp()
    needs = needs_of(view.steps)
    is_folded = len(view.steps) > _ROWS
    tasks = [_task(step, needs[step.uuid], is_folded=is_folded) for step in view.steps]
    most = _ROWS if is_folded else _MOST_ROWS
    chart = lay_out(tasks, now=now, width=_WIDTH, most=most)
    return visit.page(
        "run_timeline.html",
        view=view,
        run=view.record,
        row=view.row,
        chart=chart,
        labels={group.name: _label(group) for group in group_steps(view.steps)}
        if is_folded
        else {},
        width=_WIDTH,
        reused=sum(step.is_reused for step in view.steps),
    )


def _label(group: StepGroup) -> NodeLabel:
    """The label of a step: the state that a reader must see first, with its number of requests."""
    summary = rows.summary_of(group.counts.shown(), "request")
    total = len(group.steps)
    if total == 1:
        words = shown_step_state(group.steps[0])
        return NodeLabel(look=words, words=words, summary=summary)
    numbers = group.counts.shown()
    word = next(word for word in _FIRST if numbers[word])
    words = f"{total} {word}" if numbers[word] == total else f"{numbers[word]} of {total} {word}"
    is_reused = word == RequestStatus.DONE and numbers["reused"] == total
    return NodeLabel(
        look=word + (REUSED if is_reused else ""), words=words, summary=summary.partition(": ")[2]
    )


def _graph(groups: tuple[StepGroup, ...]) -> FoldedGraph:
    drawn = {group.name for group in groups}
    return FoldedGraph(
        nodes=tuple(
            FoldedNode(key=group.name, name=group.name, nodes=_nodes(group)) for group in groups
        ),
        edges=tuple(
            (need, group.name) for group in groups for need in group.needs if need in drawn
        ),
        left_out=0,
    )


def _nodes(group: StepGroup) -> tuple[LineageNode, ...]:
    return tuple(
        LineageNode(
            key=step.uuid,
            kind="request",
            name=step.name,
            state=shown_step_state(step),
            request_uuid=step.uuid,
        )
        for step in group.steps
    )


def _task(step: RunStep, needs: tuple[str, ...], *, is_folded: bool) -> TimelineTask:
    begun = _seconds(step.created_at) or 0.0
    started, ended = _seconds(step.started_at), _seconds(step.finished_at)
    if step.is_reused and step.state not in _LIVE:
        # Its container ran before the run, or in another one: here it took no time.
        started = ended = begun
    elif ended is None and step.state not in _LIVE:
        # It was cancelled without a container of its own: when is not known.
        started, ended = None, begun
    return TimelineTask(
        key=step.uuid,
        name=step.group if is_folded else step.name,
        state=shown_step_state(step),
        created=begun,
        started=started,
        ended=ended,
        needs=needs,
        is_reused=step.is_reused,
    )


def _seconds(moment: str | None) -> float | None:
    return parse_time(moment).timestamp() if moment else None
