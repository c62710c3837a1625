"""Periodic maintenance of the block store beside a server: garbage collection and scrubbing.

`storage.json` in the data directory stores the time and result of the last runs and the position of
a scrub, so that a restart continues there. One process at a time does either (`storage.lock`).
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from lading.blobs.administration import describe_volumes
from lading.blobs.collector import Collector, CollectorResult, Look, References
from lading.blobs.scrubber import Damage, Findings, Scrubber
from lading.blobs.volume_set import VolumeSet
from lading.config.site import Config
from lading.core.errors import Conflict, Invalid
from lading.store.background_work import WorkLoop
from lading.wiring.directory import DataDirectory, write_private
from lading.wiring.stores import RecordedReferences, open_database
from lading.wiring.volumes import open_mounts

# Seconds after a start of the server before the first collection: frequent restarts must not start
# one each time.
_SETTLE: Final = 300.0
# Seconds between two writes of a scrub's position; at most so much is scrubbed again after a crash.
_SAVE: Final = 30.0
# Seconds before another attempt after a failure, such as another process doing the same.
_RETRY: Final = 600.0
# Number of messages and hashes kept in the file, which `lading admin` prints.
_KEPT: Final = 100
_logger = logging.getLogger("lading.upkeep")


@dataclass(slots=True, kw_only=True)
class Balance:
    """Result of the last garbage collection (times in Unix seconds)."""

    at: float = 0.0
    blocks: int = 0
    bytes: int = 0
    named: int = 0
    done: dict[str, int] | None = None
    left: int = 0
    failures: list[str] | None = None
    lost: list[str] | None = None
    lacking: int = 0


@dataclass(slots=True, kw_only=True)
class Scrub:
    """Position of the present scrub, and findings of the last ones."""

    began: float = 0.0
    ended: float = 0.0
    position: str = ""
    blocks: int = 0
    bytes: int = 0
    damaged: list[Damage] | None = None
    failures: list[str] | None = None


@dataclass(slots=True, kw_only=True)
class UpkeepState:
    """Contents of `storage.json`."""

    balance: Balance
    scrub: Scrub


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The volumes and the queries on collections."""

    directory: DataDirectory
    config: Config
    mounts: VolumeSet
    references: References

    def collector(self) -> Collector:
        """The garbage collector as configured."""
        settings = self.config.Collections
        return Collector(
            self.mounts,
            self.references,
            grace=settings.BlobSigningTTL,
            lifetime=settings.BlobTrashLifetime,
            may_trash=settings.BlobTrash,
            at_once=settings.BlobReplicateConcurrency,
            clock=time.time,
        )

    def scrubber(self, *, rate: int | None = None) -> Scrubber:
        """The scrubber as configured."""
        wanted = self.config.Collections.ScrubRate if rate is None else rate
        return Scrubber(self.mounts, self.references, rate=wanted, clock=time.monotonic)


@asynccontextmanager
async def open_storage(directory: DataDirectory) -> AsyncGenerator[Storage]:
    """The storage of a data directory, also while it is served. Raises Invalid when there is
    none.
    """
    if not (directory.root / "secrets.json").exists():
        raise Invalid(f"{directory.root}: no data here; name the directory with --data")
    config = directory.config(
        directory.secrets(), address=directory.served_address() or "localhost:1"
    )
    database = await open_database(config, directory)
    try:
        mounts = await open_mounts(config, directory)
        try:
            yield Storage(
                directory=directory,
                config=config,
                mounts=mounts,
                references=RecordedReferences(database, config),
            )
        finally:
            await mounts.aclose()
    finally:
        await database.close()


@contextmanager
def alone(directory: DataDirectory, work: str) -> Iterator[None]:
    """Hold the lock for the work `work` in this directory. Raises Conflict when another process
    does.
    """
    descriptor = os.open(
        directory.root / f"{work}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Conflict(
            f"{directory.root}: another {work} is at work; try again when it is done"
        ) from error
    # Closing the descriptor releases the lock.
    finally:
        os.close(descriptor)


def read_state(directory: DataDirectory) -> UpkeepState:
    """The stored state; an empty one when the file cannot be read."""
    try:
        return msgspec.json.decode(_path(directory).read_bytes(), type=UpkeepState)
    # The state is a cache of results: without it the next run starts from the beginning.
    except (OSError, msgspec.DecodeError):
        return UpkeepState(balance=Balance(), scrub=Scrub())


async def describe_storage(storage: Storage) -> dict[str, Any]:
    """The volumes, and what the last garbage collection and the last scrub found."""
    state = await asyncio.to_thread(read_state, storage.directory)
    settings = storage.config.Collections
    return {
        "volumes": await describe_volumes(storage.mounts),
        "balance": {**msgspec.to_builtins(state.balance), "period": settings.BalancePeriod},
        "scrub": {**msgspec.to_builtins(state.scrub), "period": settings.ScrubPeriod},
    }


def write_balance(directory: DataDirectory, look: Look, outcome: CollectorResult) -> None:
    """Store the result of a garbage collection."""
    with _changing(directory):
        _keep_balance(directory, look, outcome)


def _keep_balance(directory: DataDirectory, look: Look, outcome: CollectorResult) -> None:
    state = read_state(directory)
    state.balance = Balance(
        at=look.began,
        blocks=look.blocks,
        bytes=look.bytes,
        named=look.named,
        done=dict(outcome.done),
        left=outcome.left,
        failures=outcome.failures[:_KEPT],
        lost=list(look.plan.lost[:_KEPT]),
        lacking=len(look.plan.lacking),
    )
    _write(directory, state)


def write_scrub(
    directory: DataDirectory,
    findings: Findings,
    *,
    began: float,
    ended: float,
    before: Scrub | None = None,
) -> None:
    """Store the position of a scrub; `before` is the state at its continuation."""
    with _changing(directory):
        state, before = read_state(directory), before or Scrub()
        state.scrub = Scrub(
            began=began,
            ended=ended,
            position="" if ended else findings.position,
            blocks=before.blocks + findings.blocks,
            bytes=before.bytes + findings.bytes,
            damaged=[*(before.damaged or ()), *findings.damaged][-_KEPT:],
            failures=findings.failures[:_KEPT],
        )
        _write(directory, state)


async def keep_up(
    storage: Storage, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Collect garbage and scrub at their periods, until cancelled."""
    settings = storage.config.Collections
    balancing, scrubbing = settings.BalancePeriod, settings.ScrubPeriod

    def balance_due(state: UpkeepState) -> float:
        return state.balance.at + balancing

    def scrub_due(state: UpkeepState) -> float:
        # An interrupted scrub continues without waiting for its next period.
        return 0.0 if state.scrub.position else state.scrub.began + scrubbing

    async with asyncio.TaskGroup() as tasks:
        for period, work, due, failure in (
            (balancing, balance, balance_due, "not balanced"),
            (scrubbing, scrub, scrub_due, "not scrubbed"),
        ):
            if period > 0:
                doing = _repeat(storage, work, due, period=period, failure=failure, sleep=sleep)
                tasks.create_task(doing, name=work.__name__)


async def balance(storage: Storage) -> CollectorResult:
    """Run one garbage collection. Raises Conflict, Unavailable, Invalid."""
    with alone(storage.directory, "gc"):
        collector = storage.collector()
        look = await collector.look(progress=lambda *_: None)
        outcome = await collector.carry_out(look, progress=lambda *_: None)
        await asyncio.to_thread(write_balance, storage.directory, look, outcome)
    return outcome


async def scrub(storage: Storage, *, save_period: float = _SAVE) -> Findings:
    """Run one scrub, or the rest of an interrupted one; its state is saved each `save_period`
    seconds. Raises Conflict, Unavailable.
    """
    with alone(storage.directory, "scrub"):
        before = (await asyncio.to_thread(read_state, storage.directory)).scrub
        is_new = not before.position
        began = time.time() if is_new else before.began
        before = Scrub() if is_new else before
        saved = time.monotonic()

        async def save(findings: Findings, ended: float) -> None:
            await asyncio.to_thread(
                write_scrub, storage.directory, findings, began=began, ended=ended, before=before
            )

        async def save_now_and_then(findings: Findings) -> None:
            nonlocal saved
            # Parts of blocks are not saved: the scrub continues after the last whole block.
            if time.monotonic() - saved > save_period:
                saved = time.monotonic()
                await save(findings, 0.0)

        findings = await storage.scrubber().run(after=before.position, progress=save_now_and_then)
        await save(findings, time.time())
    return findings


async def _repeat(
    storage: Storage,
    work: Callable[[Storage], Awaitable[object]],
    due: Callable[[UpkeepState], float],
    *,
    period: float,
    failure: str,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Do a work when it is due, in Unix seconds by what is stored, until cancelled."""

    async def step() -> None:
        state = await asyncio.to_thread(read_state, storage.directory)
        # Not before _SETTLE after the start, also where restarts are frequent.
        await sleep(max(min(_SETTLE, period), due(state) - time.time()))
        await work(storage)

    loop = WorkLoop(_logger, failure, fault_pause=min(_RETRY, period), sleep=sleep)
    await loop.run(step)


@contextmanager
def _changing(directory: DataDirectory) -> Iterator[None]:
    """Lock `storage.json` for one change: a collection and a scrub may end at the same time."""
    with (directory.root / "storage.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _path(directory: DataDirectory) -> Path:
    return directory.root / "storage.json"


def _write(directory: DataDirectory, state: UpkeepState) -> None:
    write_private(_path(directory), msgspec.json.format(msgspec.json.encode(state)))
