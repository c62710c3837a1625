from __future__ import annotations

import pytest

from tests.supervisor.supervised import Bench


@pytest.mark.parametrize("state", ["Queued", "Running", "Complete"])
async def test_a_container_that_is_not_locked_is_left_alone(bench: Bench, state: str) -> None:
    record = bench.add("true", state=state)
    assert await bench.run() == 1
    assert (record["state"], bench.server.states) == (state, [])


async def test_a_record_that_cannot_be_read_is_left_to_the_dispatcher(bench: Bench) -> None:
    bench.add("true")
    bench.server.faults = {"GET containers": [503]}
    assert await bench.run() == 1
    assert sorted(bench.server.calls) == ["GET auth", "GET containers"]
