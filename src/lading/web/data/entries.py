"""Rows of projects and collections, their keyset pages, and the projects above a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from lading.client.api import Record
from lading.core.errors import Invalid, LadingError, NotFound
from lading.core.ids import Infix, is_uuid
from lading.web.data.result_names import ResultName, name_results
from lading.web.keyset import (
    LONG_PATIENCE,
    PATIENCE,
    SearchPage,
    has_part,
    key_of,
    page_after,
    search_after,
)
from lading.web.visit import Visit

PROJECTS: Final = "projects"
COLLECTIONS: Final = "collections"
PROJECT: Final = ["group_class", "in", ["project", "filter"]]
"""The filter for groups that hold records."""
_FIELDS: Final = {
    PROJECTS: ("uuid", "name", "created_at", "owner_uuid", "description"),
    COLLECTIONS: (
        "uuid", "name", "created_at", "owner_uuid", "file_count", "file_size_total",
        "portable_data_hash",
    ),
}  # fmt: skip
_DEEPEST: Final = 12
"""Projects above a record that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRow:
    """A project or a collection as a list shows it; `file_count` is None for a project."""

    uuid: str
    address: str
    title: str
    about: str
    created_at: str
    file_count: int | None
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPage:
    """A page of a list; `after` is the key for the page after it, "" for the last page. `reached`:
    the moment down to which was looked, "" if need not be looked further.
    """

    rows: list[DataRow]
    after: str
    reached: str = ""

    def address(self, path: str, **parameters: str) -> str:
        """The address of the page after this one; "" for the last page."""
        return address(path, **{**parameters, "after": self.after}) if self.after else ""

    def further(self, path: str, **parameters: str) -> str:
        """The address of what was made earlier than was looked at; "" if all was."""
        far = {**parameters, "after": f"{self.reached}~", "far": "1"}
        return address(path, **far) if self.reached else ""


async def find(
    visit: Visit,
    kind: str,
    *,
    filters: Sequence[Any] = (),
    name: str = "",
    after: str = "",
    most: int,
    plural: str = "",
    rare: Sequence[Any] = (),
    **more: Any,
) -> DataPage:
    """Projects or collections (`kind`), the newest first, with a text in their name, after a key.

    `plural`: another list of the API with them. `rare`: further filters, which few meet.
    Raises Invalid, and the errors of the API.
    """
    if kind not in _FIELDS:
        raise Invalid(f"kind: {kind[:40]!r} is none; these are: {', '.join(_FIELDS)}")
    groups = kind == PROJECTS
    asked: dict[str, Any] = {
        "filters": [*([PROJECT] if groups else []), *filters],
        "select": _FIELDS[kind],
        "after": after,
        "most": most + 1,
        **more,
    }
    listed = plural or ("groups" if groups else "collections")
    if name or rare:
        named = [has_part("name", name)] if name else []
        asked |= {"common_filters": asked["filters"], "filters": [*asked["filters"], *rare, *named]}
        patience = LONG_PATIENCE if visit.query("far") else PATIENCE
        page = await search_after(visit.api, listed, **asked, patience=patience)
    else:
        page = SearchPage(await page_after(visit.api, listed, **asked))
    picked = page.records[:most]
    names = {} if groups else await name_results(visit, picked)
    return DataPage(
        rows=[_row(record, names.get(record["uuid"])) for record in picked],
        after=key_of(picked[-1]) if len(page.records) > most else "",
        reached=page.reached,
    )


async def parents_of(visit: Visit, owner: str) -> list[tuple[str, str]]:
    """Name and address of each project above a record, from the home of a user to its owner.

    A project that the reader may not see, and all above it, is left out.
    """
    parents: list[tuple[str, str]] = []
    while len(parents) < _DEEPEST:
        if is_uuid(owner, Infix.USER):
            mine = visit.session is not None and owner == visit.session.user_uuid
            parents.append(("Home" if mine else "Home of another user", project_place(owner)))
            break
        if not is_uuid(owner, Infix.GROUP):
            break
        try:
            group = await visit.api.get("groups", owner, select=("uuid", "name", "owner_uuid"))
        except LadingError as error:
            if error.status not in (403, 404):
                raise
            break
        parents.append((group["name"] or owner, project_place(owner)))
        owner = group["owner_uuid"]
    return parents[::-1]


def project_place(uuid: str) -> str:
    """The address of the page of a project, or of a user's home."""
    return f"/ui/projects/{uuid}"


def collection_place(uuid: str) -> str:
    """The address of the page of a collection."""
    return f"/ui/collections/{uuid}"


def address(path: str, **parameters: str) -> str:
    """An address with these parameters."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{path}?{query}" if query else path


def need_uuid(visit: Visit, *kinds: Infix) -> str:
    """The uuid in the address. Raises NotFound unless it is one of these kinds."""
    uuid = visit.parts["uuid"]
    if not any(is_uuid(uuid, kind) for kind in kinds):
        raise NotFound(
            f"{uuid[:80]!r} is no uuid of a record that is shown here; look for its name"
        )
    return uuid


def need_name(visit: Visit) -> str:
    """The name in the form. Raises Invalid."""
    name = visit.field("name").strip()
    if not name:
        raise Invalid("name: is empty; give one")
    return name


def _row(record: Record, name: ResultName | None) -> DataRow:
    is_project = is_uuid(record["uuid"], Infix.GROUP)
    return DataRow(
        uuid=record["uuid"],
        address=(project_place if is_project else collection_place)(record["uuid"]),
        title=name.title
        if name
        else record["name"] or record.get("portable_data_hash") or record["uuid"],
        about=name.about if name else str(record.get("description") or ""),
        created_at=record["created_at"],
        file_count=None if is_project else record["file_count"],
        bytes=record.get("file_size_total") or 0,
    )
