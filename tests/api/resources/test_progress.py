"""Status, explanation, preview."""

from __future__ import annotations

from lading.core.records.schema import JSON, Record
from lading.testing.world import World


async def test_container_status(it: World) -> None:
    draft = await it.submit(state="Uncommitted")
    path = f"container_requests/{draft['uuid']}/container_status"
    assert await it.ok("GET", path) == {
        "uuid": "",
        "container_state": "",
        "scheduling_status": "No container is assigned.",
    }
    uuid = (await it.submit())["container_uuid"]
    request = (await it.submit())["uuid"]
    path = f"container_requests/{request}/container_status"
    assert (await it.ok("GET", path))["scheduling_status"] == "Waiting in queue."
    assert await it.ok("POST", "dispatch/statuses", {"items": {uuid: "waits for 8 GiB"}}) == {
        "items": 1,
        "events": 0,
    }
    assert await it.ok("GET", path) == {
        "uuid": uuid,
        "container_state": "Queued",
        "scheduling_status": "waits for 8 GiB",
    }


async def test_statuses_come_from_dispatchers(it: World) -> None:
    assert (
        await it.request("POST", "dispatch/statuses", {"items": {}}, token=await it.user("u"))
    ).status == 403
    uuid = "zzzzz-dz642-000000000000000"
    said: list[JSON] = [
        5,
        {},
        {"reason": "a"},
        {"reason": "", "sentence": "x"},
        {"reason": "a", "sentence": "x" * 2001},
    ]
    wrong: list[JSON] = [[], {"a": "x"}, "x", *({uuid: one} for one in said), {uuid: "\0"}]
    for items in wrong:
        assert (await it.request("POST", "dispatch/statuses", {"items": items})).status == 422


async def test_why_new_and_why_reused(it: World) -> None:
    first = await it.submit("echo", "1")
    why = await it.ok("GET", f"container_requests/{first['uuid']}/why")
    assert (why["decision"]["decision"], why["decision"]["nearest"]) == ("new", None)
    await it.run(first["container_uuid"])
    again = await it.submit("echo", "1")
    why = await it.ok("GET", f"container_requests/{again['uuid']}/why")
    assert why["decision"]["decision"] == "reuse"
    assert why["decided_at"] is not None
    assert why["container"]["exit_code"] == 0
    other = await it.submit("echo", "2")
    why = await it.ok("GET", f"container_requests/{other['uuid']}/why")
    assert why["decision"]["nearest"]["container_uuid"] == first["container_uuid"]
    assert why["decision"]["nearest"]["differences"] == [
        {"field": "command[1]", "request": "2", "container": "1"}
    ]
    assert why["scheduling_status"] == "Waiting in queue."


async def test_why_of_a_draft_and_of_what_is_gone(it: World) -> None:
    draft = await it.submit(state="Uncommitted")
    why = await it.ok("GET", f"container_requests/{draft['uuid']}/why")
    assert (why["decision"], why["container"], why["decided_at"]) == (None, None, None)
    request = await it.submit()
    await it.ok("PUT", f"containers/{request['container_uuid']}", {"state": "Cancelled"})
    gone = await it.submit("other")
    async with it.database.writing() as tx:
        await tx.execute("DELETE FROM containers WHERE uuid = ?", (gone["container_uuid"],))
    assert (await it.ok("GET", f"container_requests/{gone['uuid']}/why"))["decision"][
        "nearest"
    ] is None


async def test_preview_stores_nothing(it: World) -> None:
    spec = await it.spec("echo", secret_mounts={"/s": {"kind": "text", "content": "xyzzy"}})
    shown = await it.ok("POST", "container_requests/preview", spec)
    assert (shown["decision"], shown["container_uuid"], shown["nearest"]) == ("new", None, None)
    assert shown["recipe"]["command"] == ["echo"]
    assert "xyzzy" not in str(shown)
    assert (await it.ok("GET", "containers"))["items_available"] == 0
    assert (await it.ok("GET", "container_requests"))["items_available"] == 0
    first = await it.submit("echo")
    await it.run(first["container_uuid"])
    spec = await it.spec("echo", state="Uncommitted", priority=None)
    again = await it.ok("POST", "container_requests/preview", {"container_request": spec})
    assert (again["decision"], again["container_uuid"]) == ("reuse", first["container_uuid"])
    assert again["container_state"] == "Complete"
    reply = await it.request(
        "POST", "container_requests/preview", await it.spec(container_image="no:image")
    )
    assert reply.status == 422


async def test_why_it_waits(it: World) -> None:
    first = await it.submit("first", priority=9)
    held = await it.submit("held", priority=0)
    second = await it.submit("second", priority=1)

    async def waits(request: Record) -> list[tuple[str, str]]:
        answer = await it.ok("GET", f"container_requests/{request['uuid']}/why")
        return [(one["reason"], one["sentence"]) for one in answer["waits"]]

    assert (await waits(held))[0] == (
        "priority",
        "It is on hold: its priority is 0. Raise the priority to have it run.",
    )
    assert (await waits(second))[0][1].startswith("1 container waits before it")
    sentence = "Too large for this dispatcher: it needs 9 VCPUs, the largest worker has 2."
    items: Record = {second["container_uuid"]: sentence}
    await it.ok("POST", "dispatch/statuses", {"items": items}, token=it.dispatcher)
    assert (await waits(second))[1] == ("dispatcher", sentence)
    items = {second["container_uuid"]: {"reason": "too large", "sentence": sentence}}
    await it.ok("POST", "dispatch/statuses", {"items": items}, token=it.dispatcher)
    assert (await waits(second))[1] == ("too large", sentence)
    await it.lock(first["container_uuid"])
    reason, words = (await waits(first))[0]
    assert (reason, it.dispatcher.split("/")[1] in words) == ("lock", True)


async def test_why_a_child_waits(it: World) -> None:
    parent = await it.submit("parent")
    uuid = parent["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    child = await it.submit("child", requesting_container_uuid=uuid)
    await it.ok("PUT", f"container_requests/{parent['uuid']}", {"priority": 0})
    answer = await it.ok("GET", f"container_requests/{child['uuid']}/why")
    assert [one["reason"] for one in answer["waits"]] == ["parent"]


async def test_why_says_what_is_wrong_with_the_image(it: World) -> None:
    async def image(request: Record) -> list[str]:
        answer = await it.ok("GET", f"container_requests/{request['uuid']}/why")
        return [one["sentence"] for one in answer["waits"] if one["reason"] == "image"]

    draft = await it.submit("a", state="Uncommitted", container_image="no:such")
    assert await image(draft) == [
        'It cannot be committed: docker image "no:such" not found; '
        "add it with `lading image add`, or name another one."
    ]
    fine = await it.submit("a", state="Uncommitted")
    waiting = await it.submit("b")
    assert (await image(fine), await image(waiting)) == ([], [])
    found = await it.collections(select=["uuid", "portable_data_hash"])
    uuid = next(
        one["uuid"] for one in found if one["portable_data_hash"] == waiting["container_image"]
    )
    await it.ok("POST", f"collections/{uuid}/trash")
    assert "is in the trash or deleted" in (await image(waiting))[0]
    assert "It cannot be committed" in (await image(fine))[0]


async def test_why_names_the_attempt_before(it: World) -> None:
    again = {"retry": {"image": {"limit": 1}}}
    request = await it.submit(scheduling_parameters=again)
    supervisor = await it.lock(request["container_uuid"])
    status = {"failure": "image", "error": "image x: cannot be read"}
    path = f"containers/{request['container_uuid']}"
    activity = {"runtime_status": {"activity": "unpacking its image"}}
    await it.ok("PUT", path, activity, token=supervisor)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert [one["sentence"] for one in why["waits"] if one["reason"] == "image"] == [
        "Now: unpacking its image."
    ]
    await it.ok("PUT", path, {"state": "Cancelled", "runtime_status": status}, token=supervisor)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert (
        [one["uuid"] for one in why["attempts"]]
        == why["attempted_container_uuids"]
        == [request["container_uuid"]]
    )
    assert why["attempts"][0]["runtime_status"] == status
    assert [one["reason"] for one in why["waits"]] == ["position", "no dispatcher", "image"]
    assert why["waits"][-1]["sentence"].endswith(
        "failed (failure class image): image x: cannot be read"
    )


async def test_a_silent_dispatcher_is_not_believed(it: World) -> None:
    request = await it.submit()
    path = f"container_requests/{request['uuid']}/why"

    async def first() -> tuple[str, str]:
        answer = await it.ok("GET", path)
        return answer["waits"][1]["reason"], answer["scheduling_status"]

    assert (await first())[0] == "no dispatcher"
    await it.ok("POST", "dispatch/statuses", {"items": {}}, token=it.dispatcher)
    assert (await first())[0] == "unreported"
    items = {request["container_uuid"]: {"reason": "quota", "sentence": "The quota is 1."}}
    await it.ok("POST", "dispatch/statuses", {"items": items}, token=it.dispatcher)
    assert await first() == ("quota", "The quota is 1.")
    it.clock.advance(200)
    assert await first() == ("no dispatcher", "Waiting in queue.")
