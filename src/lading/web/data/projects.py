"""A project and what is in it, and the projects that others share with the reader."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from lading.client.api import Record
from lading.core.ids import Infix, is_uuid
from lading.core.runs.attempts import RUN
from lading.web.data import entries
from lading.web.data.entries import COLLECTIONS, PROJECTS
from lading.web.requests import rows
from lading.web.requests.rows import RequestPage
from lading.web.visit import Visit

_PAGE: Final = 50
_FEW: Final = 10
"""Rows of each kind on the first view of a project."""
_SHARED: Final = "/ui/projects/shared"
_FIELDS: Final = (
    "uuid", "name", "description", "owner_uuid", "group_class", "can_write", "can_manage",
    "frozen_by_uuid", "properties", "created_at",
)  # fmt: skip
# Each container leaves a log, and each workflow its steps' results: they would bury the rest.
_NO_LOG: Final = ["properties.type", "not in", ["log", "intermediate"]]

# Runs have a list of their own: one of each day would bury the projects.
_NO_RUN: Final = [f"properties.{RUN}", "!=", True]


async def show_home(visit: Visit) -> Response:
    """Go to the home of the reader."""
    return visit.redirect(entries.project_place(visit.session.user_uuid if visit.session else ""))


async def show(visit: Visit) -> Response:
    """A project or a user's home: a few of each kind, or a page of the one kind `kind`. Logs and
    intermediate results of containers are shown only with `logs`.
    """
    uuid = entries.need_uuid(visit, Infix.GROUP, Infix.USER)
    project = await _look_up(visit, uuid)
    path, name = entries.project_place(uuid), visit.query("q").strip()
    kind, filters = visit.query("kind"), [["owner_uuid", "=", uuid]]
    most, logs = _PAGE if kind else _FEW, visit.query("logs")
    lists = []
    for listed_kind in [kind] if kind else [PROJECTS, COLLECTIONS]:
        page = await entries.find(
            visit,
            listed_kind,
            filters=filters,
            rare=[_NO_RUN] if listed_kind == PROJECTS else [] if logs else [_NO_LOG],
            name=name,
            after=visit.query("after"),
            most=most,
        )
        parameters = {"kind": listed_kind, "q": name, "logs": logs}
        lists.append(
            {
                "kind": listed_kind,
                "rows": page.rows,
                # A short list leads to the whole one, a page of that to the next.
                "next": page.address(path, **parameters) if kind else "",
                "all": entries.address(path, **parameters) if page.after and not kind else "",
                "reached": page.reached,
                "further": page.further(path, **parameters),
            }
        )
    requests = RequestPage(rows=[])
    if not kind:
        requests = await rows.find(visit, owner=uuid, name=name, most=_FEW)
    far = {"owner": uuid, "q": name, "after": f"{requests.reached}~", "far": "1"}
    return visit.page(
        "project.html",
        project=project,
        place=path,
        parents=await entries.parents_of(visit, project["owner_uuid"]),
        lists=lists,
        requests=requests.rows,
        reached=requests.reached,
        further=entries.address("/ui/requests", **far),
        kind=kind,
        wanted=name,
        logs=logs,
        other=entries.address(path, kind=kind, q=name, logs="" if logs else "1"),
        newest=entries.address(path, kind=kind, q=name, logs=logs) if visit.query("after") else "",
    )


async def show_shared(visit: Visit) -> Response:
    """The projects that others share with the reader."""
    name = visit.query("q").strip()
    page = await entries.find(
        visit, PROJECTS, plural="groups/shared", name=name, after=visit.query("after"), most=_PAGE
    )
    return visit.page(
        "shared.html",
        rows=page.rows,
        wanted=name,
        older=page.address(_SHARED, q=name),
        reached=page.reached,
        further=page.further(_SHARED, q=name),
        newest=entries.address(_SHARED, q=name) if visit.query("after") else "",
    )


async def create_project(visit: Visit) -> Response:
    """Make a project in this one."""
    owner = entries.need_uuid(visit, Infix.GROUP, Infix.USER)
    project = await visit.api.create(
        "groups",
        {
            "group_class": "project",
            "name": entries.need_name(visit),
            "owner_uuid": owner,
            "description": visit.field("description").strip() or None,
        },
    )
    return visit.redirect(entries.project_place(project["uuid"]))


async def _look_up(visit: Visit, uuid: str) -> Record:
    if is_uuid(uuid, Infix.GROUP):
        return await visit.api.get("groups", uuid, select=_FIELDS)
    user = await visit.api.get("users", uuid, select=("uuid", "username", "created_at"))
    mine = visit.session is not None and uuid == visit.session.user_uuid
    return {
        "uuid": uuid,
        "name": "Home" if mine else f"Home of {user['username'] or uuid}",
        "description": "",
        "owner_uuid": "",
        "group_class": "",
        "can_write": mine,
        "can_manage": False,
        "frozen_by_uuid": None,
        "properties": {},
        # Of others, readers may see the name only.
        "created_at": user.get("created_at"),
    }
