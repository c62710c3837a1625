"""The graph of where a request came from and what used its result, drawn by the server, and the
same as a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from lading.client.request_states import shown_command
from lading.core.drawing.folding import FoldedNode, fold
from lading.core.drawing.layered import layers
from lading.web.graphs.lineage import find_lineage
from lading.web.requests.page import request_uuid
from lading.web.visit import Visit

_NODES: Final = 200
_ACROSS, _DOWN = 240, 60
"""Pixels from a layer to the next one, and from a node to the next one."""
_WIDTH, _HEIGHT = 184, 44
"""Size of a node."""
_MARGIN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A node with its place, and the names of its neighbours for the table."""

    node: FoldedNode
    x: int
    y: int
    is_start: bool
    sources: list[str]
    users: list[str]


async def show(visit: Visit) -> Response:
    """The page with the graph."""
    request = await visit.api.get("container_requests", request_uuid(visit))
    drawn = await find_lineage(visit.api, request)
    folded = fold(drawn.nodes.values(), drawn.edges, start=drawn.start, most=_NODES)
    placed = layers([one.key for one in folded.nodes], folded.edges)
    tallest = max(len(layer) for layer in placed)
    place = {
        key: (
            _MARGIN + column * _ACROSS,
            # Short layers are in the middle; rows of all layers are in line.
            _MARGIN + (row + (tallest - len(layer)) // 2) * _DOWN,
        )
        for column, layer in enumerate(placed)
        for row, key in enumerate(layer)
    }
    names = {one.key: one.name for one in folded.nodes}
    nodes = [
        PlacedNode(
            node=one,
            x=place[one.key][0],
            y=place[one.key][1],
            is_start=any(each.key == drawn.start for each in one.nodes),
            sources=[names[first] for first, second in folded.edges if second == one.key],
            users=[names[second] for first, second in folded.edges if first == one.key],
        )
        for one in folded.nodes
    ]
    return visit.page(
        "graph.html",
        request=request,
        title=request["name"] or shown_command(request),
        nodes=sorted(nodes, key=lambda one: (one.x, one.y)),
        edges=[_path(place[first], place[second]) for first, second in folded.edges],
        left_out=folded.left_out,
        width=len(placed) * _ACROSS - (_ACROSS - _WIDTH) + 2 * _MARGIN,
        height=tallest * _DOWN + 2 * _MARGIN,
        node_width=_WIDTH,
        node_height=_HEIGHT,
    )


def _path(first: tuple[int, int], second: tuple[int, int]) -> str:
    """The path of an SVG curve from the right side of a node to the left side of another one; past
    other layers it runs between two rows, so that no node hides it.
    """
    x, y = first[0] + _WIDTH, first[1] + _HEIGHT // 2
    end_x, end_y = second[0], second[1] + _HEIGHT // 2
    if end_x - first[0] > _ACROSS:
        low, turn = y + _DOWN // 2, (_ACROSS - _WIDTH) // 2
        return (
            f"M {x} {y} C {x + turn} {y} {x} {low} {x + turn} {low} L {end_x - turn} {low} "
            f"C {end_x} {low} {end_x - turn} {end_y} {end_x} {end_y}"
        )
    bend = max(20, abs(end_x - x) // 2)
    return f"M {x} {y} C {x + bend} {y} {end_x - bend} {end_y} {end_x} {end_y}"
