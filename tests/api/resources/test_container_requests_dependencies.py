"""Requests that wait for others."""

from __future__ import annotations

import pytest

from lading.api.resources import container_requests
from lading.core.records.schema import Record
from lading.testing.world import World


async def read(it: World, request: Record) -> Record:
    found: Record = await it.ok("GET", f"container_requests/{request['uuid']}")
    return found


async def priority(it: World, request: Record) -> int:
    return int((await it.ok("GET", f"containers/{request['container_uuid']}"))["priority"])


async def why(it: World, request: Record) -> Record:
    found: Record = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    return found


async def test_it_is_queued_when_all_that_it_depends_on_ended_well(it: World) -> None:
    one, two = await it.submit("one"), await it.submit("two")
    last = await it.submit("last", depends_on=[one["uuid"], two["uuid"]])
    assert (await priority(it, last), (await why(it, last))["waits"][0]["reason"]) == (
        0,
        "dependency",
    )
    assert (
        await it.request("POST", f"containers/{last['container_uuid']}/lock", token=it.dispatcher)
    ).status == 422
    await it.run(one["container_uuid"])
    assert await priority(it, last) == 0
    status = await it.ok("GET", f"container_requests/{last['uuid']}/container_status")
    assert (
        status["scheduling_status"]
        == f"It waits for the request {two['uuid']}, which has not ended."
    )
    await it.run(two["container_uuid"])
    assert await priority(it, last) > 0
    assert [one["reason"] for one in (await why(it, last))["waits"]] == [
        "position",
        "no dispatcher",
    ]


async def test_one_that_failed_ends_it_while_it_waits_for_others(it: World) -> None:
    one, two, three = [await it.submit(name) for name in ("one", "two", "three")]
    last = await it.submit("last", depends_on=[one["uuid"], two["uuid"], three["uuid"]])
    await it.run(one["container_uuid"])
    assert (await read(it, last))["state"] == "Committed"
    await it.run(two["container_uuid"], exit_code=3)
    assert (await read(it, last))["state"] == "Final"


async def test_one_that_ended_well_and_was_deleted_ends_it(it: World) -> None:
    one, two = await it.submit("one"), await it.submit("two")
    last = await it.submit("last", depends_on=[one["uuid"], two["uuid"]])
    await it.run(one["container_uuid"])
    await it.ok("DELETE", f"container_requests/{one['uuid']}")
    assert (await read(it, last))["state"] == "Final"


@pytest.mark.parametrize("how", ["fails", "is cancelled", "is deleted"])
async def test_a_dependency_that_fails_ends_it_and_what_depends_on_that(
    it: World, how: str
) -> None:
    one = await it.submit("one")
    two = await it.submit("two", depends_on=[one["uuid"]])
    three = await it.submit("three", depends_on=[two["uuid"]])
    if how == "fails":
        await it.run(one["container_uuid"], exit_code=3)
    elif how == "is cancelled":
        await it.ok("POST", f"container_requests/{one['uuid']}/cancel")
    else:
        await it.ok("DELETE", f"container_requests/{one['uuid']}")
    assert [(await read(it, request))["state"] for request in (two, three)] == ["Final", "Final"]
    assert f"It depends on the request {one['uuid']}, which" in (await why(it, two))["outcome"]
    ended = await it.ok("GET", f"containers/{two['container_uuid']}")
    assert (ended["state"], one["uuid"] in ended["runtime_status"]["error"]) == ("Cancelled", True)


async def test_a_dependency_that_failed_before_ends_it_at_once(it: World) -> None:
    one = await it.submit("one")
    await it.run(one["container_uuid"], exit_code=3)
    two = await it.submit("two", depends_on=[one["uuid"]])
    assert (two["state"], two["container_uuid"]) == ("Final", None)
    assert "ended with exit code 3" in (await why(it, two))["outcome"]


async def test_a_dependency_that_ended_well_before_is_no_wait(it: World) -> None:
    one = await it.submit("one")
    await it.run(one["container_uuid"])
    assert await priority(it, await it.submit("two", depends_on=[one["uuid"]])) > 0


async def test_others_keep_the_container_of_a_request_that_ends_so(it: World) -> None:
    one = await it.submit("one")
    mine, theirs = await it.submit("two", depends_on=[one["uuid"]]), await it.submit("two")
    assert mine["container_uuid"] == theirs["container_uuid"]
    assert await priority(it, theirs) > 0
    await it.run(one["container_uuid"], exit_code=1)
    assert [(await read(it, request))["state"] for request in (mine, theirs)] == [
        "Final",
        "Committed",
    ]


async def test_what_it_may_depend_on(it: World) -> None:
    alice = await it.user("alice")
    mine = await it.submit("one")
    spec = await it.spec("two", token=alice, depends_on=[mine["uuid"]])
    refused = await it.request("POST", "container_requests", spec, token=alice)
    assert (refused.status, "not found" in refused.error) == (422, True)
    a = await it.submit("a", state="Uncommitted")
    b = await it.submit("b", state="Uncommitted", depends_on=[a["uuid"]])
    c = await it.submit("c", state="Uncommitted", depends_on=[b["uuid"]])
    for uuid in (a["uuid"], c["uuid"]):
        circle = await it.request("PUT", f"container_requests/{a['uuid']}", {"depends_on": [uuid]})
        assert (circle.status, "would wait for itself" in circle.error) == (422, True)


async def test_how_far_dependencies_may_reach(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_requests, "MAX_DEPENDENCIES", 1)
    one = await it.submit("one")
    two = await it.submit("two", depends_on=[one["uuid"]])
    draft = await it.submit("x", state="Uncommitted")
    refused = await it.request(
        "PUT", f"container_requests/{draft['uuid']}", {"depends_on": [two["uuid"]]}
    )
    assert "more than 1 requests" in refused.error


async def test_what_becomes_of_a_dependency_that_ended_well_matters_no_more(it: World) -> None:
    one = await it.submit("one")
    two = await it.submit("two", depends_on=[one["uuid"]])
    await it.run(one["container_uuid"])
    await it.ok("DELETE", f"container_requests/{one['uuid']}")
    await it.ok("PUT", f"container_requests/{two['uuid']}", {"priority": 2})
    assert await priority(it, two) > 1 << 50


async def test_a_cancelled_request_waits_for_nothing(it: World) -> None:
    one = await it.submit("one")
    two = await it.submit("two", depends_on=[one["uuid"]])
    await it.ok("POST", f"container_requests/{two['uuid']}/cancel")
    await it.run(one["container_uuid"])
    assert (await why(it, two))["waits"] == []
