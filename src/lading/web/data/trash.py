"""The trash: collections and projects that were taken away and can still come back."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from lading.core.ids import Infix, is_uuid
from lading.web.data import entries
from lading.web.data.entries import COLLECTIONS, PROJECTS
from lading.web.visit import Visit

TRASH: Final = "/ui/trash"
_PAGE: Final = 50
_TRASHED: Final = [["is_trashed", "=", True]]
# The server keeps the output and log of each container in the trash from the beginning, beside the
# collections of its requests: nobody has thrown them away.
_NO_RESULT: Final = ["properties.container_uuid", "exists", False]


async def show(visit: Visit) -> Response:
    """The first collections and projects in the trash, or a page of the one kind `kind`; results of
    containers only with `results`.
    """
    kind, name = visit.query("kind"), visit.query("q").strip()
    results = visit.query("results")
    lists = []
    for listed_kind in [kind] if kind else [PROJECTS, COLLECTIONS]:
        page = await entries.find(
            visit,
            listed_kind,
            rare=_TRASHED if results else [*_TRASHED, _NO_RESULT],
            name=name,
            after=visit.query("after") if kind else "",
            most=_PAGE,
            include_trash=True,
        )
        lists.append(
            {
                "kind": listed_kind,
                "rows": page.rows,
                "older": page.address(TRASH, kind=listed_kind, q=name, results=results),
                "reached": page.reached,
                "further": page.further(TRASH, kind=listed_kind, q=name, results=results),
            }
        )
    other_view = entries.address(TRASH, kind=kind, q=name, results="" if results else "1")
    return visit.page(
        "trash.html", lists=lists, wanted=name, kind=kind, results=results, other=other_view
    )


async def put_in(visit: Visit) -> Response:
    """Move a collection or a project to the trash."""
    plural, uuid = _named(visit)
    await visit.api.action(plural, uuid, "trash")
    return visit.redirect(TRASH)


async def take_out(visit: Visit) -> Response:
    """Take a collection or a project out of the trash."""
    plural, uuid = _named(visit)
    await visit.api.action(plural, uuid, "untrash")
    is_group = is_uuid(uuid, Infix.GROUP)
    place = entries.project_place if is_group else entries.collection_place
    return visit.redirect(place(uuid))


def _named(visit: Visit) -> tuple[str, str]:
    uuid = entries.need_uuid(visit, Infix.GROUP, Infix.COLLECTION)
    return ("groups" if is_uuid(uuid, Infix.GROUP) else "collections"), uuid
