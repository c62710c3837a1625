"""The graph of where a request came from and what used its result, drawn by the server, and the
same as a table.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from lading.client.provenance.lineage import find_lineage
from lading.client.request_states import shown_command
from lading.core.drawing.folding import fold
from lading.core.drawing.placement import HEIGHT, WIDTH, place
from lading.web.requests.page import request_uuid
from lading.web.visit import Visit

# A larger drawing cannot be read; steps are folded before it is reached.
_NODES: Final = 200


async def show(visit: Visit) -> Response:
    """The page with the graph."""
    request = await visit.api.get("container_requests", request_uuid(visit))
    drawn = await find_lineage(visit.api, request)
    folded = fold(drawn.nodes.values(), drawn.edges, start=drawn.start, most=_NODES)
    return visit.page(
        "graph.html",
        request=request,
        title=request["name"] or shown_command(request),
        drawing=place(folded, start=drawn.start),
        left_out=folded.left_out,
        node_width=WIDTH,
        node_height=HEIGHT,
    )
