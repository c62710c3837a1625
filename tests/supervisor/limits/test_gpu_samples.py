"""Samples of GPUs in the log of a container."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lading.core.gpus.devices import GpuDevice, GpuDevices
from lading.core.gpus.readings import GpuReading
from lading.process.concurrency import cancel_all
from lading.supervisor.limits.gpu_samples import GpuSampler, Readings
from lading.supervisor.logs import USAGE, Log

GPU = GpuDevice(0, "nvidia0")
INSTANCE = GpuDevice(0, "nvidia0", instance="0:0", parts=("nvidia-caps/nvidia-cap1",))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with closing(Log(tmp_path / "log", lambda: datetime(2026, 1, 1, tzinfo=UTC))) as made:
        yield made


def lines(log: Log) -> list[str]:
    text = (log.directory / USAGE).read_text()
    return [line.partition(" ")[2] for line in text.splitlines()]


async def test_each_gpu_has_a_line(tmp_path: Path, log: Log) -> None:

    def read(root: Path, gpus: GpuDevices) -> Readings:
        assert (root, gpus.devices) == (tmp_path, (GPU,))
        return {"nvidia0": GpuReading(busy=0.5, memory_used=7, memory=9)}

    sampler = GpuSampler(log, tmp_path, [GPU, INSTANCE], read, first=0.0)
    task = asyncio.create_task(sampler.run(interval=60.0))
    await log.grown.wait()
    await cancel_all(task)
    assert lines(log) == ["gpu:nvidia0 50 percent 7 used 9 total"]
    sampler.write({"nvidia0": GpuReading(busy=0.1, memory_used=3, memory=9)})
    sampler.write({"nvidia1": GpuReading(memory_used=5)})
    assert sampler.used == {"gpu": 0.3, "gpu_memory": 12}
    assert sampler.summary() == [
        "Mean usage of GPU nvidia0 was 30%, maximum memory usage 7 bytes",
        "Mean usage of GPU nvidia1 was 0%, maximum memory usage 5 bytes",
    ]


async def test_instances_alone_are_not_sampled(tmp_path: Path, log: Log) -> None:
    sampler = GpuSampler(log, tmp_path, [INSTANCE], first=0.0)
    await sampler.run(interval=0.0)
    assert (sampler.used, sampler.summary()) == ({}, [])


async def test_a_driver_that_hangs_stops_nothing(tmp_path: Path, log: Log) -> None:
    asked, gate = threading.Event(), threading.Event()

    def hang(root: Path, gpus: GpuDevices) -> Readings:
        asked.set()
        gate.wait(60)
        return {}

    sampler = GpuSampler(log, tmp_path, [GPU], hang, first=0.0)
    task = asyncio.create_task(sampler.run(interval=60.0))
    assert await asyncio.to_thread(asked.wait, 10)
    await cancel_all(task)
    assert task.cancelled()
    gate.set()
