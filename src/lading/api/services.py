"""The parts of one server that every handler gets: database, clock, caches, timers.

They are made once, by `app.make_app`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

from lading.api.container_access.log_spool import Spool
from lading.api.container_access.supervisor_registry import Supervisors, Tunnels
from lading.api.events.event_bus import EventBus
from lading.api.logins.provider_client import OpenIdClient
from lading.api.machine_board import KnownCapacity, MachineBoard
from lading.api.metrics import ServerMetrics
from lading.api.mounts.git_cache import GitCache
from lading.api.mounts.tree_cache import KnownContents, Trees
from lading.api.wait_statuses import Statuses, WorkInterval
from lading.api.webhooks.receivers import WebhookSender
from lading.concurrency import cancel_all, wait_at_most
from lading.config import Config
from lading.core import ids
from lading.core.containers import sessions
from lading.core.containers.constraints import RETRY_LIMITS, Learning, Policy
from lading.core.containers.container import Container
from lading.core.containers.disk_space import ScratchLimits
from lading.core.containers.retry_rules import read_rules
from lading.core.errors import Failure, Invalid, LadingError, Unavailable
from lading.core.policy.fair_share import BY_PROJECT, BY_USER, read_weight
from lading.core.quantities import format_time
from lading.core.records.access import Principal
from lading.core.records.collection_rules import Lifetimes, times
from lading.core.records.schema import Record
from lading.core.records.vocabulary import Vocabulary
from lading.core.values import printable
from lading.net.name_lookup import NameLookup
from lading.net.pipes import Turns
from lading.store.database import Database
from lading.telemetry import event

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


class ReadinessChecks:
    """Whether the parts of the site answer that this server needs: asked without a token, so that
    nothing secret is told, and however often, each part is asked once at a time.

    `patience`: seconds for an answer. An answer counts for `fresh` seconds. The words of an error
    go to the server's log, when they change.
    """

    def __init__(self, *, patience: float = 3.0, fresh: float = 1.0) -> None:
        self.patience, self._fresh = patience, fresh
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._due: dict[str, float] = {}
        self._told: dict[str, str] = {}

    async def faults(
        self, parts: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
    ) -> list[str]:
        """A sentence about each part that does not answer; a look raises a LadingError then."""
        found = await asyncio.gather(*(self._fault(*one) for one in parts.items()))
        return [one for one in found if one]

    async def close(self) -> None:
        """Cancel looks that are under way."""
        await cancel_all(*self._looks.values())

    async def _fault(self, part: str, look: Callable[[], Coroutine[Any, Any, None]]) -> str:
        loop = asyncio.get_running_loop()
        task = self._looks.get(part)
        # A look that hangs goes on: a further one would hang as well.
        if task is None or (task.done() and loop.time() >= self._due[part]):
            task = self._looks[part] = loop.create_task(look(), name=f"look at {part}")
            self._due[part] = loop.time() + self._fresh
        await asyncio.wait({task}, timeout=self.patience)
        if not task.done():
            return self._note(part, f"{part} does not answer within {self.patience:g} s", "")
        if task.cancelled():
            return f"{part} is not asked any more: the server ends"
        match task.exception():
            case None:
                return self._note(part, "", "")
            case Unavailable() as error:
                return self._note(part, f"{part} cannot be reached", error.message)
            case LadingError() as error:
                return self._note(part, f"{part} is not in order", error.message)
            case error:
                raise error

    def _note(self, part: str, sentence: str, fault: str) -> str:
        if self._told.get(part, "") != sentence:
            self._told[part] = sentence
            name = "not ready" if sentence else "ready again"
            event(_logger, name, part=part, why=sentence, fault=fault)
        return sentence


class Upkeep:
    """State of the sweep.

    When and from which address each token was last used, until the sweep stores it, so that a read
    costs no write. The containers that have lost their dispatcher. The number of the log row up to
    which old rows have been deleted since this process started: rows that were kept there are not
    looked at again.
    """

    def __init__(self) -> None:
        self.shortened_to = 0
        self.orphans: dict[str, str] = {}
        """Containers whose dispatcher's token has ended, with the time since when this is known."""
        self._seen: dict[str, tuple[str, str]] = {}

    def note(self, token_uuid: str, now: str, address: str) -> None:
        """Note the use of a token."""
        self._seen[token_uuid] = (now, address)

    def uses(self, token_uuids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """{token uuid: (time, address)} of uses that are not stored yet, of these tokens."""
        return {uuid: self._seen[uuid] for uuid in token_uuids if uuid in self._seen}

    def take(self) -> dict[str, tuple[str, str]]:
        """{token uuid: (time, address)} of the uses since the last call."""
        taken, self._seen = self._seen, {}
        return taken


class Wakeups:
    """Wakes the two tasks of `events.timers`, and those of `request_cancellation` and `cascades`. A
    wake-up that no task waits for yet is remembered.
    """

    def __init__(self) -> None:
        self._moment = asyncio.Event()
        self._sought = asyncio.Event()
        self._cancelled = asyncio.Event()
        self._cascade = asyncio.Event()

    def wake(self) -> None:
        """Wake the timers: a time that is nearer may have been set."""
        self._moment.set()

    def seek(self) -> None:
        """Wake the search for containers: a request waits for a git repository."""
        self._sought.set()

    def cancel(self) -> None:
        """Wake the cancellation of many requests: there is a new one."""
        self._cancelled.set()

    def cascade(self) -> None:
        """Wake the work on cascades: there is a new one."""
        self._cascade.set()

    async def until_cascade(self, seconds: float) -> None:
        """Wait for `cascade`, for at most `seconds`."""
        await wait_at_most(self._cascade, seconds)
        self._cascade.clear()

    async def until_moment(self, seconds: float) -> None:
        """Wait for `wake`, for at most `seconds`."""
        await wait_at_most(self._moment, seconds)
        self._moment.clear()

    async def until_sought(self, seconds: float) -> None:
        """Wait for `seek`, for at most `seconds`."""
        await wait_at_most(self._sought, seconds)
        self._sought.clear()

    async def until_cancelled(self, seconds: float) -> None:
        """Wait for `cancel`, for at most `seconds`."""
        await wait_at_most(self._cancelled, seconds)
        self._cancelled.clear()


class EntranceChecks:
    """Checks of callers inside containers: whether they may still be there."""

    def __init__(self) -> None:
        self.interval = 30.0
        """Seconds between two checks of one caller."""


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


def make_policy(config: Config) -> Policy:
    """The configured facts that `core` decides with."""
    check_fair_share(config)
    classes = config.StorageClasses
    return Policy(
        max_dispatch_attempts=config.Containers.MaxDispatchAttempts,
        max_retry_attempts=config.Containers.MaxRetryAttempts,
        default_keep_cache_ram=config.Containers.DefaultKeepCacheRAM,
        storage_classes=tuple(classes),
        default_storage_classes=tuple(name for name, one in classes.items() if one.get("Default")),
        image_formats=tuple(config.Containers.SupportedDockerImageFormats),
        output_retention=config.Containers.OutputRetention,
        reuse_after_shell=config.Containers.ShellAccess.ReuseAfterShell,
        preemptible=has_preemptible(config),
        always_preemptible=has_preemptible(config)
        and config.Containers.AlwaysUsePreemptibleInstances,
        spot_attempts=config.Containers.CloudVMs.SpotAttempts,
        retry_limits={**RETRY_LIMITS, **_retry_limits(config.Containers.RetryLimits)},
        retry_rules=read_rules("configuration: Containers.Retry", {**config.Containers.Retry}),
        scratch=ScratchLimits(
            mount=config.Containers.DefaultTmpCapacity,
            beside=config.Containers.ScratchBesideMounts,
            files=config.Containers.ScratchFiles,
        ),
        learning=_learning(config.Containers.LearnResources),
    )


def check_fair_share(config: Config) -> None:
    """Check the configuration of fair share. Raises Invalid."""
    settings, where = config.Containers.FairShare, "configuration: Containers.FairShare"
    if settings.By not in (BY_PROJECT, BY_USER):
        raise Invalid(f"{where}.By: {printable(settings.By)}: must be {BY_PROJECT} or {BY_USER}")
    if settings.HalfLife <= 0:
        raise Invalid(f"{where}.HalfLife: must be above 0")
    for uuid, weight in settings.Weights.items():
        read_weight(f"{where}.Weights.{printable(uuid)}", weight)


def has_preemptible(config: Config) -> bool:
    """Whether requests may ask for preemptible machines."""
    types = config.InstanceTypes.values()
    return (
        any(one.Preemptible for one in types)
        or (bool(types) and config.Containers.PreemptiblePriceFactor > 0)
        or bool(config.Containers.PreemptiblePartitions)
    )


def _retry_limits(configured: Mapping[str, int]) -> dict[Failure, int]:
    unknown = sorted(configured.keys() - set(Failure))
    if unknown:
        raise Invalid(
            f"configuration: Containers.RetryLimits.{unknown[0]}: "
            f"must be one of {', '.join(Failure)}"
        )
    return {Failure(name): limit for name, limit in configured.items()}


def _learning(configured: str) -> Learning:
    if configured not in tuple(Learning):
        raise Invalid(
            f"configuration: Containers.LearnResources: {printable(configured)}: "
            f"must be one of {', '.join(Learning)}"
        )
    return Learning(configured)


def hash_secret(secret: str) -> str:
    """The form in which a secret is stored: its SHA-256, in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()
