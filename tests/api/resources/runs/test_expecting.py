"""Expected ends of runs, by an earlier attempt and by programs."""

from __future__ import annotations

from lading.core.quantities import parse_time
from lading.testing.world import World
from tests.api.resources.runs.runs_world import begin, shown, step


async def test_the_end_is_expected_by_an_earlier_attempt(it: World) -> None:
    first = await begin(it, "again", session="1")
    for name, seconds in (("a", 50), ("b", 30)):
        container = (await step(it, first, name))["container_uuid"]
        supervisor = await it.lock(container)
        await it.ok("PUT", f"containers/{container}", {"state": "Running"}, token=supervisor)
        it.clock.advance(seconds)
        await it.finish(container, supervisor)
    assert (await shown(it, first))["expected_end"] is None
    second = await begin(it, "again", session="2")
    container = (await step(it, second, "a", use_existing=False))["container_uuid"]
    assert (await shown(it, second))["expected_end"] is None
    supervisor = await it.lock(container)
    await it.ok("PUT", f"containers/{container}", {"state": "Running"}, token=supervisor)
    it.clock.advance(20)
    expected = (await shown(it, second))["expected_end"]
    left = parse_time(expected) - it.clock.moment
    assert 55 < left.total_seconds() < 62
    items = (await it.ok("GET", "groups/runs"))["items"]
    assert [item["expected_end"] is None for item in items] == [False]
    assert (await shown(it, second, attempt=1))["expected_end"] is None
    ended = {"attempt": 2, "outcome": "done"}
    await it.ok("POST", f"groups/{second['uuid']}/end_run", ended)
    left = parse_time((await shown(it, second))["expected_end"]) - it.clock.moment
    assert 25 < left.total_seconds() < 32


async def test_the_end_is_expected_by_the_usual_time_of_a_program(it: World) -> None:
    earlier = (await it.submit("tool", "x"))["container_uuid"]
    supervisor = await it.lock(earlier)
    await it.ok("PUT", f"containers/{earlier}", {"state": "Running"}, token=supervisor)
    it.clock.advance(40)
    await it.finish(earlier, supervisor)
    run = await begin(it, "only")
    container = (await step(it, run, "tool", "y"))["container_uuid"]
    await it.ok(
        "PUT", f"containers/{container}", {"state": "Running"}, token=await it.lock(container)
    )
    left = parse_time((await shown(it, run))["expected_end"]) - it.clock.moment
    assert 35 < left.total_seconds() < 42
