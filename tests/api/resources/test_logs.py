"""Log rows of users, and who reads which."""

from __future__ import annotations

from lading.testing.world import World


async def test_custom_rows(it: World) -> None:
    token = await it.user("u")
    mine = (await it.ok("POST", "collections", {"name": "c"}, token=token))["uuid"]
    made = await it.ok(
        "POST", "logs", {"event_type": "note", "object_uuid": mine, "summary": "s"}, token=token
    )
    assert (made["object_kind"], made["summary"]) == ("arvados#collection", "s")
    assert made["event_at"] == made["created_at"]
    assert (await it.ok("GET", f"logs/{made['uuid']}", token=token))["id"] == made["id"]
    assert (await it.request("GET", f"logs/{made['uuid']}", token=await it.user("v"))).status == 404
    assert (await it.ok("POST", "logs", {"event_type": "note"}))["object_uuid"] is None


async def test_rows_of_the_server_are_not_forged(it: World) -> None:
    for event_type in ("create", "resolve"):
        assert (await it.request("POST", "logs", {"event_type": event_type})).status == 422
    for uuid in ("nonsense", "zzzzz-bi6l4-000000000000000"):
        assert (
            await it.request("POST", "logs", {"event_type": "x", "object_uuid": uuid})
        ).status == 422
    missing = {"event_type": "x", "object_uuid": "zzzzz-4zz18-000000000000009"}
    assert (await it.request("POST", "logs", missing)).status == 404


async def test_polling(it: World) -> None:
    last = (await it.ok("GET", "logs", params={"order": "id desc", "limit": 1}))["items"][0]["id"]
    await it.ok("POST", "collections", {"name": "c"})
    params = {"filters": [["id", ">", str(last)]], "order": "id asc"}
    items = (await it.ok("GET", "logs", params=params))["items"]
    assert [one["event_type"] for one in items] == ["create"]


async def test_requesters_read_about_their_containers(it: World) -> None:
    token = await it.user("u")
    uuid = (await it.submit(token=token))["container_uuid"]
    items = (
        await it.ok("GET", "logs", params={"filters": [["object_uuid", "=", uuid]]}, token=token)
    )["items"]
    assert [one["event_type"] for one in items] == ["create"]
