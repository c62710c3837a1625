"""Groups of requests of which so many run at a time."""

from __future__ import annotations

from lading.api.events import timers
from lading.core.quantities import format_time
from lading.core.records.schema import JSON, Record
from lading.testing.world import World


async def group(it: World, count: int, most: int, **more: JSON) -> list[Record]:
    """Requests of one group, in the order of their turns."""
    specs = [
        await it.spec("step", str(number), parallel_group="g", max_parallel=most, **more)
        for number in range(count)
    ]
    answer = await it.ok("POST", "container_requests/batch", {"container_requests": specs})
    made: list[Record] = answer["items"]
    return made


async def runnable(it: World, *requests: Record) -> list[int]:
    """The numbers of the requests whose containers have a priority."""
    found = []
    for number, one in enumerate(requests):
        container = await it.ok("GET", f"containers/{one['container_uuid']}")
        if container["priority"] > 0 and container["state"] in ("Queued", "Locked", "Running"):
            found.append(number)
    return found


async def test_so_many_have_their_turn_and_each_end_gives_it_to_the_next(it: World) -> None:
    made = await group(it, 5, 2)
    assert await runnable(it, *made) == [0, 1]
    why = await it.ok("GET", f"container_requests/{made[2]['uuid']}/why")
    assert why["waits"][0]["reason"] == "turn"
    assert "at most 2 containers of the group g run at a time" in why["waits"][0]["sentence"]
    await it.run(made[1]["container_uuid"])
    assert await runnable(it, *made) == [0, 2]
    # One that fails gives its turn away, too.
    await it.run(made[0]["container_uuid"], exit_code=1)
    assert await runnable(it, *made) == [2, 3]
    await it.ok("POST", f"container_requests/{made[2]['uuid']}/cancel")
    assert await runnable(it, *made) == [3, 4]
    await it.ok("DELETE", f"container_requests/{made[3]['uuid']}")
    assert await runnable(it, made[4]) == [0]


async def test_what_is_given_back_takes_its_turn_anew(it: World) -> None:
    made = await group(it, 3, 1)
    await it.lock(made[0]["container_uuid"])
    await it.ok("PUT", f"container_requests/{made[2]['uuid']}", {"priority": 9})
    assert await runnable(it, *made) == [0]
    await it.ok("POST", f"containers/{made[0]['container_uuid']}/unlock", token=it.dispatcher)
    assert await runnable(it, *made) == [2]


async def test_what_runs_keeps_its_place_and_priority_decides_about_the_rest(it: World) -> None:
    made = await group(it, 4, 1)
    supervisor = await it.lock(made[0]["container_uuid"])
    await it.ok("PUT", f"container_requests/{made[3]['uuid']}", {"priority": 9})
    assert await runnable(it, *made) == [0]
    await it.finish(made[0]["container_uuid"], supervisor)
    assert await runnable(it, *made) == [3]
    # A waiting one is overtaken, as its container has not begun.
    await it.ok("PUT", f"container_requests/{made[2]['uuid']}", {"priority": 10})
    assert await runnable(it, *made) == [2]


async def test_a_cancelled_container_that_still_runs_holds_its_place(it: World) -> None:
    made = await group(it, 2, 1)
    supervisor = await it.lock(made[0]["container_uuid"])
    path = f"containers/{made[0]['container_uuid']}"
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    await it.ok("POST", f"container_requests/{made[0]['uuid']}/cancel")
    assert await runnable(it, *made) == []
    await it.ok("PUT", path, {"state": "Cancelled"}, token=supervisor)
    assert await runnable(it, *made) == [1]


async def test_the_limit_can_be_changed_while_they_wait(it: World) -> None:
    made = await group(it, 3, 1)
    for one in made:
        await it.ok("PUT", f"container_requests/{one['uuid']}", {"max_parallel": 2})
    assert await runnable(it, *made) == [0, 1]
    refused = await it.request("POST", "container_requests", await it.spec(max_parallel=2))
    assert (refused.status, "needs a parallel_group" in refused.error) == (422, True)


async def test_those_that_cannot_run_take_no_turn(it: World) -> None:
    later = format_time(it.clock.moment.replace(year=it.clock.moment.year + 1))
    before = await it.submit("before")
    late = await it.submit("late", parallel_group="g", max_parallel=1, start_after=later)
    bound = await it.submit(
        "bound", parallel_group="g", max_parallel=1, depends_on=[before["uuid"]]
    )
    ready = await it.submit("ready", parallel_group="g", max_parallel=1)
    assert await runnable(it, late, bound, ready) == [2]
    await it.run(ready["container_uuid"])
    assert await runnable(it, late, bound) == []
    await it.run(before["container_uuid"])
    assert await runnable(it, late, bound) == [1]
    await it.run(bound["container_uuid"])
    it.clock.advance(400 * 86400)
    await timers.act(it.app.services)
    assert await runnable(it, late) == [0]


async def test_outputs_that_are_awaited_and_other_users(it: World) -> None:
    first = await it.submit("first", parallel_group="g", max_parallel=1)
    mounts = {
        "/out": {"kind": "tmp"},
        "/in": {"kind": "output", "container_request": first["uuid"]},
    }
    second = await it.submit("second", parallel_group="g", max_parallel=1, mounts=mounts)
    token = await it.user("ada")
    other = await it.submit("hers", token=token, parallel_group="g", max_parallel=1)
    assert await runnable(it, first, other) == [0, 1]
    await it.run(first["container_uuid"])
    await timers.seek(it.app.services)
    second = await it.ok("GET", f"container_requests/{second['uuid']}")
    assert await runnable(it, second) == [0]
