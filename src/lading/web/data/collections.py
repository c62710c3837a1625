"""One collection: its files, versions and properties, and who made it."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from lading.client.api import Record
from lading.core.errors import NotFound
from lading.core.ids import Infix, is_pdh
from lading.web import previews
from lading.web.data import entries
from lading.web.data.result_names import name_results
from lading.web.requests import files
from lading.web.visit import Visit

_VERSIONS: Final = 20
_FIELDS: Final = (
    "uuid", "name", "description", "owner_uuid", "properties", "portable_data_hash", "created_at",
    "modified_at", "version", "current_version_uuid", "replication_desired",
    "replication_confirmed", "storage_classes_desired", "storage_classes_confirmed", "is_trashed",
    "trash_at", "delete_at",
)  # fmt: skip


async def show(visit: Visit) -> Response:
    """A collection, with its files at `path`; a hash leads to the newest collection with it."""
    uuid = visit.parts["uuid"]
    if is_pdh(uuid):
        return await _show_content(visit, uuid)
    uuid = entries.need_uuid(visit, Infix.COLLECTION)
    record = await visit.api.get("collections", uuid, select=_FIELDS)
    listing = await files.look_into(visit, uuid, path=visit.query("path").strip("/"))
    names = await name_results(visit, [record])
    return visit.page(
        "collection.html",
        collection=record,
        title=names[uuid].title
        if uuid in names
        else record["name"] or record["portable_data_hash"],
        place=entries.collection_place(uuid),
        files=listing,
        parents=await entries.parents_of(visit, record["owner_uuid"]),
        versions=await _versions(visit, record),
        maker=await _maker(visit, record),
        is_present=record["current_version_uuid"] == uuid,
    )


async def show_file(visit: Visit) -> Response:
    """A preview of a file of the collection."""
    uuid, source = _source(visit)
    record = await visit.api.get("collections", uuid, select=_FIELDS)
    found = await previews.preview(visit, source, entries.collection_place(uuid))
    title = record["name"] or record["portable_data_hash"]
    parents = await entries.parents_of(visit, record["owner_uuid"])
    return previews.show_page(visit, "collection_file.html", found, title=title, parents=parents)


async def show_raw(visit: Visit) -> Response:
    """The bytes of a picture or of HTML for its preview."""
    return await previews.send_raw(visit, _source(visit)[1])


async def download(visit: Visit) -> Response:
    """A file of the collection, to be saved."""
    return await files.passed_on(visit, _source(visit)[1], visit.query("path").rpartition("/")[2])


def _source(visit: Visit) -> tuple[str, str]:
    """The uuid of the collection, and where the server has the file of the address. Raises
    NotFound.
    """
    uuid, path = entries.need_uuid(visit, Infix.COLLECTION), visit.query("path").strip("/")
    if not path:
        raise NotFound("There is no such file")
    return uuid, files.file_address(uuid, path)


async def rename(visit: Visit) -> Response:
    """Give the collection another name."""
    uuid = entries.need_uuid(visit, Infix.COLLECTION)
    await visit.api.update("collections", uuid, {"name": entries.need_name(visit)})
    return visit.redirect(entries.collection_place(uuid))


async def _show_content(visit: Visit, pdh: str) -> Response:
    """The newest collection with this content."""
    same = [["portable_data_hash", "=", pdh]]
    found = await visit.api.list(
        "collections", filters=same, select=("uuid",), order=["created_at desc"], limit=1
    )
    if not found:
        raise NotFound("You can read no collection with this content")
    return visit.redirect(entries.collection_place(found[0]["uuid"]))


async def _versions(visit: Visit, record: Record) -> list[Record]:
    return await visit.api.list(
        "collections",
        filters=[["current_version_uuid", "=", record["current_version_uuid"]]],
        select=("uuid", "version", "modified_at", "portable_data_hash"),
        order=["version desc"],
        limit=_VERSIONS,
        include_old_versions=True,
    )


async def _maker(visit: Visit, record: Record) -> Record | None:
    """The request whose output or log it is."""
    present = record["current_version_uuid"]
    for role in ("output_uuid", "log_uuid"):
        requests = await visit.api.list(
            "container_requests",
            filters=[[role, "=", present]],
            select=("uuid", "name"),
            limit=1,
        )
        if requests:
            return {**requests[0], "role": role.removesuffix("_uuid")}
    return None
