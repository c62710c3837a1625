"""Search over requests, collections and projects by name, uuid or hash."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from lading.core.ids import Infix, infix_of, is_pdh, is_uuid
from lading.process.concurrency import together
from lading.web.data import entries
from lading.web.data.entries import COLLECTIONS, PROJECTS, DataPage
from lading.web.requests import rows
from lading.web.requests.rows import RequestPage
from lading.web.visit import Visit

_SEARCH: Final = "/ui/search"
_PAGE: Final = 50
_FEW: Final = 10
"""Rows of each kind on the first view."""
_PLACES: Final = {
    Infix.REQUEST: "/ui/requests/",
    Infix.COLLECTION: "/ui/collections/",
    Infix.GROUP: "/ui/projects/",
    Infix.USER: "/ui/projects/",
}
_WORDS: Final = {PROJECTS: "Projects", COLLECTIONS: "Collections"}


async def show(visit: Visit) -> Response:
    """Records with a text in their names: a few of each kind, or a page of the one kind `kind`.

    A uuid leads to its page. The uuid of a container leads to the first request for it. A hash
    lists the collections with this content.
    """
    query, kind = visit.query("q").strip(), visit.query("kind")
    if target := await _place_of(visit, query):
        return visit.redirect(target)
    if is_pdh(query):
        kind = COLLECTIONS
    kinds = [kind] if kind else [PROJECTS, COLLECTIONS]
    most = _PAGE if kind else _FEW
    pages: dict[str, DataPage] = {}
    requests = RequestPage(rows=[])

    async def find(listed_kind: str) -> None:
        pages[listed_kind] = await entries.find(
            visit,
            listed_kind,
            filters=[["portable_data_hash", "=", query]] if is_pdh(query) else [],
            name="" if is_pdh(query) else query,
            after=visit.query("after") if kind else "",
            most=most,
        )

    async def find_requests() -> None:
        nonlocal requests
        requests = await rows.find(visit, name=query, most=_FEW)

    if query:
        await together(
            *(find(listed_kind) for listed_kind in kinds), *([] if kind else [find_requests()])
        )
    lists = [
        _listed(pages[listed_kind], listed_kind, query, is_whole=bool(kind))
        for listed_kind in kinds
        if listed_kind in pages
    ]
    return visit.page(
        "search.html",
        text=query,
        lists=lists,
        requests=requests.rows,
        reached=requests.reached,
        further=entries.address("/ui/requests", q=query, after=f"{requests.reached}~", far="1"),
        all_requests=entries.address("/ui/requests", q=query),
        kind=kind,
        everything=entries.address(_SEARCH, q=query),
    )


def _listed(page: DataPage, kind: str, query: str, *, is_whole: bool) -> dict[str, object]:
    """Values of the template for the records of one kind; `is_whole`: it is the only kind."""
    return {
        "kind": kind,
        "word": _WORDS[kind],
        "rows": page.rows,
        "older": page.address(_SEARCH, q=query, kind=kind) if is_whole else "",
        "all": entries.address(_SEARCH, q=query, kind=kind) if page.after else "",
        "reached": page.reached,
        "further": page.further(_SEARCH, q=query, kind=kind),
    }


async def _place_of(visit: Visit, query: str) -> str:
    """The address of the page of a uuid; "" for any other text, and for a uuid without a page."""
    if is_uuid(query) and infix_of(query) in _PLACES:
        return _PLACES[Infix(infix_of(query))] + query
    return await _request_of(visit, query) if is_uuid(query, Infix.CONTAINER) else ""


async def _request_of(visit: Visit, container: str) -> str:
    """The address of the earliest request of a container, "" if the reader can read none."""
    requests = await visit.api.list(
        "container_requests",
        filters=[["container_uuid", "=", container]],
        select=("uuid",),
        order=["created_at asc"],
        limit=1,
    )
    return _PLACES[Infix.REQUEST] + str(requests[0]["uuid"]) if requests else ""
