"""The collection for files that are uploaded in the form; each file then goes into it by
`web.data.upload`.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response

from lading.client import sharing
from lading.core.errors import Unauthenticated
from lading.web.visit import Visit

_LONGEST: Final = 200
"""Characters of the name; the server may append the time."""


async def create(visit: Visit) -> Response:
    """Make an empty collection in the project of the form, or in the reader's home: its `uuid` and
    `name` as JSON. Raises NotFound, Invalid for the project, and as the API does.
    """
    if visit.session is None:
        raise Unauthenticated
    project = await sharing.find_project(visit.api, visit.field("project").strip())
    name = visit.field("name").strip().replace("/", "_")[:_LONGEST] or "upload"
    attributes = {
        "name": name,
        "owner_uuid": project or visit.session.user_uuid,
        "manifest_text": "",
    }
    collection = await visit.api.create("collections", attributes, ensure_unique_name=True)
    return JSONResponse({"uuid": collection["uuid"], "name": collection["name"]}, status_code=201)
