"""The turn to write: calls go first, work in the background is not kept waiting for ever."""

from __future__ import annotations

import asyncio

from lading.process.concurrency import cancel_all
from lading.store.databases.write_turn import WriteTurn


class Holders:
    """Tasks that take a turn one after another; `order` has the names in which they had it."""

    def __init__(self, turn: WriteTurn) -> None:
        self._turn = turn
        self.order: list[str] = []

    def begin(self, name: str, *, aside: bool = False) -> asyncio.Task[None]:
        """A task that takes the turn once."""
        return asyncio.create_task(self._hold(name, aside=aside))

    async def _hold(self, name: str, *, aside: bool) -> None:
        async with self._turn.held(aside=aside):
            self.order.append(name)
            await asyncio.sleep(0)


async def _queued(*tasks: asyncio.Task[None]) -> None:
    """Let new tasks queue."""
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


async def test_each_kind_has_its_turn_in_the_order_of_arrival() -> None:
    turn = WriteTurn()
    holders = Holders(turn)
    async with turn.held():
        tasks = [holders.begin("a", aside=True), holders.begin("b", aside=True)]
        tasks += [holders.begin("1"), holders.begin("2")]
        await _queued(*tasks)
    await asyncio.gather(*tasks)
    assert holders.order == ["1", "2", "a", "b"]


async def test_a_call_goes_before_work_that_came_earlier() -> None:
    turn = WriteTurn()
    holders = Holders(turn)
    async with turn.held(aside=True):
        tasks = [holders.begin("aside", aside=True)]
        await _queued(*tasks)
        tasks.append(holders.begin("call"))
        await _queued(*tasks)
    await asyncio.gather(*tasks)
    assert holders.order == ["call", "aside"]


async def test_so_many_calls_go_before_work_and_no_more() -> None:
    turn = WriteTurn(most_passed=2)
    holders = Holders(turn)
    async with turn.held():
        tasks = [holders.begin("a", aside=True), holders.begin("b", aside=True)]
        tasks += [holders.begin(str(number)) for number in range(5)]
        await _queued(*tasks)
    await asyncio.gather(*tasks)
    assert holders.order == ["0", "1", "a", "2", "3", "b", "4"]


async def test_one_that_is_cancelled_leaves_the_queue() -> None:
    turn = WriteTurn()
    holders = Holders(turn)
    async with turn.held():
        left, stayed = holders.begin("left"), holders.begin("stayed", aside=True)
        await _queued(left, stayed)
        await cancel_all(left)
    await stayed
    assert holders.order == ["stayed"]


async def test_one_that_is_cancelled_with_the_turn_in_its_hand_passes_it_on() -> None:
    turn = WriteTurn()
    holders = Holders(turn)
    async with turn.held():
        left, stayed = holders.begin("left"), holders.begin("stayed")
        await _queued(left, stayed)
    # The turn was handed over, but the task has not run since.
    await cancel_all(left)
    await stayed
    assert holders.order == ["stayed"]
    async with turn.held():
        holders.order.append("free")


async def test_a_fault_of_the_holder_frees_the_turn() -> None:
    turn = WriteTurn()
    for _ in range(2):
        try:
            async with turn.held():
                raise ValueError
        except ValueError:
            pass
