"""The parts of one server that every handler gets: database, clock, caches, timers.

They are made once, by `app.make_app`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from lading.api.container_access.log_spool import Spool
from lading.api.container_access.supervisor_registry import Supervisors, Tunnels
from lading.api.events.event_bus import EventBus
from lading.api.logins.provider_client import OpenIdClient
from lading.api.machine_board import KnownCapacity, MachineBoard
from lading.api.metrics import ServerMetrics
from lading.api.mounts.git_cache import GitCache
from lading.api.mounts.tree_cache import KnownContents, Trees
from lading.api.state.readiness import ReadinessChecks
from lading.api.state.upkeep import EntranceChecks, Upkeep
from lading.api.state.wakeups import Wakeups
from lading.api.wait_statuses import Statuses, WorkInterval
from lading.api.webhooks.receivers import WebhookSender
from lading.config.site import Config
from lading.core import ids
from lading.core.containers import sessions
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container
from lading.core.quantities import format_time
from lading.core.records.access import Principal
from lading.core.records.collection_rules import Lifetimes, times
from lading.core.records.schema import Record
from lading.core.records.vocabulary import Vocabulary
from lading.net.name_lookup import NameLookup
from lading.net.pipes import Turns
from lading.store.database import Database

_logger = logging.getLogger("lading.api")


class Blocks(Protocol):
    """Access of the API to blocks: it reads saved logs and stores the content of calls."""

    async def get(self, locator: str, /) -> bytes:
        """The bytes of a block, verified. Raises NotFound, Corrupt or Unavailable."""

    async def keep(self, data: bytes, /, classes: Sequence[str] = ()) -> str:
        """Keep a block, durably, in storage classes (none: the default ones) as far as the site
        has them; its locator without signature. Raises Full, Unavailable.
        """

    async def classes(self, locators: Iterable[str], desired: Sequence[str], /) -> list[str]:
        """The desired storage classes in which every block is known to be kept."""

    async def check(self) -> None:
        """Ask whether a volume answers. Raises Unavailable, Corrupt where none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """The parts of one server. `entropy(n)` gives n random bytes."""

    database: Database
    config: Config
    policy: Policy
    clock: Callable[[], datetime]
    entropy: Callable[[int], bytes]
    blocks: Blocks
    bus: EventBus
    spool: Spool
    statuses: Statuses
    machines: MachineBoard
    git: GitCache
    webhook_sender: WebhookSender
    certificate: Path | None = None
    """The certificate of this server and of those that share its database (PEM); None: one that the
    machine trusts.
    """
    provider: OpenIdClient | None = None
    """The provider of OpenID Connect at which people log in; None where there is none."""
    accept_token: Callable[[ApiServices, str], Awaitable[bool]] | None = None
    """Makes an access token of the provider a token of this server, and says whether it did; None
    where none is accepted.
    """
    storage: Callable[[], Awaitable[Record]] | None = None
    """Describes the volumes and what maintenance found; None where that is not known."""
    wakeups: Wakeups = field(default_factory=Wakeups)
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    readiness: ReadinessChecks = field(default_factory=ReadinessChecks)
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    upkeep: Upkeep = field(default_factory=Upkeep)
    expectations: WorkInterval = field(default_factory=WorkInterval)
    """Between two readings of the queue for expected starts."""
    trees: Trees = field(default_factory=Trees)
    capacity: KnownCapacity = field(default_factory=KnownCapacity)
    contents: KnownContents = field(default_factory=KnownContents)
    tunnels: Tunnels = field(default_factory=Tunnels)
    supervisors: Supervisors = field(default_factory=Supervisors)
    entrance_checks: EntranceChecks = field(default_factory=EntranceChecks)
    turns: Turns = field(default_factory=Turns)
    """Shares the event loop between the bytes of all sessions and the calls."""
    webhook_tests: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    """Tests of webhooks that go on at a time."""
    webhook_testers: set[str] = field(default_factory=set)
    """Users of these tests: each has one at a time, whatever its receiver does."""
    name_lookup: NameLookup = field(default_factory=NameLookup)
    lines: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Locks for changes of the files of one collection, by its uuid."""

    def now(self) -> str:
        """The time as the API shows it."""
        return format_time(self.clock())

    def check_disk(self, caller: Principal, method: str, size: int) -> None:
        """Check that the disk has room for a write of an ordinary user with a body of `size`
        bytes. Raises Full.
        """
        keeps_going = caller.is_admin or caller.is_dispatcher or caller.supervises is not None
        # DELETE frees space.
        if method in ("POST", "PUT", "PATCH") and not keeps_going:
            self.spool.check_records(size)

    def trash_times(self, old: Record, given: Record) -> Record:
        """`trash_at`, `delete_at` and `is_trashed` after a write; empty if the write names none of
        them. Raises Invalid.
        """
        settings = self.config.Collections
        lifetimes = Lifetimes(usual=settings.DefaultTrashLifetime, least=settings.BlobSigningTTL)
        return times(old, given, now=self.now(), lifetimes=lifetimes)

    def new_uuid(self, infix: str) -> str:
        """A fresh uuid."""
        milliseconds = int(self.clock().timestamp() * 1000)
        return ids.make_ordered_uuid(
            self.config.ClusterID, infix, self.entropy(6), milliseconds=milliseconds
        )

    def new_uuids(self, infix: str, count: int) -> list[str]:
        """Fresh uuids, made together."""
        milliseconds = int(self.clock().timestamp() * 1000)
        found: list[str] = []
        while len(found) < count:
            some = min(count - len(found), ids.MOST_TOGETHER)
            found += ids.make_ordered_uuids(
                self.config.ClusterID, infix, self.entropy(6), some, milliseconds=milliseconds
            )
        return found

    def new_secret(self) -> str:
        """A fresh token secret, 50 characters."""
        return ids.encode(self.entropy(40), 50)

    def container_secret(self, token_uuid: str) -> str:
        """The secret of a token that the server made for a container. It is derived, so that it can
        be returned again without being stored.
        """
        key = _container_key(self.config.SystemRootToken)
        return ids.encode(
            hmac.digest(key, token_uuid.encode(), "sha256")
            + hmac.digest(key, token_uuid[::-1].encode(), "sha256"),
            50,
        )

    def gateway_key(self, container_uuid: str) -> str:
        """The key that the servers share with the gateway of a container."""
        return sessions.container_key(self.config.SystemRootToken, container_uuid)

    def gateway_keys(self, container: Container) -> tuple[str, ...]:
        """The keys that the gateway of a container may share with the servers, the most likely one
        first.
        """
        known = self.supervisors.find(container)
        own = (known.key,) if known is not None and known.key else ()
        return tuple(dict.fromkeys((*own, self.gateway_key(container.uuid))))

    @property
    def forward_key(self) -> bytes:
        """The key with which servers of one installation sign the calls that they forward to each
        other.
        """
        return hashlib.sha256(b"forwarded calls:" + self.config.SystemRootToken.encode()).digest()

    @property
    def gateway_hosts(self) -> tuple[str, ...]:
        """Networks and hosts of gateways, beside the addresses of their supervisors."""
        containers = self.config.Containers
        host = containers.GatewayAddress.rpartition(":")[0].strip("[]")
        return (*containers.GatewayHosts, *((host,) if host else ()))

    @property
    def shell_access(self) -> tuple[bool, bool]:
        """Whether admins, and whether users, may open sessions in containers."""
        access = self.config.Containers.ShellAccess
        return access.Admin, access.User

    @property
    def system_user(self) -> str:
        """The system user's uuid."""
        return ids.system_user(self.config.ClusterID)


# One key for each installation; tests have several in one process.
@lru_cache(4)
def _container_key(root_token: str) -> bytes:
    """The key from which the secrets of containers' tokens are derived."""
    return hashlib.sha256(b"container tokens:" + root_token.encode()).digest()


def hash_secret(secret: str) -> str:
    """The form in which a secret is stored: its SHA-256, in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()
