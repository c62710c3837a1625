from __future__ import annotations

import asyncio

import pytest

from lading.core.errors import Unavailable
from lading.dispatch.fleets.cloud.cloud_calls import CallRate, CloudCalls
from lading.dispatch.fleets.cloud.metrics import CloudCounters
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.testing.simulated_loop import play
from tests.simulation.cloud_scenario import TYPES


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


async def _lost() -> None:
    raise AssertionError("must not be called")


async def test_without_the_lease_no_call_is_made() -> None:
    def refuse() -> None:
        raise Unavailable("another dispatcher has the lease")

    calls = CloudCalls(CloudSettings(types=TYPES, set_id="set"), CloudCounters(), refuse)
    with pytest.raises(Unavailable, match="another dispatcher"):
        await calls.make("List", _lost())
