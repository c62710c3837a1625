from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lading.blobs.pack_commits import PackCommits
from lading.blobs.packs import Packs
from lading.core.data.pack_changes import ChangeResult, PackChange
from lading.core.data.pack_format import RecordKind
from lading.core.errors import Full, LadingError, Unavailable


def _put(number: int, size: int = 1) -> PackChange:
    data = bytes([number]) * size
    return PackChange(RecordKind.PUT, hashlib.md5(data, usedforsecurity=False).digest(), data)


class Disk:
    """Notes what is committed together. A commit takes until `sync` is set."""

    def __init__(self, root: Path) -> None:
        self.batches = list[int]()
        self.faults = list[LadingError]()
        self.sync = asyncio.Event()
        self.packs = Packs(root)
        self.packs.has_upkeep = False
        self.commits = PackCommits(self.packs, self._commit, self._run)

    def _commit(self, changes: Sequence[PackChange]) -> list[ChangeResult | LadingError]:
        self.batches.append(len(changes))
        results: list[ChangeResult | LadingError] = [ChangeResult.DONE for _ in changes]
        results[1 : 1 + len(self.faults)] = self.faults
        return results

    async def _run(self, work: Callable[..., Any], *arguments: object) -> Any:
        await self.sync.wait()
        return work(*arguments)


async def test_what_comes_during_a_sync_is_written_together(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    first = asyncio.create_task(disk.commits.make(_put(0)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = [asyncio.create_task(disk.commits.make(_put(number))) for number in range(1, 9)]
    await asyncio.sleep(0)
    disk.sync.set()
    assert await first is ChangeResult.DONE
    assert set(await asyncio.gather(*rest)) == {ChangeResult.DONE}
    assert disk.batches == [1, 8]
    await disk.commits.close()


async def test_a_batch_is_bounded(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.sync.set()
    await asyncio.gather(*(disk.commits.make(_put(number, 1 << 20)) for number in range(10)))
    assert disk.batches == [4, 4, 2]


async def test_a_change_that_is_refused_leaves_the_others(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.sync.set()
    disk.faults = [Full("no room")]
    done = await asyncio.gather(
        *(disk.commits.make(_put(number)) for number in range(3)), return_exceptions=True
    )
    assert done[0] is done[2] is ChangeResult.DONE
    assert isinstance(done[1], Full)


async def test_a_caller_that_is_cancelled_leaves_the_others(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    first, second = (asyncio.create_task(disk.commits.make(_put(number))) for number in (1, 2))
    await asyncio.sleep(0)
    first.cancel()
    disk.sync.set()
    assert await second is ChangeResult.DONE


async def test_changes_that_wait_at_the_end_are_refused(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    waiting = []
    for number in (1, 2):
        waiting.append(asyncio.create_task(disk.commits.make(_put(number))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await disk.commits.close()
    for task in waiting:
        with pytest.raises(Unavailable):
            await task


async def test_a_failed_compaction_fails_no_change(tmp_path: Path) -> None:
    class Broken(Disk):
        async def _run(self, work: Callable[..., Any], *arguments: object) -> Any:
            if work == self.packs.compact:
                raise Unavailable("broken")
            return work(*arguments)

    disk = Broken(tmp_path)
    disk.packs.has_upkeep = True
    assert await disk.commits.make(_put(1)) is ChangeResult.DONE
    assert await disk.commits.make(_put(2)) is ChangeResult.DONE
    with pytest.raises(Unavailable, match="broken"):
        await disk.commits.compact()
    await disk.commits.close()
