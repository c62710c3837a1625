"""Many requests in one call."""

from __future__ import annotations

import pytest

from lading.api.events import timers
from lading.core.records.schema import Record
from lading.testing.world import World

OUT = {"/out": {"kind": "tmp", "capacity": 1 << 20}}


async def batch(it: World, *items: Record, **more: object) -> list[Record]:
    body = {"container_requests": list(items), **more}
    answer = await it.ok("POST", "container_requests/batch", body)
    found: list[Record] = answer["items"]
    return found


async def count(it: World) -> int:
    return int((await it.ok("GET", "container_requests"))["items_available"])


async def test_a_pipeline_in_one_call(it: World) -> None:
    split = await it.spec("split")
    sort = await it.spec(
        "sort", mounts={**OUT, "/in": {"kind": "output", "container_request": "#0", "path": "a"}}
    )
    notify = await it.spec("notify", depends_on=["#0", "#1"])
    one, two, three = await batch(it, split, sort, notify)
    assert two["mounts"]["/in"]["container_request"] == one["uuid"]
    assert (two["container_uuid"], two["depends_on"]) == (None, [one["uuid"]])
    assert three["depends_on"] == [one["uuid"], two["uuid"]]
    made = await it.collection({"a": b"1"})
    await it.run(one["container_uuid"], output=made["portable_data_hash"])
    await timers.seek(it.app.services)
    sorting = await it.ok("GET", f"container_requests/{two['uuid']}")
    assert sorting["container_uuid"] is not None


async def test_equal_work_in_one_call_is_done_once(it: World) -> None:
    spec = await it.spec("same")
    made = await batch(it, *[spec] * 3)
    assert len({one["uuid"] for one in made}) == 3
    assert len({one["container_uuid"] for one in made}) == 1


async def test_all_or_none_unless_it_says_otherwise(it: World) -> None:
    good, bad = await it.spec("good"), await it.spec("bad", priority=-1)
    lost = await it.spec("lost", depends_on=["#1"])
    items = {"container_requests": [good, bad, lost, good]}
    refused = await it.request("POST", "container_requests/batch", items)
    assert (refused.status, refused.error.startswith("#1: ")) == (422, True)
    assert await count(it) == 0
    first, second, third, fourth = await batch(it, good, bad, lost, good, atomic=False)
    assert (first["uuid"] != fourth["uuid"], await count(it)) == (True, 2)
    assert second["status"] == third["status"] == 422
    assert "#1: " in second["errors"][0]
    assert "#2: Depends on: request" in third["errors"][0]


@pytest.mark.parametrize(
    ("items", "more", "status", "fault"),
    [
        ([], {}, 422, "has 0 items; 1 to 1000 are possible"),
        ([{}] * 1001, {}, 422, "has 1001 items"),
        ({"a": 1}, {}, 400, "must be an array of objects"),
        ([1], {}, 400, "must be an array of objects"),
        ([{"depends_on": ["#0"]}], {}, 422, "#0: #0 names no earlier request of this call"),
        ([{"depends_on": ["#x"]}], {}, 422, "#0: #x names no earlier request"),
        ([{"depends_on": ["#99999999999"]}], {}, 422, "names no earlier request"),
        ([{}], {"atomic": "perhaps"}, 400, "atomic: must be true or false"),
    ],
)
async def test_what_is_no_batch(
    it: World, items: object, more: Record, status: int, fault: str
) -> None:
    body = {"container_requests": items, **more}
    refused = await it.request("POST", "container_requests/batch", body)
    assert (refused.status, fault in refused.error) == (status, True), refused.error


async def test_items_keep_their_order(it: World) -> None:
    made = await batch(it, *[await it.spec(str(number)) for number in range(20)])
    listed = await it.ok("GET", "containers", params={"order": ["created_at"]})
    assert [one["uuid"] for one in listed["items"]] == [one["container_uuid"] for one in made]


async def test_the_attributes_that_are_shown(it: World) -> None:
    (only,) = await batch(it, await it.spec("x"), select=["uuid", "state"])
    assert set(only) - {"kind", "etag"} == {"uuid", "state"}
