"""What a cancellation of many requests means before it has reached them."""

from __future__ import annotations

import pytest

from lading.api.background.request_cancellation import CancellationWorker
from lading.core.records.record_types import LOGS
from lading.core.records.schema import JSON, Record
from lading.store import records
from lading.testing.world import World
from tests.api.sharing_world import group, share, uuid_of


async def ask(it: World, *filters: JSON, token: str | None = None) -> Record:
    body = {"filters": list(filters)}
    made: Record = await it.ok("POST", "container_requests/cancel_matching", body, token=token)
    return made


async def progress(it: World, one: Record) -> Record:
    found: Record = await it.ok("GET", "container_requests/cancellation", params={"id": one["id"]})
    return found


async def lock(it: World, container_uuid: str, **more: JSON) -> int:
    path = f"containers/{container_uuid}/lock"
    return (await it.request("POST", path, more or None, token=it.dispatcher)).status


async def state(it: World, request: Record) -> str:
    found: Record = await it.ok("GET", f"container_requests/{request['uuid']}")
    return str(found["state"])


async def test_a_container_is_not_locked_any_more(it: World) -> None:
    first = await it.submit("1", name="a", use_existing=False)
    others = await it.submit("2", name="b", use_existing=False)
    made = await ask(it, ["name", "=", "a"])
    later = await it.submit("3", name="a", use_existing=False)
    assert await lock(it, first["container_uuid"]) == 409
    assert await state(it, first) == "Final"
    # As after each cancellation.
    assert await lock(it, first["container_uuid"]) == 422
    for one in (others, later):
        assert await lock(it, one["container_uuid"]) == 200
    await CancellationWorker(it.app.services).work()
    done = await progress(it, made)
    assert (done["total"], done["cancelled"], done["refused"]) == (1, 1, 0)
    assert await state(it, later) == "Committed"


async def test_the_next_one_is_locked_in_its_place(it: World) -> None:
    first = await it.submit("1", name="a", use_existing=False)
    other = await it.submit("2", name="b", use_existing=False)
    await ask(it, ["name", "=", "a"])
    locked = await it.ok(
        "POST",
        f"containers/{first['container_uuid']}/lock",
        {"alternatives": [other["container_uuid"]]},
        token=it.dispatcher,
    )
    assert locked["uuid"] == other["container_uuid"]


async def test_a_container_that_others_want_goes_on(it: World) -> None:
    token = await it.user("u")
    first = await it.submit("1", name="a", token=token)
    other = await it.submit("1", name="b", token=token)
    assert first["container_uuid"] == other["container_uuid"]
    made = await ask(it, ["name", "=", "a"])
    assert await lock(it, first["container_uuid"]) == 200
    await CancellationWorker(it.app.services).work()
    assert (await progress(it, made))["cancelled"] == 1
    assert await state(it, other) == "Committed"


async def test_what_its_user_may_not_change_goes_on(it: World) -> None:
    owner, reader = await it.user("u"), await it.user("v")
    place = await group(it, "shared", token=owner)
    await share(it, await uuid_of(it, "v"), place["uuid"], "can_read", token=owner)
    request = await it.submit("1", token=owner, owner_uuid=place["uuid"])
    await ask(it, token=reader)
    assert await lock(it, request["container_uuid"]) == 200


async def test_why_tells_of_it(it: World) -> None:
    request = await it.submit("1")
    made = await ask(it)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    sentence = (
        f"It is being cancelled, as asked at {made['created_at']}: it does not start any more."
    )
    assert why["waits"][0] == {"reason": "cancellation", "sentence": sentence}
    assert sentence in why["scheduling_status"]
    await CancellationWorker(it.app.services).work()
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert (why["state"], why["waits"]) == ("Final", [])
    assert " cancelled it at 20" in why["outcome"]


@pytest.mark.parametrize("state_of_taken", ["Locked", "Running"])
async def test_those_that_were_taken_are_the_first(it: World, state_of_taken: str) -> None:
    taken = await it.submit("0", use_existing=False)
    supervisor = await it.lock(taken["container_uuid"])
    path = f"containers/{taken['container_uuid']}"
    if state_of_taken == "Running":
        await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    waiting = [await it.submit(str(n), use_existing=False) for n in range(1, 4)]
    made = await ask(it)
    await CancellationWorker(it.app.services).work()
    done = await progress(it, made)
    assert (done["total"], done["cancelled"]) == (4, 4)
    numbers = {}
    async with it.database.reading() as tx:
        for one in (taken, *waiting):
            rows = await records.matching(tx, LOGS, object_uuid=one["uuid"], event_type="update")
            assert len(rows) == 1
            numbers[one["uuid"]] = rows[0]["id"]
    assert min(numbers, key=numbers.__getitem__) == taken["uuid"]
    assert (await it.ok("GET", path))["priority"] == 0
    assert [await state(it, one) for one in waiting] == ["Final"] * 3
    expected = "Committed" if state_of_taken == "Running" else "Final"
    assert await state(it, taken) == expected
