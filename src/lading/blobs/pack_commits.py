"""Group commit of changes of packed blocks.

One task writes. While it writes and syncs some changes, the next ones gather, and are then written
together. Nothing waits for more to gather. After a commit the task compacts packs, in small parts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from lading.blobs.packs import Packs
from lading.core.data.pack_changes import ChangeResult, PackChange
from lading.core.errors import LadingError, Unavailable
from lading.process.telemetry import event

# Bytes of blocks that are written together.
_MOST: Final = 4 << 20
_logger = logging.getLogger("lading.blobs")
Commit = Callable[[Sequence[PackChange]], Sequence[ChangeResult | LadingError]]
_Waiting = tuple[PackChange, asyncio.Future[ChangeResult]]


class PackCommits:
    """Makes changes of packs with `commit`, which returns a result for each; `run` runs a function
    in a thread, and raises LadingError.
    """

    def __init__(self, packs: Packs, commit: Commit, run: Callable[..., Awaitable[Any]]) -> None:
        self._packs, self._run_commit, self._run = packs, commit, run
        self._waiting = list[_Waiting]()
        self._compacting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def make(self, change: PackChange) -> ChangeResult:
        """Make a change, durably. Raises Full, Unavailable.

        A change whose caller is cancelled may be made nevertheless.
        """
        future: asyncio.Future[ChangeResult] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="write packs")
        return await future

    async def close(self) -> None:
        """End the task; changes that still wait are refused."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _work(self) -> None:
        try:
            while self._waiting or (self._packs.has_upkeep and not self._compacting.locked()):
                await self._commit(self._take())
                await self._compact()
        finally:
            self._task = None
            _refuse(self._waiting, Unavailable("the volume is being closed"))
            self._waiting = []

    async def compact(self) -> None:
        """Compact the packs that are worth it. Raises Unavailable."""
        self._packs.has_upkeep = True
        while self._packs.has_upkeep:
            async with self._compacting:
                await self._run(self._packs.compact)

    async def _compact(self) -> None:
        if not self._packs.has_upkeep or self._compacting.locked():
            return
        try:
            async with self._compacting:
                await self._run(self._packs.compact)
        except LadingError as error:
            # It is tried again after the next removal.
            self._packs.has_upkeep = False
            event(_logger, "packs not compacted", fault=error)

    def _take(self) -> list[_Waiting]:
        """The changes that are written next."""
        size, count = 0, 0
        while count < len(self._waiting) and size < _MOST:
            size += len(self._waiting[count][0].data)
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _commit(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        fault: LadingError = Unavailable("the volume is being closed")
        try:
            results = await self._run(self._run_commit, [change for change, _ in batch])
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():
                    continue
                if isinstance(result, LadingError):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        except LadingError as error:
            fault = error
        finally:
            _refuse(batch, fault)


def _refuse(waiting: list[_Waiting], fault: LadingError) -> None:
    for _, future in waiting:
        if not future.done():
            future.set_exception(fault)
