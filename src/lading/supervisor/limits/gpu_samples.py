"""Samples of the GPUs of a container, for its log: a line for each in `crunchstat.txt`.

    gpu:nvidia0 45 percent 1073741824 used 42949672960 total

Of an instance of a GPU (MIG) the driver tells no use. A driver that does not answer leaves samples
out, and nothing waits for it: it is asked in a thread that ends with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lading.core.gpus.devices import GpuDevice, GpuDevices
from lading.core.gpus.readings import GpuReading
from lading.process.gpus.inventory import read_all
from lading.supervisor.logs import USAGE, Log

# Seconds until the first sample: a shorter container has none.
_FIRST: Final = 1.0
Readings = Mapping[str, GpuReading]


@dataclass(slots=True)
class GpuSampler:
    """Samples GPUs on the machine whose directories are below `root`."""

    log: Log
    root: Path
    gpus: Sequence[GpuDevice]
    read: Callable[[Path, GpuDevices], Readings] = read_all
    first: float = _FIRST
    _busy: dict[str, list[float]] = field(default_factory=dict)
    _memory: dict[str, int] = field(default_factory=dict)

    async def run(self, *, interval: float) -> None:
        """Sample each `interval` seconds until cancelled."""
        sampled = tuple(gpu for gpu in self.gpus if not gpu.instance)
        if not sampled:
            return
        await asyncio.sleep(self.first)
        while True:
            self.write(await self._ask(GpuDevices(sampled)))
            await asyncio.sleep(interval)

    def write(self, readings: Readings) -> None:
        """Add a line for each GPU that has answered."""
        lines = ""
        for name, reading in readings.items():
            busy = "" if reading.busy is None else f" {100 * reading.busy:.0f} percent"
            lines += f"gpu:{name}{busy} {reading.memory_used} used {reading.memory} total\n"
            if reading.busy is not None:
                self._busy.setdefault(name, []).append(reading.busy)
            self._memory[name] = max(self._memory.get(name, 0), reading.memory_used)
        if lines:
            self.log.stream(USAGE).write(lines.encode())
            self.log.grown.set()

    @property
    def used(self) -> dict[str, float]:
        """`gpu`, the mean number of GPUs that worked, and `gpu_memory`, the most bytes of all of
        them together; unknown values are left out.
        """
        busy = sum(sum(shares) / len(shares) for shares in self._busy.values())
        memory = sum(self._memory.values())
        return {
            **({"gpu": round(busy, 3)} if self._busy else {}),
            **({"gpu_memory": memory} if memory else {}),
        }

    def summary(self) -> list[str]:
        """Means and maxima, one sentence for each GPU."""
        return [
            f"Mean usage of GPU {name} was "
            f"{100 * sum(self._busy.get(name, [0.0])) / len(self._busy.get(name, [0.0])):.0f}%, "
            f"maximum memory usage {memory} bytes"
            for name, memory in self._memory.items()
        ]

    async def _ask(self, gpus: GpuDevices) -> Readings:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Readings] = loop.create_future()

        def settle(readings: Readings) -> None:
            # The caller may have given up.
            if not answer.done():
                answer.set_result(readings)

        def work() -> None:
            readings: Readings = {}
            with contextlib.suppress(OSError, ValueError):
                readings = self.read(self.root, gpus)
            # The loop may have been closed meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, readings)

        threading.Thread(target=work, name="GPUs", daemon=True).start()
        return await answer
