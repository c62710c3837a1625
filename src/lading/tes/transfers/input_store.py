"""Fetched objects as collections of the system user, one for each state of an object.

The name of a collection is the digest of the object's URL and validator, and only the system user
makes collections of its own. A user whose request to the object's server succeeded gets a
permission link to the collection. Collections that were not used for a while are trashed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.files.collections import CollectionWriter
from lading.core.errors import Conflict, Invalid
from lading.core.quantities import format_time, later

_NAME: Final = "input "


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStore:
    """`api` is a client with the system user's token, `lifetime` the seconds for which an unused
    object is kept.
    """

    api: ApiClient
    system_user: str
    lifetime: float
    clock: Callable[[], datetime]

    async def find(self, key: str, user: str) -> str | None:
        """The portable data hash of an object that is stored; None if it is not. Lets the user read
        it.
        """
        collections = await self.api.list(
            "collections",
            filters=[["owner_uuid", "=", self.system_user], ["name", "=", _NAME + key]],
            select=["uuid", "portable_data_hash", "trash_at"],
            limit=1,
        )
        if not collections:
            return None
        record = collections[0]
        now = format_time(self.clock())
        if (record["trash_at"] or "9") < later(now, self.lifetime / 2):
            changes = {"trash_at": later(now, self.lifetime)}
            await self.api.update("collections", record["uuid"], changes)
        await self._let_read(record, user)
        return str(record["portable_data_hash"])

    async def save(self, key: str, address: str, writer: CollectionWriter, user: str) -> str:
        """Store an object under a key; its portable data hash. `address` is shown to people."""
        attributes = {
            "name": _NAME + key,
            "description": f"Fetched from {address}",
            "properties": {"tes.fetched": address},
            "manifest_text": await writer.finish(),
            "trash_at": later(format_time(self.clock()), self.lifetime),
        }
        try:
            record = await self.api.create(
                "collections", attributes, select=["uuid", "portable_data_hash"]
            )
        except (Conflict, Invalid):
            # Another task brought it at the same time, and the name is taken.
            known = await self.find(key, user)
            if known is None:
                raise
            return known
        await self._let_read(record, user)
        return str(record["portable_data_hash"])

    async def _let_read(self, record: Record, user: str) -> None:
        link = {
            "link_class": "permission",
            "name": "can_read",
            "tail_uuid": user,
            "head_uuid": record["uuid"],
        }
        filters = [[name, "=", value] for name, value in link.items()]
        if user != self.system_user and not await self.api.list("links", filters=filters, limit=1):
            await self.api.create("links", link)
