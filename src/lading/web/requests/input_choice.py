"""The collections that the form adds to the inputs, and those that it suggests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lading.client.api import ApiClient, Record
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import Infix, is_pdh, is_uuid
from lading.web.keyset import search_after
from lading.web.visit import Visit

PATH: Final = "/in"
"""Where a collection appears in the container, unless the form says otherwise."""
_SUGGESTED: Final = 50
"""Collections that the form suggests; any other one can be typed."""
# Results of containers would bury what people uploaded.
_NO_RESULT: Final = ["properties.type", "not in", ["log", "output", "intermediate"]]
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
"""Characters of a name that a path in the container does not get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedCollection:
    """A collection that the form offers; `reference` is its name, or its uuid where several have
    the name.
    """

    uuid: str
    name: str
    reference: str
    created_at: str


async def suggestions(visit: Visit) -> list[SuggestedCollection]:
    """The newest collections of the reader's home but for results of containers."""
    if visit.session is None:
        return []
    own = ["owner_uuid", "=", visit.session.user_uuid]
    records: list[Record] = []
    # A token of limited scope reads no collections, which is no reason not to show the form.
    with suppress(LadingError):
        page = await search_after(
            visit.api, "collections", filters=[own, _NO_RESULT], common_filters=[own],
            select=("uuid", "name", "created_at"), after="", most=_SUGGESTED,
        )  # fmt: skip
        records = [record for record in page.records[:_SUGGESTED] if record["name"]]
    names = [str(record["name"]) for record in records]
    return [
        SuggestedCollection(
            uuid=str(record["uuid"]),
            name=name,
            reference=name if names.count(name) == 1 else str(record["uuid"]),
            created_at=str(record["created_at"]),
        )
        for record, name in zip(records, names, strict=True)
    ]


async def chosen_inputs(api: ApiClient, uuids: Sequence[str]) -> list[str]:
    """Lines `PATH=UUID` for collections that are chosen together: each is below /in by its name.
    Raises Invalid, NotFound.
    """
    if not uuids:
        return []
    if len(uuids) > _SUGGESTED or not all(is_uuid(uuid, Infix.COLLECTION) for uuid in uuids):
        raise Invalid(f"choose at most {_SUGGESTED} collections of the list")
    records = await api.list(
        "collections",
        filters=[["uuid", "in", list(uuids)]],
        select=("uuid", "name"),
        limit=len(uuids),
    )
    names = {str(record["uuid"]): str(record["name"] or "") for record in records}
    lines: dict[str, str] = {}
    for uuid in dict.fromkeys(uuids):
        if uuid not in names:
            raise NotFound(f"{uuid}: there is no such collection that you can see")
        name = _ODD.sub("_", names[uuid]).strip(".") or uuid
        if f"{PATH}/{name}" in lines:
            name = uuid
        lines[f"{PATH}/{name}"] = uuid
    return [f"{path}={uuid}" for path, uuid in lines.items()]


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
