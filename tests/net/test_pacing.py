"""Streams that move much give way to calls: with a clock, a kernel's account and pauses of the
test's own.
"""

from __future__ import annotations

import asyncio
import heapq

from lading.core.protocols.transfer_rates import SPARE
from lading.net.pacing import Pacer, read_account

PIECE = 1 << 16
LEAST = 1_000_000.0


class World:
    """A clock that pauses move on; `waits` is the part of the time for which the process waits for
    a processor.
    """

    def __init__(self, *, waits: float | None = 0.0, late: float = 0.0) -> None:
        self.now = 1000.0
        self.waits = waits
        self.waited = 0.0
        self.late = late
        self.pacer = Pacer(LEAST, clock=lambda: self.now, sleep=self.sleep, account=self.account)

    async def sleep(self, seconds: float) -> None:
        self.pass_time(seconds + self.late)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds * (self.waits or 0.0)

    def account(self) -> tuple[float, int] | None:
        return None if self.waits is None else (self.waited, 0)

    async def move(self, seconds: float, *, calling: bool) -> float:
        """Bytes a second that a stream moves which always has more, and takes a tenth of a
        millisecond for each.
        """
        stream = self.pacer.stream()
        for _ in range(int(SPARE) // PIECE):
            await stream.admit(PIECE)
        began, moved = self.now, 0
        while self.now < began + seconds:
            if calling:
                self.pacer.note_call()
            self.pass_time(1e-4)
            await stream.admit(PIECE)
            moved += PIECE
        return moved / (self.now - began)


async def test_while_nobody_calls_there_is_no_bound() -> None:
    world = World(waits=0.5)
    assert await world.move(10, calling=False) > 6e8
    world.pacer.note_call()
    world.pass_time(2)
    assert await world.move(1, calling=False) > 6e8


async def test_when_calls_have_to_wait_the_least_is_left_and_more_when_they_need_not() -> None:
    world = World(waits=0.5)
    await world.move(5, calling=True)
    assert 0.9 * LEAST < await world.move(10, calling=True) < 1.1 * LEAST
    world.waits = 0.0
    assert await world.move(60, calling=True) > 100 * LEAST


async def test_without_an_account_lateness_counts() -> None:
    world = World(waits=None, late=0.02)
    await world.move(5, calling=True)
    assert await world.move(10, calling=True) < 1.1 * LEAST
    world.late = 0.0
    assert await world.move(60, calling=True) > 100 * LEAST


async def test_who_moves_little_never_waits() -> None:
    world = World(waits=0.5)
    await world.move(5, calling=True)
    typed, began = world.pacer.stream(), world.now
    for _ in range(100):
        world.pacer.note_call()
        await typed.admit(1000)
    assert world.now == began


async def test_streams_have_equal_shares() -> None:
    now, sleepers, moved = 0.0, list[tuple[float, int, asyncio.Event]](), [0, 0, 0]

    async def sleep(seconds: float) -> None:
        woken = asyncio.Event()
        heapq.heappush(sleepers, (now + seconds, len(sleepers), woken))
        await woken.wait()

    pacer = Pacer(LEAST, clock=lambda: now, sleep=sleep, account=lambda: (now, 0))

    async def move(number: int) -> None:
        stream = pacer.stream()
        while True:
            pacer.note_call()
            await stream.admit(PIECE)
            moved[number] += PIECE

    pacer.note_call()
    movers = [asyncio.create_task(move(number)) for number in range(3)]
    while now < 20:
        await asyncio.sleep(0)
        if sleepers:
            now, _, woken = heapq.heappop(sleepers)
            woken.set()
    for mover in movers:
        mover.cancel()
    assert max(moved) - min(moved) <= 2 * PIECE
    assert 20 * LEAST < sum(moved) < 20 * LEAST + 3 * SPARE + 2 * LEAST


def test_this_kernel_keeps_an_account_or_none() -> None:
    found = read_account()
    assert found is None or (found[0] >= 0 and found[1] > 0)
