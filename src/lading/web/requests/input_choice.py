"""The collection that the form adds to the inputs, and those that it suggests."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from lading.client.api import ApiClient, Record
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import is_pdh, is_uuid
from lading.web.keyset import search_after
from lading.web.visit import Visit

PATH: Final = "/in"
"""Where a collection appears in the container, unless the form says otherwise."""
_SUGGESTED: Final = 50
"""Collections that the form suggests; any other one can be typed."""
# Results of containers would bury what people uploaded.
_NO_RESULT: Final = ["properties.type", "not in", ["log", "output", "intermediate"]]


async def suggestions(visit: Visit) -> list[tuple[str, str]]:
    """The newest collections of the reader's home but for results of containers: what the field
    takes, and a label. A name that several have is taken by its uuid.
    """
    if visit.session is None:
        return []
    own = ["owner_uuid", "=", visit.session.user_uuid]
    records: list[Record] = []
    # A token of limited scope reads no collections, which is no reason not to show the form.
    with suppress(LadingError):
        page = await search_after(
            visit.api, "collections", filters=[own, _NO_RESULT], whole=[own],
            select=("uuid", "name", "created_at"), after="", most=_SUGGESTED,
        )  # fmt: skip
        records = [record for record in page.records[:_SUGGESTED] if record["name"]]
    names = [str(record["name"]) for record in records]
    return [
        (name if names.count(name) == 1 else str(record["uuid"]), name)
        for record, name in zip(records, names, strict=True)
    ]


async def find_collection(api: ApiClient, name: str) -> str:
    """The uuid of the collection with this name; a uuid and a hash stay as they are. Raises
    NotFound, and Invalid when several have the name.
    """
    name = name.removeprefix("keep:")
    if is_uuid(name) or is_pdh(name):
        return name
    records = await api.list(
        "collections", filters=[["name", "=", name]], select=("uuid",), limit=2
    )
    if not records:
        raise NotFound(f"{name[:80]}: there is no such collection that you can see")
    if len(records) > 1:
        raise Invalid(f"{name[:80]}: several collections are called so; give the uuid")
    return str(records[0]["uuid"])
