"""Credentials of one user, read when a transfer needs one.

The records are listed with the rights of the user. Only those count that this user or an admin has
set: others can share a credential with the user, and it would lead the user's files to a server of
theirs. The secret of the one that fits is read by the server itself, which the trail of the API
notes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lading.client.api import ApiClient, Record
from lading.core.errors import Unavailable
from lading.core.quantities import format_time
from lading.core.tes.credentials import FoundCredential, find_credential
from lading.core.tes.locations import Location

_READ: Final = ("uuid", "credential_class", "scopes", "expires_at", "modified_by_user_uuid")
# Records of a page of the API.
_MOST: Final = 1000
Acting = Callable[[], AbstractAsyncContextManager[ApiClient]]
"""Opens the API in the name of the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableCredential:
    """A credential with its secret, and the scope that fits the URL."""

    matched: FoundCredential
    external_id: str
    secret: str

    def __repr__(self) -> str:
        return f"UsableCredential({self.matched.record['uuid']})"


class CredentialBook:
    """`root` is the API with the token of the system user, `acting` with the rights of the user
    with the uuid `user`.
    """

    def __init__(
        self, root: ApiClient, acting: Acting, *, user: str, clock: Callable[[], datetime]
    ) -> None:
        self._root = root
        self._user = user
        self._acting = acting
        self._clock = clock
        self._records: list[Record] | None = None
        self._secrets: dict[str, Record] = {}

    async def find(self, location: Location) -> UsableCredential | None:
        """The credential of a URL; None if the user has none for it. Raises Unavailable."""
        if self._records is None:
            self._records = await self._trusted()
        credential = find_credential(self._records, location, now=format_time(self._clock()))
        if credential is None:
            return None
        uuid = str(credential.record["uuid"])
        if uuid not in self._secrets:
            answer = await self._root.action("credentials", uuid, "secret", method="GET")
            if not isinstance(answer, dict):
                raise Unavailable("the API answered a secret in an unknown form")
            self._secrets[uuid] = answer
        secret = self._secrets[uuid]
        return UsableCredential(
            matched=credential,
            external_id=str(secret["external_id"]),
            secret=str(secret["secret"]),
        )

    async def _trusted(self) -> list[Record]:
        """The credentials that the user or an admin has set, and the user can read."""
        admins = await self._root.list(
            "users", filters=[["is_admin", "=", True]], select=["uuid"], limit=_MOST
        )
        trusted = [self._user, *(str(admin["uuid"]) for admin in admins)]
        # The server sorts out the others: somebody may share thousands.
        filters = [["modified_by_user_uuid", "in", trusted]]
        async with self._acting() as api:
            return await api.list("credentials", filters=filters, select=_READ, limit=_MOST)
