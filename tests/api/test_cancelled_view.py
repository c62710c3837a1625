"""What readers are shown between the call of a cancellation and its rows."""

from __future__ import annotations

import pytest

from lading.api import cancelled_view
from lading.api.background.request_cancellation import CancellationWorker
from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, uuid_of

QUEUE: JSON = [["state", "=", "Queued"], ["priority", ">", 0]]


async def ask(it: World, *filters: JSON, token: str | None = None) -> None:
    body = {"filters": list(filters)}
    await it.ok("POST", "container_requests/cancel_matching", body, token=token)


async def listed(it: World, plural: str, *filters: JSON, **more: JSON) -> list[Record]:
    params = {"filters": list(filters), **more}
    found: Record = await it.ok("GET", plural, params=params)
    assert found["items_available"] == len(found["items"])
    rows: list[Record] = found["items"]
    return rows


async def uuids(it: World, plural: str, *filters: JSON, **more: JSON) -> set[str]:
    return {row["uuid"] for row in await listed(it, plural, *filters, **more)}


@pytest.mark.parametrize("filters", [[], [["name", "=", "a"]]], ids=["all", "some"])
async def test_readers_are_shown_the_end_at_once(it: World, filters: list[JSON]) -> None:
    first = await it.submit("1", name="a", use_existing=False)
    await ask(it, *filters)
    later = await it.submit("2", name="b", use_existing=False)
    for _ in range(2):
        shown = await it.ok("GET", f"container_requests/{first['uuid']}")
        assert (shown["state"], shown["priority"]) == ("Final", 0)
        shown = await it.ok("GET", f"containers/{first['container_uuid']}")
        assert (shown["state"], shown["priority"]) == ("Cancelled", 0)
        for committed in (["state", "=", "Committed"], ["state", "in", ["Committed", "x"]]):
            assert await uuids(it, "container_requests", committed) == {later["uuid"]}
        named = ["name", "=", "a"]
        assert not await uuids(it, "container_requests", ["state", "=", "Committed"], named)
        assert await uuids(it, "container_requests", ["state", "!=", "Committed"]) == {
            first["uuid"]
        }
        assert await uuids(it, "container_requests", ["priority", "=", 0]) == {first["uuid"]}
        (row,) = await listed(it, "container_requests", ["state", "=", "Final"])
        assert (row["uuid"], row["state"], row["priority"]) == (first["uuid"], "Final", 0)
        assert await uuids(it, "containers", *list(QUEUE)) == {later["container_uuid"]}
        waiting = ["container.state", "=", "Queued"]
        assert await uuids(it, "container_requests", waiting) == {later["uuid"]}
        assert await uuids(it, "containers", ["state", "=", "Cancelled"]) == {
            first["container_uuid"]
        }
        await CancellationWorker(it.app.services).work()


async def test_contents_and_included_containers_are_shown_so(it: World) -> None:
    place = await group(it, "work")
    request = await it.submit("1", owner_uuid=place["uuid"])
    await ask(it, ["owner_uuid", "=", place["uuid"]])
    found = await it.ok(
        "GET", f"groups/{place['uuid']}/contents", params={"include": ["container_uuid"]}
    )
    (row,), (container,) = found["items"], found["included"]
    assert (row["uuid"], row["state"]) == (request["uuid"], "Final")
    assert container["state"] == "Cancelled"
    committed = {"filters": [["container_requests.state", "=", "Committed"]]}
    found = await it.ok("GET", f"groups/{place['uuid']}/contents", params=committed)
    assert found["items"] == []


async def test_a_container_that_others_want_waits_on(it: World) -> None:
    token = await it.user("u")
    first = await it.submit("1", name="a", token=token)
    other = await it.submit("1", name="b", token=token)
    assert first["container_uuid"] == other["container_uuid"]
    await ask(it, ["name", "=", "a"])
    assert await uuids(it, "containers", *list(QUEUE)) == {first["container_uuid"]}
    assert await uuids(it, "container_requests", ["state", "=", "Committed"]) == {other["uuid"]}


async def test_what_runs_is_shown_as_it_is(it: World) -> None:
    request = await it.submit("1")
    supervisor = await it.lock(request["container_uuid"])
    path = f"containers/{request['container_uuid']}"
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    await ask(it)
    assert (await it.ok("GET", f"container_requests/{request['uuid']}"))["state"] == "Committed"
    assert await uuids(it, "container_requests", ["state", "=", "Committed"]) == {request["uuid"]}
    assert (await it.ok("GET", path))["state"] == "Running"


async def test_what_its_user_may_not_change_is_shown_as_it_is(it: World) -> None:
    owner, reader = await it.user("u"), await it.user("v")
    place = await group(it, "shared", token=owner)
    await share(it, await uuid_of(it, "v"), place["uuid"], "can_read", token=owner)
    request = await it.submit("1", token=owner, owner_uuid=place["uuid"])
    own = await it.submit("2", token=reader)
    await ask(it, token=reader)
    assert await uuids(it, "container_requests", ["state", "=", "Committed"]) == {request["uuid"]}
    assert await uuids(it, "container_requests", ["state", "=", "Final"]) == {own["uuid"]}


async def test_frozen_projects_are_shown_as_they_are(it: World) -> None:
    place = await group(it, "frozen")
    request = await it.submit("1", owner_uuid=place["uuid"])
    me = (await it.ok("GET", "users/current"))["uuid"]
    await it.ok("PUT", f"groups/{place['uuid']}", {"frozen_by_uuid": me})
    await ask(it)
    assert await uuids(it, "container_requests", ["state", "=", "Committed"]) == {request["uuid"]}


async def test_a_user_who_is_not_active_cancels_nothing(it: World) -> None:
    token = await it.user("u")
    request = await it.submit("1", token=token)
    await ask(it, token=token)
    await it.ok("PUT", f"users/{await uuid_of(it, 'u')}", {"is_active": False})
    assert (await it.ok("GET", f"container_requests/{request['uuid']}"))["state"] == "Committed"


async def test_why_says_who_and_that_it_is_over(it: World) -> None:
    ada = await it.user("ada")
    request = await it.submit("1", token=ada)
    await ask(it, token=ada)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert (why["state"], why["priority"], why["container"]["state"]) == ("Final", 0, "Cancelled")
    assert why["outcome"].startswith("ada cancelled it at 20")
    assert why["cancelled"]["user_uuid"] == await uuid_of(it, "ada")


async def test_distinct_values_are_those_that_are_stored(it: World) -> None:
    await it.submit("1")
    await ask(it)
    found = await it.ok("GET", "container_requests", params={"select": ["state"], "distinct": True})
    assert [row["state"] for row in found["items"]] == ["Committed"]


async def test_a_change_meets_what_readers_are_shown(it: World) -> None:
    request = await it.submit("1")
    path = f"container_requests/{request['uuid']}"
    await ask(it)
    refused = await it.request("PUT", path, {"priority": 5})
    assert refused.status == 422
    assert (await it.ok("PUT", path, {"name": "renamed"}))["state"] == "Final"
    assert (await it.ok("POST", f"{path}/cancel"))["state"] == "Final"
    assert (await it.ok("DELETE", path))["state"] == "Final"


async def test_many_exceptions_are_passed_by(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancelled_view, "MOST_EXCEPTIONS", 1)
    first = await it.submit("1", name="a", use_existing=False)
    others = [await it.submit(str(n), use_existing=False) for n in range(2)]
    await ask(it, ["name", "=", "a"])
    committed = await uuids(it, "container_requests", ["state", "=", "Committed"])
    assert committed == {one["uuid"] for one in others}
    assert await uuids(it, "containers", *list(QUEUE)) == {one["container_uuid"] for one in others}
    assert await uuids(it, "container_requests", ["state", "=", "Final"]) == {first["uuid"]}


async def test_two_cancellations_at_once(it: World) -> None:
    for name in ("a", "b", "c"):
        await it.submit(name, name=name)
    for name in ("a", "b"):
        await ask(it, ["name", "=", name])
    rows = await listed(it, "container_requests", ["state", "=", "Committed"])
    assert [row["name"] for row in rows] == ["c"]
    assert len(await listed(it, "containers", *list(QUEUE))) == 1
