"""What follows from an end: collections, retries, children, costs, priorities."""

from __future__ import annotations

import pytest

from lading.api.server.wait_statuses import STATUSES
from lading.core.records.schema import JSON, Record
from lading.testing.world import WITH_API, World


async def running(it: World, uuid: str) -> tuple[str, str]:
    """Lock and start a container; its supervisor's token and its own."""
    supervisor = await it.lock(uuid)
    own = await it.container_token(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    return supervisor, own


async def report(it: World, uuid: str, token: str, **attributes: JSON) -> None:
    await it.ok("PUT", f"containers/{uuid}", attributes, token=token)


async def get(it: World, uuid: str) -> Record:
    plural = "containers" if "-dz642-" in uuid else "container_requests"
    found: Record = await it.ok("GET", f"{plural}/{uuid}")
    return found


async def test_each_request_keeps_log_and_output(it: World) -> None:
    one = await it.submit(output_name="result", output_ttl=100, output_properties={"a": 1})
    two = await it.submit(output_name="result")
    await it.run(one["container_uuid"], output_properties={"b": 2})
    ends = [await get(it, request["uuid"]) for request in (one, two)]
    outputs = [await it.ok("GET", f"collections/{end['output_uuid']}") for end in ends]
    assert outputs[0]["name"] == "result"
    assert outputs[1]["name"].startswith("result (")
    assert outputs[0]["trash_at"] is not None
    assert outputs[0]["delete_at"] > outputs[0]["trash_at"]
    assert outputs[0]["properties"] == {
        "type": "output",
        "container_request": one["uuid"],
        "a": 1,
        "b": 2,
    }
    log = await it.ok("GET", f"collections/{ends[0]['log_uuid']}")
    assert log["file_count"] == 2
    whole = await it.ok(
        "GET", "collections", params={"filters": [["name", "like", "Container log for container%"]]}
    )
    assert whole["items_available"] == 2


@pytest.mark.parametrize("state", ["Complete", "Cancelled"])
async def test_its_tokens_end_with_a_container(it: World, state: str) -> None:
    uuid = (await it.submit())["container_uuid"]
    tokens = await running(it, uuid)
    for token in tokens:
        assert (await it.request("GET", f"containers/{uuid}", token=token)).status == 200
    log = await it.collection({"crunch-run.txt": b"x"}, is_trashed=True)
    end = {"exit_code": 0, "output": log["portable_data_hash"]} if state == "Complete" else {}
    await report(it, uuid, tokens[0], state=state, log=log["portable_data_hash"], **end)
    for token in tokens:
        assert (await it.request("GET", f"containers/{uuid}", token=token)).status == 401


async def test_a_cancelled_container_is_tried_again(it: World) -> None:
    request = await it.submit(container_count_max=2)
    first = request["container_uuid"]
    supervisor, _ = await running(it, first)
    log = await it.collection({"crunch-run.txt": b"first"}, is_trashed=True)
    end = {"state": "Cancelled", "log": log["portable_data_hash"], "cost": 1.5}
    await it.ok("PUT", f"containers/{first}", end, token=supervisor)
    again = await get(it, request["uuid"])
    second = again["container_uuid"]
    assert (again["state"], again["container_count"], again["cumulative_cost"]) == (
        "Committed",
        2,
        1.5,
    )
    assert again["attempted_container_uuids"] == [first]
    assert second != first
    assert (await get(it, second))["priority"] == (await get(it, second))["priority"] > 0
    await it.run(second)
    final = await get(it, request["uuid"])
    assert (final["state"], final["log_uuid"]) == ("Final", again["log_uuid"])
    text = (await it.ok("GET", f"collections/{final['log_uuid']}"))["unsigned_manifest_text"]
    assert f"log\\040for\\040container\\040{first}" in text
    assert f"log\\040for\\040container\\040{second}" in text
    for uuid in (first, second):
        reply = await it.request(
            "GET", f"container_requests/{request['uuid']}/log/{uuid}/crunch-run.txt"
        )
        assert reply.body == (b"first" if uuid == first else second.encode())


async def test_a_retry_without_a_log(it: World) -> None:
    request = await it.submit(container_count_max=2)
    supervisor, _ = await running(it, request["container_uuid"])
    await it.ok(
        "PUT", f"containers/{request['container_uuid']}", {"state": "Cancelled"}, token=supervisor
    )
    again = await get(it, request["uuid"])
    assert (again["container_count"], again["log_uuid"]) == (2, None)
    supervisor, _ = await running(it, again["container_uuid"])
    await it.ok(
        "PUT", f"containers/{again['container_uuid']}", {"state": "Cancelled"}, token=supervisor
    )
    assert (await get(it, request["uuid"]))["state"] == "Final"


async def test_children_belong_to_the_container_that_made_them(it: World) -> None:
    parent = await it.submit("parent", priority=3, runtime_constraints=WITH_API)
    supervisor, own = await running(it, parent["container_uuid"])
    waiting = await it.submit("waiting", token=own, priority=900)
    assert waiting["requesting_container_uuid"] == parent["container_uuid"]
    assert waiting["priority"] == 3
    priority = (await get(it, parent["container_uuid"]))["priority"]
    assert (await get(it, waiting["container_uuid"]))["priority"] == priority
    under_way = await it.submit("under way", token=own)
    await running(it, under_way["container_uuid"])
    done = await it.submit("done", token=own)
    await it.run(done["container_uuid"], cost=2.0)
    assert (await get(it, parent["container_uuid"]))["subrequests_cost"] == 2.0
    await it.ok("PUT", f"container_requests/{parent['uuid']}", {"priority": 1})
    assert (await get(it, under_way["container_uuid"]))["priority"] < priority
    await it.ok(
        "PUT",
        f"containers/{parent['container_uuid']}",
        {"state": "Complete", "exit_code": 0},
        token=supervisor,
    )
    assert (await get(it, waiting["uuid"]))["state"] == "Final"
    assert (await get(it, waiting["container_uuid"]))["state"] == "Cancelled"
    assert (await get(it, under_way["uuid"]))["state"] == "Committed"
    assert (await get(it, under_way["container_uuid"]))["priority"] == 0
    assert (await get(it, done["uuid"]))["state"] == "Final"
    output = await it.ok("GET", f"collections/{(await get(it, done['uuid']))['output_uuid']}")
    assert output["properties"]["type"] == "intermediate"


async def test_a_cascade_reaches_grandchildren(it: World) -> None:
    top = await it.submit("top", container_count_max=1, runtime_constraints=WITH_API)
    supervisor, own = await running(it, top["container_uuid"])
    one, two = await it.submit("same", token=own), await it.submit("same", token=own)
    assert one["container_uuid"] == two["container_uuid"]
    await it.ok(
        "PUT", f"containers/{top['container_uuid']}", {"state": "Cancelled"}, token=supervisor
    )
    assert {(await get(it, request["uuid"]))["state"] for request in (top, one, two)} == {"Final"}
    assert (await get(it, one["container_uuid"]))["state"] == "Cancelled"


async def test_admins_act_for_a_container(it: World) -> None:
    parent = await it.submit("parent")
    await running(it, parent["container_uuid"])
    child = await it.submit("child", requesting_container_uuid=parent["container_uuid"])
    assert child["requesting_container_uuid"] == parent["container_uuid"]
    orphan = {**(await it.spec("x")), "requesting_container_uuid": parent["container_uuid"]}
    user = await it.user("u")
    orphan["container_image"] = await it.ensure_image(user)
    assert (await it.request("POST", "container_requests", orphan, token=user)).status == 422


async def test_the_log_collection_grows_with_the_run(it: World) -> None:
    request = await it.submit()
    supervisor, _ = await running(it, request["container_uuid"])
    uuids = []
    for content in (b"one", b"one two"):
        log = await it.collection({"stdout.txt": content}, is_trashed=True)
        await it.ok(
            "PUT",
            f"containers/{request['container_uuid']}",
            {"log": log["portable_data_hash"]},
            token=supervisor,
        )
        uuids.append((await get(it, request["uuid"]))["log_uuid"])
    assert uuids[0] == uuids[1]
    assert (await it.ok("GET", f"collections/{uuids[0]}"))["file_size_total"] == 14
    await it.ok(
        "PUT",
        f"containers/{request['container_uuid']}",
        {"state": "Complete", "exit_code": 1},
        token=supervisor,
    )
    assert (await get(it, request["uuid"]))["log_uuid"] == uuids[0]


async def test_an_end_with_a_lost_output_is_refused(it: World) -> None:
    request = await it.submit()
    supervisor, _ = await running(it, request["container_uuid"])
    output = await it.collection({"a": b"x"})
    await it.ok(
        "PUT",
        f"containers/{request['container_uuid']}",
        {"output": output["portable_data_hash"]},
        token=supervisor,
    )
    async with it.database.writing() as tx:
        await tx.execute("DELETE FROM collections WHERE uuid = ?", (output["uuid"],))
    reply = await it.request(
        "PUT",
        f"containers/{request['container_uuid']}",
        {"state": "Complete", "exit_code": 0},
        token=supervisor,
    )
    assert (reply.status, "Output collection must exist" in reply.error) == (422, True)
    assert (await get(it, request["uuid"]))["state"] == "Committed"


async def test_the_spool_goes_with_the_saved_log(it: World) -> None:
    request = await it.submit()
    supervisor = await it.lock(request["container_uuid"])
    items = {request["container_uuid"]: "about to start"}
    await it.ok("POST", "dispatch/statuses", {"items": items}, token=it.dispatcher)
    await it.request(
        "POST", f"containers/{request['container_uuid']}/live/a.txt", raw=b"x", token=supervisor
    )
    await it.ok("POST", f"containers/{request['container_uuid']}/unlock", token=supervisor)
    assert it.app.services.access.spool.names(request["container_uuid"]) == ["a.txt"]
    await it.run(request["container_uuid"])
    assert it.app.services.access.spool.names(request["container_uuid"]) == []
    async with it.database.reading() as tx:
        now = it.app.services.clock.now()
        assert (
            await it.app.services.features[STATUSES].about(tx, request["container_uuid"], now) == []
        )


async def test_a_draft_is_asked_for_by_a_running_container(it: World) -> None:
    parent = await it.submit("parent", priority=7)
    uuid = parent["container_uuid"]
    draft = await it.submit("child", state="Uncommitted")
    path = f"container_requests/{draft['uuid']}"
    early = await it.request("PUT", path, {"requesting_container_uuid": uuid})
    assert (early.status, "Queued, not Running" in early.error) == (422, True)
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    named = await it.ok("PUT", path, {"requesting_container_uuid": uuid})
    assert (named["requesting_container_uuid"], named["priority"]) == (uuid, 7)
    alice = await it.user("alice")
    hers = await it.spec("child", token=alice, requesting_container_uuid=uuid)
    assert (
        "not a container that this token acts for"
        in (await it.request("POST", "container_requests", hers, token=alice)).error
    )
    await it.ok("PUT", f"containers/{uuid}", {"state": "Cancelled"}, token=supervisor)
    late = await it.request("PUT", path, {"state": "Committed"})
    assert (late.status, "has ended" in late.error) == (422, True)
