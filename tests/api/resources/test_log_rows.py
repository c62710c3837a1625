"""Log rows of users, and who reads which."""

from __future__ import annotations

from lading.core.containers.container import DecisionKind
from lading.core.records.log_rows import RUN_TYPES, LogRowType
from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, uuid_of


async def rows(it: World, token: str, **params: JSON) -> list[Record]:
    found: list[Record] = (await it.ok("GET", "logs", params=params, token=token))["items"]
    return found


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
    for event_type in {*LogRowType, *DecisionKind} - {DecisionKind.NOT_DISPATCHED}:
        assert (await it.request("POST", "logs", {"event_type": event_type})).status == 422
    for uuid in ("nonsense", "zzzzz-bi6l4-000000000000000"):
        assert (
            await it.request("POST", "logs", {"event_type": "x", "object_uuid": uuid})
        ).status == 422
    missing = {"event_type": "x", "object_uuid": "zzzzz-4zz18-000000000000009"}
    assert (await it.request("POST", "logs", missing)).status == 404


async def test_decisions_are_of_who_holds_the_container(it: World) -> None:
    token = await it.user("u")
    request = await it.submit(token=token)
    uuid = request["container_uuid"]

    async def post(by: str, about: str | None = uuid) -> int:
        body = {"event_type": "dispatch", "object_uuid": about, "summary": "forged"}
        return (await it.request("POST", "logs", body, token=by)).status

    for by in (token, it.admin, it.dispatcher):
        assert await post(by) == 403
    assert (await post(token, request["uuid"]), await post(token, None)) == (403, 403)
    await it.lock(uuid)
    own = await it.container_token(uuid)
    for by in (token, it.admin, own):
        assert await post(by) == 403
    # Arvados' dispatchers say so why they could not start it.
    assert await post(it.dispatcher) == 200
    (said,) = (await it.ok("GET", f"container_requests/{request['uuid']}/why"))["dispatch"]
    assert (said["event_type"], said["text"]) == ("dispatch", "forged")
    for event_type in ("stderr", "crunch-run"):
        body = {"event_type": event_type, "object_uuid": uuid, "properties": {"text": "t"}}
        assert (await it.request("POST", "logs", body, token=token)).status == 200


async def test_readers_write_no_word_of_whoever_ran_it(it: World) -> None:
    owner, reader, writer = await it.user("u"), await it.user("v"), await it.user("w")
    place = await group(it, "shared", token=owner)
    for name, level in (("v", "can_read"), ("w", "can_write")):
        await share(it, await uuid_of(it, name), place["uuid"], level, token=owner)
    request = await it.submit(token=owner, owner_uuid=place["uuid"])
    file = await it.ok("POST", "collections", {"owner_uuid": place["uuid"]}, token=owner)
    await it.lock(request["container_uuid"])

    async def post(by: str, about: str, **row: JSON) -> int:
        body = {"event_type": "note", "object_uuid": about, **row}
        return (await it.request("POST", "logs", body, token=by)).status

    old = "2001-01-01T00:00:00Z"
    for about in (request["uuid"], request["container_uuid"], file["uuid"]):
        assert await post(reader, about) == 200
        for forged in ({"event_at": old}, *({"event_type": one} for one in RUN_TYPES)):
            assert await post(reader, about, **forged) == 403
            assert await post(owner, about, **forged) == 200
            assert await post(it.admin, about, **forged) == 200
    for forged in ({"event_at": old}, {"event_type": "stderr"}):
        assert await post(writer, request["uuid"], **forged) == 200
        # Who may change a request did not run its container.
        assert await post(writer, request["container_uuid"], **forged) == 403
        assert await post(it.dispatcher, request["container_uuid"], **forged) == 200


async def test_a_decision_names_to_each_reader_what_it_can_read(it: World) -> None:
    owner, reader = await it.user("u"), await it.user("v")
    first = await it.submit("echo", "same", token=owner)
    place = await group(it, "shared", token=owner)
    await share(it, await uuid_of(it, "v"), place["uuid"], "can_read", token=owner)
    there = {"token": owner, "owner_uuid": place["uuid"]}
    ran = await it.submit("echo", "same", use_existing=False, **there)
    await it.run(ran["container_uuid"])
    request = await it.submit("echo", "same", **there)
    hidden = first["container_uuid"]
    mine = {"filters": [["object_uuid", "=", request["uuid"]], ["event_type", "=", "resolve"]]}
    (row,) = await rows(it, owner, **mine)
    assert hidden in str(row["properties"]["candidates"])
    (seen,) = await rows(it, reader, **mine)
    assert hidden not in str(seen)
    assert seen["properties"]["decision"] == row["properties"]["decision"]
    assert hidden not in str(await it.ok("GET", f"logs/{row['uuid']}", token=reader))
    assert hidden not in str(await rows(it, reader, select=["properties"], **mine))
    # The hits of filters and distinct rows would tell as much.
    for asked in (
        {"filters": [["properties.candidates", "exists", True]]},
        {"filters": [["properties", "contains", "candidates"]]},
        {"distinct": True, "select": ["properties"]},
    ):
        assert hidden not in str(await rows(it, reader, **asked))
        page = await it.ok("GET", "logs", params={**asked, "count": "exact"}, token=reader)
        assert page["items_available"] == len(await rows(it, reader, **asked))


async def test_rows_of_users_may_have_the_properties_of_a_decision(it: World) -> None:
    token = await it.user("u")
    forms: list[Record] = [
        {"candidates": [1]}, {"candidates": [{"container_uuid": 5}]}, {"candidates": {}},
        {"candidates": [], "learned": [1]}, {"candidates": [{"container_uuid": [], "reason": {}}]},
    ]  # fmt: skip
    for properties in forms:
        body = {"event_type": "note", "properties": properties}
        made = await it.ok("POST", "logs", body, token=token)
        shown = await it.ok("GET", f"logs/{made['uuid']}", token=token)
        assert shown["event_type"] == "note"


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


async def test_a_moved_record_does_not_show_its_past(it: World) -> None:
    owner, reader = await it.user("u"), await it.user("v")
    private = await group(it, "codename", token=owner)
    shared = await group(it, "shared", token=owner)
    await share(it, await uuid_of(it, "v"), shared["uuid"], "can_read", token=owner)
    secret = {"name": "codename", "description": "codename", "properties": {"k": "codename"}}
    body = {**secret, "owner_uuid": private["uuid"]}
    uuid = (await it.ok("POST", "collections", body, token=owner))["uuid"]
    present = {"name": "public", "description": "", "properties": {}}
    changes = {**present, "owner_uuid": shared["uuid"]}
    await it.ok("PUT", f"collections/{uuid}", changes, token=owner)
    mine = {"filters": [["object_uuid", "=", uuid]]}
    (seen,) = await rows(it, reader, **mine)
    assert seen["properties"].keys() == {"old_etag", "new_etag", "new_attributes"}
    assert seen["properties"]["new_attributes"]["name"] == "public"
    for text in ("codename", private["uuid"]):
        assert text not in str(await rows(it, reader))
        assert text not in str(await it.ok("GET", f"logs/{seen['uuid']}", token=reader))
    # The hits of filters and distinct rows would tell as much.
    for asked in (
        {"filters": [["properties", "contains", "old_attributes"]]},
        {"where": {"properties": {"old_etag": seen["properties"]["old_etag"]}}},
        {"distinct": True, "select": ["properties"]},
    ):
        assert private["uuid"] in str(await rows(it, owner, **asked))
        assert private["uuid"] not in str(await rows(it, reader, **asked))
        page = await it.ok("GET", "logs", params={**asked, "count": "exact"}, token=reader)
        assert page["items_available"] == len(await rows(it, reader, **asked))
    # Who reads both places reads all.
    await share(it, await uuid_of(it, "v"), private["uuid"], "can_read", token=owner)
    whole = await rows(it, reader, **mine)
    assert [one["event_type"] for one in whole] == ["update", "create"]
    assert whole[0]["properties"]["old_attributes"]["owner_uuid"] == private["uuid"]


async def test_a_record_that_is_shared_by_itself_does_not_show_its_past(it: World) -> None:
    owner, reader = await it.user("u"), await it.user("v")
    private = await group(it, "private", token=owner)
    inner = await group(it, "codename", token=owner, owner_uuid=private["uuid"])
    await it.ok("PUT", f"groups/{inner['uuid']}", {"name": "public"}, token=owner)
    await share(it, await uuid_of(it, "v"), inner["uuid"], "can_read", token=owner)
    assert "codename" not in str(await rows(it, reader))
    await it.ok("PUT", f"groups/{inner['uuid']}", {"name": "public 2"}, token=owner)
    (seen,) = await rows(it, reader, filters=[["object_uuid", "=", inner["uuid"]]])
    assert seen["properties"]["new_attributes"]["name"] == "public 2"


async def test_rows_about_webhooks_are_for_managers(it: World) -> None:
    owner, reader, manager = await it.user("u"), await it.user("v"), await it.user("w")
    place = await group(it, "shared", token=owner)
    await share(it, await uuid_of(it, "v"), place["uuid"], "can_write", token=owner)
    await share(it, await uuid_of(it, "w"), place["uuid"], "can_manage", token=owner)
    body = {"url": "https://a.example/", "name": "codename", "owner_uuid": place["uuid"]}
    await it.ok("POST", "webhooks", body, token=owner)
    assert "codename" not in str(await rows(it, reader))
    assert "codename" in str(await rows(it, manager))
