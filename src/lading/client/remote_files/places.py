"""Finds the project or collection that an address leads to, asking the API name by name.

The target of a name is remembered for a short time. A request and a container stand for their
output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.remote_files.addresses import split_address
from lading.client.remote_files.faults import NoSuchFile
from lading.core.errors import Invalid
from lading.core.ids import Infix, infix_of, is_pdh, is_uuid

_PROJECTS: Final[list[Any]] = ["group_class", "in", ["project", "filter"]]
_MOST_REMEMBERED: Final = 10_000
"""Names whose uuids are remembered; then all are forgotten."""
_FIELDS: Final = ("uuid", "name", "modified_at", "owner_uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlace:
    """The end of an address.

    Of a project: `owner` alone, which may be a user, for a home. Of a collection or a file in it:
    `collection`, its uuid or hash, and `path` in it. Of a collection that is not there: `owner`,
    its `missing` name, and `path`.
    """

    owner: str = ""
    collection: str = ""
    missing: str = ""
    path: str = ""

    @property
    def is_project(self) -> bool:
        """Whether it is a project or a home."""
        return not self.collection and not self.missing


class Locations:
    """Looks addresses up. `life`: seconds for which an answer is remembered."""

    def __init__(self, api: ApiClient, *, clock: Callable[[], float], life: float) -> None:
        self._api, self._clock, self._life = api, clock, life
        self._home = ""
        self._names: dict[tuple[str, str], tuple[float, str]] = {}

    def expire(self) -> None:
        """Forget all names."""
        self._names.clear()

    async def home(self) -> str:
        """The uuid of the caller."""
        if not self._home:
            user = await self._api.get("users", "current", select=("uuid",))
            self._home = str(user["uuid"])
        return self._home

    async def find(self, address: str) -> StoredPlace:
        """The target of an address. Raises NoSuchFile for a uuid that is not there, Invalid for a
        malformed address and for a request without output.
        """
        names = split_address(address)
        if not names:
            return StoredPlace(owner=await self.home())
        first, path = names[0], "/".join(names[1:])
        if is_pdh(first) or is_uuid(first, Infix.COLLECTION):
            return StoredPlace(collection=first, path=path)
        if is_uuid(first):
            if infix_of(first) in (Infix.GROUP, Infix.USER):
                return await self._below(first, names[1:])
            return StoredPlace(collection=await self._output(first), path=path)
        home = await self.home()
        location = await self._below(home, names)
        if location.owner != home or location.missing != first:
            return location
        # Projects of others have no place in the home; their names are found all the same.
        project = await self._shared_project(first)
        return await self._below(project, names[1:]) if project else location

    async def records(self, owner: str) -> list[Record]:
        """The projects and collections of a project or a user, with the fields of lists."""
        if is_uuid(owner, Infix.GROUP):
            # A project that is not there would look like an empty one.
            await self._api.get("groups", owner, select=("uuid",))
        projects, collections = await asyncio.gather(
            self._all("groups", ["owner_uuid", "=", owner], _PROJECTS),
            self._all("collections", ["owner_uuid", "=", owner], select=("file_size_total",)),
        )
        return projects + collections

    async def named(self, owner: str, name: str) -> str:
        """The uuid of the project, else the collection, of a name; "" if there is none."""
        until, uuid = self._names.get((owner, name), (0.0, ""))
        if uuid and self._clock() < until:
            return uuid
        filters: list[Any] = [["owner_uuid", "=", owner], ["name", "=", name]]
        projects, collections = await asyncio.gather(
            self._api.list("groups", filters=[*filters, _PROJECTS], select=("uuid",), limit=1),
            self._api.list("collections", filters=filters, select=("uuid",), limit=1),
        )
        uuid = str((projects + collections)[0]["uuid"]) if projects or collections else ""
        if len(self._names) >= _MOST_REMEMBERED:
            self._names.clear()
        # What is not there may be made at any time: that is not remembered.
        if uuid:
            self._names[owner, name] = self._clock() + self._life, uuid
        return uuid

    async def _below(self, owner: str, names: list[str]) -> StoredPlace:
        for number, name in enumerate(names):
            uuid = await self.named(owner, name)
            path = "/".join(names[number + 1 :])
            if not uuid:
                return StoredPlace(owner=owner, missing=name, path=path)
            if infix_of(uuid) == Infix.COLLECTION:
                return StoredPlace(owner=owner, collection=uuid, path=path)
            owner = uuid
        return StoredPlace(owner=owner)

    async def _shared_project(self, name: str) -> str:
        """The uuid of the only readable project of a name; "" without one. Raises Invalid."""
        projects = await self._api.list(
            "groups", filters=[_PROJECTS, ["name", "=", name]], select=("uuid",), limit=2
        )
        if len(projects) > 1:
            raise Invalid(f"{name}: several projects are called so; give the uuid of the project")
        return str(projects[0]["uuid"]) if projects else ""

    async def _output(self, uuid: str) -> str:
        kind = infix_of(uuid)
        if kind == Infix.REQUEST:
            record = await self._api.get("container_requests", uuid, select=("uuid", "output_uuid"))
            output = record["output_uuid"]
        elif kind == Infix.CONTAINER:
            output = (await self._api.get("containers", uuid, select=("uuid", "output")))["output"]
        else:
            raise NoSuchFile(f"{uuid}: names neither a collection, a project nor a request")
        if not output:
            raise Invalid(f"{uuid}: has no output yet; see 'lading request why {uuid}'")
        return str(output)

    async def _all(self, plural: str, *filters: Any, select: tuple[str, ...] = ()) -> list[Record]:
        pages = self._api.pages(plural, filters=filters, select=(*_FIELDS, *select))
        return [record async for page in pages for record in page]
