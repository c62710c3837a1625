"""Addresses of Workbench 2: clients of Arvados print them with the address of the page before.

A process is a request, or the container of one. Projects and collections have the same addresses
here; a user's is that of the home project.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from lading.core.errors import NotFound
from lading.core.ids import Infix, is_uuid
from lading.web.routes import PageRoute, route
from lading.web.visit import Visit


async def show_process(visit: Visit) -> Response:
    """Go to the page of a request, by its uuid or that of its container. Raises NotFound."""
    uuid = visit.parts["uuid"]
    if is_uuid(uuid, Infix.CONTAINER):
        requests = await visit.api.list(
            "container_requests",
            filters=[["container_uuid", "=", uuid]],
            order=["created_at desc"],
            select=["uuid"],
            limit=1,
        )
        if not requests:
            raise NotFound(f"{uuid}: no request of this container can be read")
        uuid = str(requests[0]["uuid"])
    elif is_uuid(uuid, Infix.REQUEST):
        # A request that the reader cannot see does not exist.
        await visit.api.get("container_requests", uuid, select=("uuid",))
    else:
        raise NotFound(f"{uuid[:80]!r} is no uuid of a request or a container")
    return visit.redirect(f"/ui/requests/{uuid}")


ROUTES: Final[tuple[PageRoute, ...]] = tuple(
    route("GET", f"/ui/{name}/{{uuid}}", show_process)
    for name in ("processes", "container_requests", "containers", "all_processes")
)
