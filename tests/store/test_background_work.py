"""The loop of background work, and its tasks."""

from __future__ import annotations

import asyncio
import logging

import pytest

from lading.core.errors import Unavailable
from lading.process.concurrency import cancel_all, wait_at_most
from lading.store.background_work import WorkLoop, WorkTasks
from lading.testing.jumping_loop import jumping

LOGGER = logging.getLogger("lading.store.background_work")


class Steps:
    """Steps that have these faults, one after another, and then none."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.times: list[float] = []
        self.takes = 0.0
        self.sweeps = 0
        self.pauses: list[float] = []

    async def step(self) -> None:
        self.times.append(asyncio.get_running_loop().time())
        await wait_at_most(asyncio.Event(), self.takes)
        if self.faults:
            raise self.faults.pop(0)

    async def sweep(self) -> None:
        self.sweeps += 1

    async def rest(self, pause: float) -> None:
        self.pauses.append(pause)
        await wait_at_most(asyncio.Event(), 10)


async def run(steps: Steps, seconds: float) -> None:
    loop = WorkLoop(LOGGER, "looking failed")
    task = asyncio.create_task(loop.run(steps.step, steps.rest, sweep=steps.sweep))
    await wait_at_most(asyncio.Event(), seconds)
    assert not task.done()
    await cancel_all(task)


@jumping
async def test_a_fault_ends_no_loop_and_makes_it_wait(caplog: pytest.LogCaptureFixture) -> None:
    steps = Steps(Unavailable("no database"), RuntimeError("a fault of ours"))
    with caplog.at_level(logging.INFO):
        await run(steps, 35)
    assert [round(time - steps.times[0]) for time in steps.times] == [0, 11, 22, 32]
    assert "no database" in caplog.text
    assert "a fault of ours" in caplog.text
    assert "Traceback" in caplog.text


@jumping
async def test_steps_take_a_small_share_of_the_time() -> None:
    steps = Steps()
    steps.takes = 2
    await run(steps, 27)
    assert [round(pause) for pause in steps.pauses] == [40, 40, 40]


@jumping
async def test_it_sweeps_at_first_and_then_once_an_hour() -> None:
    steps = Steps()
    await run(steps, 3599)
    assert steps.sweeps == 1
    await run(steps, 3615)
    assert steps.sweeps == 3


async def nothing() -> None:
    pass


async def endless() -> None:
    await asyncio.Event().wait()


async def test_tasks_end_and_are_forgotten() -> None:
    ends: list[int] = []
    tasks: WorkTasks[int] = WorkTasks(lambda: ends.append(1))
    tasks.start("a", 1, nothing())
    tasks.start("b", 2, endless())
    assert tasks.pieces == [1, 2]
    tasks.stop("b")
    tasks.stop("c")
    await tasks.settle()
    assert (tasks.pieces, len(ends)) == ([], 2)


async def test_work_ends_with_its_owner() -> None:
    tasks: WorkTasks[str] = WorkTasks()
    tasks.start("a", "x", endless())
    await tasks.close()
    assert tasks.pieces == []
