"""The pages with the provenance graph of a request or of a collection: what it was made from, and
what used it. The server lays the graph out, and shows the same as a table.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from lading.client.api import Record
from lading.client.provenance.causes import StepComparison, find_causes, side_of
from lading.client.provenance.lineage import (
    Lineage,
    find_content_lineage,
    find_lineage,
    link_needs,
)
from lading.client.request_states import shown_command
from lading.core.drawing.folding import fold
from lading.core.drawing.placement import HEIGHT, WIDTH, follows, place
from lading.core.ids import Infix
from lading.web.data import entries
from lading.web.graphs.compare import other_side
from lading.web.requests.page import request_uuid
from lading.web.visit import Visit

# A larger drawing cannot be read; steps are folded before it is reached.
_NODES: Final = 200
_MOST_STEPS: Final = 50
"""Steps that are compared with those of another request."""


async def show(visit: Visit) -> Response:
    """The page with the graph; the steps that differ from those of the request in `with` are
    marked.
    """
    request = await visit.api.get("container_requests", request_uuid(visit))
    other = visit.query("with").strip()
    chosen, cause = await _differing(visit, request, other) if other else (set(), "")
    drawn = await find_lineage(visit.api, request)
    await link_needs(visit.api, drawn)
    title = request["name"] or shown_command(request)
    about = {"request": request, "title": title, "other": other, "cause": cause}
    return _drawing(visit, drawn, chosen, **about)


async def show_content(visit: Visit) -> Response:
    """The page with the graph of what a collection has now."""
    uuid = entries.need_uuid(visit, Infix.COLLECTION)
    fields = ("uuid", "name", "portable_data_hash")
    collection = await visit.api.get("collections", uuid, select=fields)
    drawn = await find_content_lineage(visit.api, collection)
    title = collection["name"] or collection["portable_data_hash"]
    place = entries.collection_place(uuid)
    about = {"request": None, "title": title, "place": place, "other": "", "cause": ""}
    return _drawing(visit, drawn, set(), **about)


def _drawing(visit: Visit, drawn: Lineage, chosen: set[str], **about: Any) -> Response:
    folded = fold(drawn.nodes.values(), drawn.edges, start=drawn.start, most=_NODES)
    drawing = place(folded, start=drawn.start)
    path, links = follows(folded.nodes, folded.edges, chosen)
    edges = zip(drawing.paths, drawing.edges, strict=True)
    return visit.page(
        "graph.html",
        **about,
        drawing=drawing,
        edges=[(line, ends in links) for line, ends in edges],
        path=path,
        is_cut=drawn.is_cut,
        count=len(drawn.nodes),
        left_out=folded.left_out,
        node_width=WIDTH,
        node_height=HEIGHT,
    )


async def _differing(visit: Visit, request: Record, reference: str) -> tuple[set[str], str]:
    """The containers of the steps that differ from those of another request, and that of the step
    that is the cause.
    """
    theirs = await other_side(visit, reference)
    ours = await side_of(visit.api, request)
    causes = await find_causes(visit.api, ours, theirs, most=_MOST_STEPS)
    keys = {_key_of(step) for step in causes.steps}
    return keys, _key_of(causes.first) if causes.first is not None else ""


def _key_of(step: StepComparison) -> str:
    return str((step.ours.container or step.ours.request)["uuid"])
