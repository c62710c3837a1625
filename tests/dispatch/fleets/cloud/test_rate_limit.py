from __future__ import annotations

import asyncio

from lading.dispatch.fleets.cloud.vm_bootstrap import CallRate
from lading.testing.simulated_loop import play


async def take(pace: CallRate, turns: int) -> float:
    for _ in range(turns):
        await pace.turn()
    return asyncio.get_running_loop().time()


def test_turns_are_spread_once_a_second_of_them_is_taken() -> None:
    assert play(take(CallRate(10.0), 10)) == 0.0
    assert round(play(take(CallRate(10.0), 30)), 3) == 2.0


def test_a_slow_pace_has_one_turn_in_its_time() -> None:
    assert play(take(CallRate(0.5), 3)) == 4.0


def test_no_rate_is_no_waiting() -> None:
    assert play(take(CallRate(0.0), 1000)) == 0.0
