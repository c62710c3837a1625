"""What every handler is given: the database, the clock and the other parts of the server, made once by `make_app`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from lading.api.alarm import Alarm
from lading.api.bus import Bus
from lading.api.gitcache import GitCache
from lading.api.live import Spool
from lading.config import Config
from lading.core import ids
from lading.core.errors import Failure, Invalid
from lading.core.policy import RETRY_LIMITS, Policy
from lading.core.timestamps import format_time
from lading.core.vocabulary import Vocabulary
from lading.store.database import Database


class BlockReader(Protocol):
    """How the API reads the blocks of a saved log."""

    async def get(self, locator: str, /) -> bytes:
        """The bytes of a block, verified. Raises NotFound, Corrupt or Unavailable."""
        ...


class Statuses:
    """Why containers wait, as the dispatchers last said it. Kept in memory: they say it again."""

    def __init__(self) -> None:
        self._sentences: dict[str, str] = {}

    def put(self, container_uuid: str, sentence: str) -> None:
        """Remember a sentence; an empty one is forgotten."""
        if sentence:
            self._sentences[container_uuid] = sentence
        else:
            self._sentences.pop(container_uuid, None)

    def get(self, container_uuid: str) -> str | None:
        """The sentence, if a dispatcher gave one."""
        return self._sentences.get(container_uuid)


class Upkeep:
    """What the sweep has to know.

    When and from where tokens were last used, until it is written down: a read costs no write. Up to which number the
    trail has been shortened since this process started: what was kept there is not looked at again.
    """

    def __init__(self) -> None:
        self.shortened_to = 0
        self._seen: dict[str, tuple[str, str]] = {}

    def note(self, token_uuid: str, now: str, address: str) -> None:
        """A token was used."""
        self._seen[token_uuid] = (now, address)

    def take(self) -> dict[str, tuple[str, str]]:
        """{token uuid: (when, from which address)} since this was last asked."""
        taken, self._seen = self._seen, {}
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of one server. `entropy(n)` gives n random bytes."""

    database: Database
    config: Config
    policy: Policy
    clock: Callable[[], datetime]
    entropy: Callable[[int], bytes]
    blocks: BlockReader
    bus: Bus
    spool: Spool
    statuses: Statuses
    git: GitCache
    alarm: Alarm = field(default_factory=Alarm)
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    upkeep: Upkeep = field(default_factory=Upkeep)

    def now(self) -> str:
        """The time as the API shows it."""
        return format_time(self.clock())

    def new_uuid(self, infix: str) -> str:
        """A fresh uuid."""
        return ids.make_uuid(self.config.ClusterID, infix, self.entropy(16))

    def new_secret(self) -> str:
        """A fresh token secret, 50 characters."""
        return ids.encode(self.entropy(40), 50)

    def container_secret(self, token_uuid: str) -> str:
        """The secret of a token that the server made for a container: it can be told again, yet is not stored."""
        key = hashlib.sha256(b"container tokens:" + self.config.SystemRootToken.encode()).digest()
        return ids.encode(
            hmac.digest(key, token_uuid.encode(), "sha256") + hmac.digest(key, token_uuid[::-1].encode(), "sha256"), 50
        )

    @property
    def system_user(self) -> str:
        """The system user's uuid."""
        return ids.system_user(self.config.ClusterID)


def make_policy(config: Config) -> Policy:
    """The configured facts that `core` decides with."""
    classes = config.StorageClasses
    return Policy(
        max_dispatch_attempts=config.Containers.MaxDispatchAttempts,
        max_retry_attempts=config.Containers.MaxRetryAttempts,
        default_keep_cache_ram=config.Containers.DefaultKeepCacheRAM,
        storage_classes=tuple(classes),
        default_storage_classes=tuple(name for name, one in classes.items() if one.get("Default")),
        image_formats=tuple(config.Containers.SupportedDockerImageFormats),
        retry_limits={**RETRY_LIMITS, **_retry_limits(config.Containers.RetryLimits)},
    )


def _retry_limits(configured: Mapping[str, int]) -> dict[Failure, int]:
    unknown = sorted(configured.keys() - set(Failure))
    if unknown:
        raise Invalid(f"configuration: Containers.RetryLimits.{unknown[0]}: must be one of {', '.join(Failure)}")
    return {Failure(name): limit for name, limit in configured.items()}


def hash_secret(secret: str) -> str:
    """How a secret is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()
