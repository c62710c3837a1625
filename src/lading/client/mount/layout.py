"""The directories of a mount, in the default layout of arv-mount.

    README            explains by_id
    by_id/            each readable collection by uuid or portable data hash, each project by uuid,
                      looked up by name
    home/             the projects and collections of the user
    shared/           the projects shared with the user, and the users and projects that own them
    by_tag/NAME/      the collections and projects with a tag, by uuid

A name that is not valid in a file system (`/` in it, too long, used by an older record) is changed,
never hidden; a record without a name is found by its uuid only. A mount can also show one of these
directories, or one collection or project, at its top.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from lading.client.api import Page, Record
from lading.client.mount.nodes import (
    Directory,
    Listed,
    Listing,
    MountedCollections,
    Node,
    Renew,
    Text,
    Unknown,
)
from lading.client.record_events import RecordEvent
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.ids import Infix, is_pdh, is_uuid

README = b"""\
Collections and projects are found here by name: a directory appears when it is asked for.

    by_id/UUID              a collection or a project that you can read
    by_id/HASH+SIZE         a collection by its portable data hash

'ls' shows only what somebody has looked at.
"""
PROJECT_RECORD = ".arvados#project"
_PROJECTS = ("project", "filter")
# Largest page of the server; more tags than this are not listed.
_MOST = 1000
# Bytes of a name (NAME_MAX of limits.h).
_LONGEST = 255
# The two characters that no file name on Linux may have.
_UNFIT = re.compile(r"[/\0]")


class MountView(StrEnum):
    """Content of the top directory of a mount."""

    ALL = "all"
    BY_ID = "by_id"
    BY_PDH = "by_pdh"
    HOME = "home"
    SHARED = "shared"
    BY_TAG = "by_tag"
    COLLECTION = "collection"
    PROJECT = "project"


class Fixed:
    """A directory with fixed entries."""

    renew: Renew | None = None

    def __init__(self, entries: Mapping[str, Node], modified: float) -> None:
        self.modified = modified
        self._entries = entries

    def peek(self, name: str) -> Node | None:
        """See Directory."""
        return self._entries.get(name)

    async def find(self, name: str) -> Node | None:
        """See Directory."""
        return self._entries.get(name)

    async def list(self) -> Listing:
        """See Directory."""
        return self._entries


class ById:
    """All readable collections and projects, by uuid or portable data hash."""

    renew: Renew | None = None

    def __init__(self, layout: MountLayout, *, only_hashes: bool) -> None:
        self.modified = layout.collections.modified
        self._layout = layout
        self._only_hashes = only_hashes
        self._directories: dict[str, Directory] = {}

    def peek(self, name: str) -> Node | None:
        """See Directory."""
        if name == "README":
            return Text(README)
        found = self._directories.get(name)
        if found is not None:
            # A lookup of any name raises Unknown if the directory is no longer valid.
            found.peek("")
            return found
        if self._is_id(name):
            raise Unknown
        return None

    async def find(self, name: str) -> Node | None:
        """See Directory."""
        if name == "README":
            return Text(README)
        if not self._is_id(name):
            return None
        directory = self._layout.by_id(name)
        try:
            await directory.find("")
        except NotFound:
            self._directories.pop(name, None)
            return None
        # Without an entry for what was looked up, `ls` would show nothing after `cd`.
        self._directories[name] = directory
        return directory

    async def list(self) -> Listing:
        """The directories that were looked up so far."""
        return {"README": Text(README), **self._directories}

    def _is_id(self, name: str) -> bool:
        if is_pdh(name):
            return True
        return not self._only_hashes and (
            is_uuid(name, Infix.COLLECTION) or is_uuid(name, Infix.GROUP)
        )


class MountLayout:
    """Creates the directories, and invalidates them after changes."""

    def __init__(self, collections: MountedCollections) -> None:
        self.collections = collections
        self._projects: dict[str, Listed] = {}
        self._user = ""
        self._shared = self._listed(self._list_shared)
        self._tags = self._listed(self._list_tags)
        self._tagged: dict[str, Listed] = {}

    async def top(self, view: MountView, id: str = "") -> Directory:
        """The top directory of a mount. Raises NotFound or Invalid for a wrong id, and the errors
        of the API.
        """
        match view:
            case MountView.BY_ID | MountView.BY_PDH:
                return ById(self, only_hashes=view is MountView.BY_PDH)
            case MountView.HOME:
                return self.project(await self._own_uuid())
            case MountView.SHARED:
                return self._shared
            case MountView.BY_TAG:
                return self._tags
            case MountView.COLLECTION | MountView.PROJECT:
                directory = self.by_id(id)
                await directory.find("")
                return directory
            case MountView.ALL:
                by_id = ById(self, only_hashes=False)
                home = self.project(await self._own_uuid())
                parts: dict[str, Node] = {"README": Text(README), "by_id": by_id, "home": home}
                return Fixed(
                    parts | {"shared": self._shared, "by_tag": self._tags},
                    self.collections.modified,
                )

    def by_id(self, id: str) -> Directory:
        """The collection or project with this id, loaded or not. Raises Invalid."""
        if is_pdh(id) or is_uuid(id, Infix.COLLECTION):
            return self.collections.collection(id)
        if is_uuid(id, Infix.GROUP) or is_uuid(id, Infix.USER):
            return self.project(id)
        raise Invalid(f"{id}: neither the uuid of a collection or project nor a portable data hash")

    def project(self, uuid: str) -> Listed:
        """The content of a project, or of a user's home."""
        if uuid not in self._projects:
            self._projects[uuid] = self._listed(lambda: self._list_project(uuid))
        return self._projects[uuid]

    def expire(self) -> None:
        """Invalidate everything."""
        self.collections.expire()
        for directory in (
            *self._projects.values(),
            *self._tagged.values(),
            self._shared,
            self._tags,
        ):
            directory.freshness.expire()

    def change(self, event: RecordEvent) -> None:
        """Invalidate the directories that one event concerns."""
        # A moved record changes the listings of its old and its new owner.
        old = event.properties.get("old_attributes") or {}
        for owner in (event.object_owner_uuid, str(old.get("owner_uuid") or "")):
            if owner in self._projects:
                self._projects[owner].freshness.expire()
        if event.object_uuid in self._projects:
            self._projects[event.object_uuid].freshness.expire()
        kind = event.object_uuid[6:11]
        if kind == Infix.COLLECTION:
            self.collections.expire(event.object_uuid)
        # A permission is a link: what is shared may have changed. Tags are links too.
        elif kind in (Infix.LINK, Infix.GROUP):
            for directory in (*self._tagged.values(), self._shared, self._tags):
                directory.freshness.expire()

    def _listed(self, load: Any) -> Listed:
        return Listed(load, self.collections.clock, life=self.collections.life)

    async def _own_uuid(self) -> str:
        if not self._user:
            self._user = str((await self.collections.api.request("GET", "users/current"))["uuid"])
        return self._user

    async def _list_project(self, uuid: str) -> Listing:
        entries = _Names()
        if is_uuid(uuid, Infix.GROUP):
            record = await self.collections.api.get("groups", uuid)
            entries.names[PROJECT_RECORD] = Text(
                msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
            )
        kinds: tuple[list[Any], ...] = (
            [["uuid", "is_a", "arvados#group"], ["groups.group_class", "in", _PROJECTS]],
            [["uuid", "is_a", "arvados#collection"]],
        )
        for filters in kinds:
            async for page in self._pages(f"groups/{uuid}/contents", filters):
                for record in page:
                    entries.add(record, self.by_id(record["uuid"]))
        return entries.names

    async def _list_shared(self) -> Listing:
        entries = _Names()
        owners: dict[str, Record] = {}
        roots: list[Record] = []
        last: list[Any] = []
        while True:
            filters = [["group_class", "in", _PROJECTS], *last]
            answer = await self.collections.api.request(
                "GET",
                "groups/shared",
                params={
                    "filters": filters,
                    "order": "uuid",
                    "limit": _MOST,
                    "include": "owner_uuid",
                    "count": "none",
                },
            )
            if not answer["items"]:
                break
            # Pages by the last uuid: an offset would skip projects when one is unshared meanwhile.
            last = [["uuid", ">", answer["items"][-1]["uuid"]]]
            roots += answer["items"]
            owners |= {record["uuid"]: record for record in answer.get("included") or ()}
        for record in sorted(owners.values(), key=lambda owner: str(owner["uuid"])):
            full = " ".join(filter(None, (record.get("first_name"), record.get("last_name"))))
            name = record.get("name") or full or record.get("username") or record["uuid"]
            entries.add({**record, "name": name}, self.project(record["uuid"]))
        for record in roots:
            # Projects of a listed owner appear below that one.
            if record["owner_uuid"] not in owners:
                entries.add(record, self.project(record["uuid"]))
        return entries.names

    async def _list_tags(self) -> Listing:
        items = await self.collections.api.list(
            "links",
            filters=[["link_class", "=", "tag"]],
            select=["name"],
            distinct=True,
            limit=_MOST,
        )
        entries = _Names()
        for record in items:
            name = str(record.get("name") or "")
            if name not in self._tagged:
                self._tagged[name] = self._listed(lambda name=name: self._list_tag(name))
            entries.add(record, self._tagged[name])
        return entries.names

    async def _list_tag(self, name: str) -> Listing:
        nodes: dict[str, Node] = {}
        filters = [["link_class", "=", "tag"], ["name", "=", name]]
        async for page in self.collections.api.pages(
            "links", filters=filters, select=["uuid", "head_uuid"]
        ):
            for record in page:
                uuid = str(record["head_uuid"])
                if is_uuid(uuid, Infix.COLLECTION) or is_uuid(uuid, Infix.GROUP):
                    nodes[uuid] = self.by_id(uuid)
        return nodes

    async def _pages(self, path: str, filters: list[Any]) -> AsyncGenerator[Page]:
        try:
            async for page in self.collections.api.pages(path, filters=filters):
                yield page
        # A project that was found by an id may not be readable: then it does not exist for the
        # user.
        except Forbidden as error:
            raise NotFound(error.message) from error


class _Names:
    """Names of a directory, each valid in a file system and unique."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}

    def add(self, record: Record, node: Node) -> None:
        """Add the node under the name of its record; a record without a name is left out."""
        name = str(record.get("name") or "")
        if not name:
            return
        fit = _UNFIT.sub("_", name)
        uuid = str(record.get("uuid") or "")
        # These names mean something else in a directory of the mount.
        if fit in (".", "..") or fit.startswith(".arvados#"):
            fit = f"_{fit}"
        if fit in self.names and uuid:
            fit = f"{fit} ({uuid})"
        # Cut names could be equal: the uuid is unique.
        if len(fit.encode()) > _LONGEST:
            fit = uuid or fit.encode()[:_LONGEST].decode(errors="ignore")
        self.names[fit] = node
