"""The clock of a server, and the uuids and secrets that it makes."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Final

from lading.core import ids
from lading.core.policy.device_logins import digest_of
from lading.core.quantities import format_time

# Secrets of tokens that are kept in memory.
_SECRETS: Final = 256


class ApiClock:
    """The time. `read` gives it with its zone."""

    __slots__ = ("time",)

    def __init__(self, read: Callable[[], datetime]) -> None:
        self.time = read

    def now(self) -> str:
        """The time as the API shows it."""
        return format_time(self.time())


class Identifiers:
    """Makes uuids and secrets. `entropy(n)` gives n random bytes; from `root_token`, the secret of
    the installation, follow the secrets that are made again rather than stored.
    """

    def __init__(
        self, clock: ApiClock, entropy: Callable[[int], bytes], *, cluster: str, root_token: str
    ) -> None:
        self.entropy = entropy
        self.system_user = ids.system_user(cluster)
        """The system user's uuid."""
        self._clock = clock
        self._cluster = cluster
        # Kept for a while: lock and end of a container ask for them several times.
        self.container_secret = lru_cache(_SECRETS)(self._container_secret)
        """The secret of a token that the server made for a container, from the token's uuid. It is
        derived, so that it can be returned again without being stored.
        """
        self._container_key = hashlib.sha256(b"container tokens:" + root_token.encode()).digest()

    def new_uuid(self, infix: str) -> str:
        """A fresh uuid."""
        return ids.make_ordered_uuid(
            self._cluster, infix, self.entropy(6), milliseconds=self._milliseconds()
        )

    def new_uuids(self, infix: str, count: int) -> list[str]:
        """Fresh uuids, made together."""
        milliseconds = self._milliseconds()
        uuids: list[str] = []
        while len(uuids) < count:
            some = min(count - len(uuids), ids.MOST_TOGETHER)
            uuids += ids.make_ordered_uuids(
                self._cluster, infix, self.entropy(6), some, milliseconds=milliseconds
            )
        return uuids

    def new_secret(self) -> str:
        """A fresh token secret, 50 characters."""
        return ids.encode(self.entropy(40), 50)

    def _container_secret(self, token_uuid: str) -> str:
        return ids.encode(
            hmac.digest(self._container_key, token_uuid.encode(), "sha256")
            + hmac.digest(self._container_key, token_uuid[::-1].encode(), "sha256"),
            50,
        )

    def _milliseconds(self) -> int:
        return int(self._clock.time().timestamp() * 1000)


def hash_secret(secret: str) -> str:
    """The form in which a secret is stored: its SHA-256, in hex."""
    return digest_of(secret)
