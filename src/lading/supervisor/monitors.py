"""Concurrent tasks beside the command: live log, samples, saving of the log, preemption, disk.

Only the end of the mount and a full disk end the command; the end of the command ends all of them.
The log is saved on request (USR1), before a preemption, and periodically: after half an hour, or
when at least 32 MiB and as many bytes as saved before have been added (docs/spec/containers,
section Log).

The live view posts the growth of the log files while the container runs (API:
containers/{uuid}/live). The first post is made 200 ms after the start, so a shorter container costs
none. Then each file that has grown is posted every update period, or at once after a certain
amount; at most 4 MiB of each file in a period. When the server cannot accept a post, the next
period tries again; the saved log does not depend on it. Another server, or one that has lost its
data directory, lacks what was posted before: then it is asked for the length of each file, and is
posted the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lading.client.api import ApiClient
from lading.core.errors import (
    Conflict,
    LadingError,
    RequestError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lading.process.concurrency import finish_within
from lading.supervisor.capture import save_log
from lading.supervisor.engines import Engine
from lading.supervisor.inputs.keep_mount import KeepMount
from lading.supervisor.limits.disk_limits import DiskWatch
from lading.supervisor.limits.usage_samples import UsageSampler
from lading.supervisor.logs import LIVE, Log
from lading.supervisor.machine import Costing, mount_table
from lading.supervisor.preemption import (
    PREEMPTION_SOURCES,
    Notice,
    open_preemption_source,
    watch_preemption,
)
from lading.supervisor.rootless import entered
from lading.supervisor.session import SupervisorSession
from lading.supervisor.supervisor_config import SupervisorConfig

# Few containers have GPUs.
if TYPE_CHECKING:
    from lading.supervisor.limits.gpu_samples import GpuSampler

# Seconds and bytes.
SAVE_PERIOD = 1800.0
# As many bytes as before must be new as well, so that all saves together store at most twice the
# log.
SAVE_SIZE = 32 << 20
_logger = logging.getLogger("lading.supervisor")
# Seconds.
FIRST_POST = 0.2
# Bytes of one post.
_LARGEST_POST = 1 << 20
# Posts of one file in a period.
_PIECES = 4
# Seconds for one call.
_TIMEOUT = 30.0


@dataclass(slots=True, kw_only=True)
class Monitors:
    """The tasks beside the command of one container."""

    assignment: SupervisorConfig
    session: SupervisorSession
    log: Log
    costing: Costing
    ram: int
    flush: asyncio.Event
    """Set to have the log saved now."""
    reprice: asyncio.Event
    """Set when new prices were written."""
    on_lost: Callable[[], None]
    keep: KeepMount | None = None
    """The mount of its inputs."""
    on_unmounted: Callable[[], None] | None = None
    disk: DiskWatch | None = None
    on_full: Callable[[str], Coroutine[Any, Any, None]] | None = None
    """Called with the reason when the container uses more of the disk than it may."""
    gateway: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Opens the gateway of a container that has none yet, once it has run for a moment."""
    is_resumed: bool = False
    """An earlier supervisor has watched over the command, and posted a part of the live log."""
    gpus: GpuSampler | None = None
    """Samples the GPUs of the container."""
    notice: Notice | None = None
    """The latest notice of preemption."""
    usage: UsageSampler = field(init=False)
    _saved: int = 0

    def __post_init__(self) -> None:
        self.usage = UsageSampler(
            self.log, Path(self.assignment.run_directory), self.ram, time.monotonic
        )

    @property
    def used(self) -> dict[str, float]:
        """Totals of the command's resource use, after its end; empty if unknown."""
        # For a container on several machines, only the processes on this machine are counted.
        if self.session.container.nodes > 1:
            return {}
        return {**self.usage.used, **(self.gpus.used if self.gpus is not None else {})}

    @asynccontextmanager
    async def beside(self, engine: Engine) -> AsyncGenerator[None]:
        """Run all tasks inside the context; afterwards totals and maxima are in the log."""
        inside = entered()
        # Without a control group of its own, a container of an ordinary user is sampled at once.
        has_group = inside is None or inside.hierarchy is not None
        config, mounts = self.assignment, mount_table() if has_group else ""
        # At once: a command may last only some milliseconds.
        self.usage.look_at(engine.pid, mounts=mounts)
        live = LiveView(
            self.session.once,
            config.container_uuid,
            self.log,
            on_lost=self.on_lost,
            reconnected=self.session.reconnected,
            is_resumed=self.is_resumed,
        )
        works = [
            live.run(period=config.log_update_period, size=config.log_update_size),
            self.usage.run(lambda: engine.pid, interval=config.usage_interval, mounts=mounts),
            self._save_when_asked(),
            self._reprice_when_told(),
        ]
        if self.gpus is not None:
            works.append(self.gpus.run(interval=config.usage_interval))
        if self.keep is not None and self.keep.is_open and self.on_unmounted is not None:
            works.append(_call_after(self.keep.ended(), self.on_unmounted))
        if self.disk is not None and self.on_full is not None:
            works.append(_call_with(self.disk.run_until_full(), self.on_full))
        if self.gateway is not None:
            works.append(self._open_gateway(self.gateway))
        if config.preemption in PREEMPTION_SOURCES:
            works.append(self._watch_for_preemption())
        tasks = [asyncio.create_task(self._guarded(work)) for work in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            # The tasks log their own failures (_guarded); errors of the cancellation itself are
            # ignored.
            await asyncio.gather(*tasks, return_exceptions=True)
            self.usage.finish()
            if self.gpus is not None and (sentences := self.gpus.summary()):
                self.log.say("\n".join(sentences))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        # A failure of one task must not end the command or the other tasks.
        except Exception:
            _logger.exception("container=%s a monitor failed", self.assignment.container_uuid)

    async def _open_gateway(self, open_it: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # A shorter container costs neither a socket nor a call.
        await asyncio.sleep(FIRST_POST)
        try:
            await open_it()
        # The end of the container is reported in any case.
        except LadingError as error:
            self.log.say(f"nobody can enter this container: {error.message}")

    async def _save_when_asked(self) -> None:
        while True:
            asked = await self._wait_for_saving()
            size = self._size()
            if not asked and size == self._saved:
                continue
            try:
                manifest = await save_log(self.log, blocks=self.session.blocks)
                await self.session.save_interim_log(manifest)
                self._saved = size
            # The server is away: the next occasion tries again.
            except LadingError as error:
                self.log.say(f"the log could not be saved: {error.message}")

    async def _wait_for_saving(self) -> bool:
        """Wait for the next occasion; whether it is a request."""
        until = time.monotonic() + SAVE_PERIOD
        while True:
            try:
                async with asyncio.timeout(self.assignment.log_save_interval):
                    await self.flush.wait()
            except TimeoutError:
                if time.monotonic() >= until or self._size() - self._saved >= max(
                    SAVE_SIZE, self._saved
                ):
                    return False
                continue
            self.flush.clear()
            return True

    def _size(self) -> int:
        return sum(self.log.size(name) for name in LIVE)

    async def _reprice_when_told(self) -> None:
        while True:
            await self.reprice.wait()
            self.reprice.clear()
            # Each listing of supervisors signals all of them, with or without new prices.
            if not self.costing.look():
                continue
            amount = self.costing.amount(self.session.container.runtime_constraints)
            try:
                if amount is not None:
                    await self.session.report_cost(amount)
            except LadingError as error:
                self.log.say(f"the cost could not be brought up to date: {error.message}")

    async def _watch_for_preemption(self) -> None:
        config = self.assignment
        async with open_preemption_source(config.preemption, config.metadata_address) as source:
            await watch_preemption(source, self.take_notice, say=self.log.say, clock=time.monotonic)

    async def take_notice(self, notice: Notice) -> None:
        """Log a notice that the machine is taken away, and show it to the user."""
        self.notice = notice
        self.log.say(f"{notice.message}: {notice.detail}")
        status = {"warning": notice.message, "warningDetail": notice.detail}
        if notice.certain:
            status["preemptionNotice"] = notice.message
        # The machine may vanish within seconds: save the log now.
        self.flush.set()
        try:
            await self.session.add_status(status)
        except LadingError as error:
            self.log.say(f"the notice could not be passed on: {error.message}")


async def _call_with(
    work: Coroutine[Any, Any, str], call: Callable[[str], Coroutine[Any, Any, None]]
) -> None:
    await call(await work)


async def _call_after(work: Coroutine[Any, Any, None], call: Callable[[], None]) -> None:
    await work
    call()


class _Appended(msgspec.Struct):
    length: int


class LiveView:
    """Posts the growing log of one container. `api` must hold the supervisor's token and not
    retry. `reconnected` is set when the server may be another one than before. `is_resumed`: an
    earlier supervisor has posted a part.
    """

    def __init__(
        self,
        api: ApiClient,
        uuid: str,
        log: Log,
        *,
        on_lost: Callable[[], None],
        reconnected: asyncio.Event | None = None,
        is_resumed: bool = False,
        largest_post: int = _LARGEST_POST,
    ) -> None:
        self.largest_post = largest_post
        self._api = api
        self._uuid = uuid
        self._log = log
        self._on_lost = on_lost
        self._sent: dict[str, int] = {}
        self._reconnected = reconnected or asyncio.Event()
        # Files of which the server may have less, or more, than was posted.
        self._unsure: set[str] = set(LIVE) if is_resumed else set()
        self._refused = False
        self._names: tuple[str, ...] = LIVE

    async def run(self, *, period: float, size: int, first: float = FIRST_POST) -> None:
        """Post until cancelled, or until the server refuses the live view."""
        await asyncio.sleep(first)
        while not self._refused:
            await self.post()
            if self._unsent() or self._unsure:
                # The server gets a limited amount in a period: the view falls behind, the saved log
                # does not.
                await asyncio.sleep(period)
                continue
            # Wait for the first byte without a period: a silent command costs no wake-ups.
            await self._growth(1)
            # No growth within the period: post the present data.
            with contextlib.suppress(TimeoutError):
                await finish_within(self._growth(size), period)

    async def post(self) -> None:
        """Post the growth of every file."""
        if self._reconnected.is_set():
            self._reconnected.clear()
            self._unsure.update(self._sent)
        for name in self._names:
            try:
                if name in self._unsure and not self._refused:
                    await self._read_length(name)
                for _ in range(_PIECES):
                    if self._log.size(name) > self._sent.get(name, 0) and not self._refused:
                        await self._post_piece(name)
            # The server keeps no more of this file.
            except TooLarge:
                self._names = tuple(other_name for other_name in self._names if other_name != name)
            # The token was revoked: the container belongs to another supervisor.
            except Unauthenticated:
                self._refused = True
                self._on_lost()
            except RequestError:
                self._refused = True
            # The server lacks what was posted before; the next period posts it.
            except Conflict:
                self._unsure.update(self._sent)
            # The server is away or overloaded; the next period tries again, maybe at another one.
            except LadingError:
                self._unsure.update(self._sent)
                return

    async def _read_length(self, name: str) -> None:
        # Without data nothing is changed, and the answer has the length.
        length = await self._append(name, 0, b"")
        self._sent[name] = min(length, self._log.size(name))
        self._unsure.discard(name)

    async def _post_piece(self, name: str) -> None:
        offset = self._sent.get(name, 0)
        with (self._log.directory / name).open("rb") as file:
            file.seek(offset)
            data = file.read(self.largest_post)
        await self._append(name, offset, data)
        self._sent[name] = offset + len(data)

    async def _append(self, name: str, offset: int, data: bytes) -> int:
        """Post bytes of a file; the length that it has at the server then."""
        path = f"containers/{self._uuid}/live/{name}"
        params = {"offset": str(offset)}
        answer = await self._api.raw("POST", path, params=params, body=data, timeout=_TIMEOUT)
        try:
            return msgspec.json.decode(answer.body, type=_Appended).length
        except msgspec.DecodeError as error:
            raise Unavailable(f"live/{name}: the answer of the server is not its length") from error

    async def _growth(self, least: int) -> None:
        """Wait until `least` bytes are unsent, or the server may be another one."""
        while self._unsent() < least and not self._reconnected.is_set():
            self._log.grown.clear()
            await self._log.grown.wait()

    def _unsent(self) -> int:
        return sum(self._log.size(name) - self._sent.get(name, 0) for name in self._names)
