"""Storing small blocks on a directory volume: files of their own beside packs, in turns.

No server takes part: the processor time is that of the volume, its threads and the kernel.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, percentile
from lading.blobs.directory import DirectoryVolume

# Bytes of a block: the log of a small container.
_SIZE = 600
_AT_ONCE = (1, 2, 8)


def measure(*, blocks: int, rounds: int) -> list[Figure]:
    """Puts of so many new blocks, one, two and eight at a time."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        for at_once in _AT_ONCE:
            spent: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(rounds):
                for is_packing, seconds in spent.items():
                    root = Path(folder) / f"packing-{is_packing}"
                    seconds.append(asyncio.run(_put(root, is_packing, blocks, at_once)))
            for is_packing, seconds in spent.items():
                kind = "packs" if is_packing else "files"
                figures.append(
                    Figure(
                        name=f"put of a small block to {kind}, {at_once} at a time",
                        unit="",
                        count=blocks,
                        server=percentile(seconds, 0.5) * 1000,
                    )
                )
    return figures


async def _put(root: Path, is_packing: bool, count: int, at_once: int) -> float:
    """Seconds of processor time for a put."""
    volume = DirectoryVolume(root, reserve=0, pack_small_blocks=is_packing)
    data = [os.urandom(_SIZE) for _ in range(count)]
    names = [hashlib.md5(one, usedforsecurity=False).hexdigest() for one in data]
    gate = asyncio.Semaphore(at_once)

    async def put(number: int) -> None:
        async with gate:
            await volume.put(names[number], data[number])

    began = time.process_time()
    await asyncio.gather(*map(put, range(count)))
    seconds = time.process_time() - began
    await volume.close()
    return seconds / count
