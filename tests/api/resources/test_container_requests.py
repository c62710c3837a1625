"""Container requests over HTTP: made, committed, sent back, cancelled, deleted."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from lading.testing.world import World


async def state_of(it: World, uuid: str) -> str:
    return str((await it.ok("GET", f"containers/{uuid}"))["state"])


async def test_commit_in_two_steps(it: World) -> None:
    draft = await it.submit(state="Uncommitted")
    assert (draft["state"], draft["container_uuid"]) == ("Uncommitted", None)
    path = f"container_requests/{draft['uuid']}"
    done = await it.ok("PUT", path, {**(await it.spec()), "state": "Committed", "priority": "7"})
    assert (done["state"], done["priority"], done["container_count"]) == ("Committed", 7, 1)
    assert await it.ok("PUT", path, done) == done
    assert await it.ok("GET", path) == done


async def test_finished_work_is_used_again(it: World) -> None:
    first = await it.submit()
    await it.run(first["container_uuid"])
    again = await it.submit()
    assert (again["state"], again["container_uuid"]) == ("Final", first["container_uuid"])
    output = await it.ok("GET", f"collections/{again['output_uuid']}")
    assert output["properties"]["container_request"] == again["uuid"]
    draft = await it.submit(state="Uncommitted")
    assert (await it.ok("PUT", f"container_requests/{draft['uuid']}", {"state": "Committed"}))[
        "state"
    ] == "Final"
    other = await it.submit(use_existing=False)
    assert other["container_uuid"] != first["container_uuid"]


async def test_running_work_is_shared(it: World) -> None:
    first, second = await it.submit(), await it.submit(priority=5)
    assert first["container_uuid"] == second["container_uuid"]
    assert (await it.ok("GET", f"containers/{first['container_uuid']}"))["priority"] > 4 << 50


async def test_priorities_follow(it: World) -> None:
    request = await it.submit(priority=0)
    path = f"container_requests/{request['uuid']}"
    container = f"containers/{request['container_uuid']}"
    assert (await it.ok("GET", container))["priority"] == 0
    assert (await it.request("POST", f"{container}/lock", token=it.dispatcher)).status == 422
    await it.ok("PUT", path, {"priority": 2})
    assert (await it.ok("GET", container))["priority"] > 1 << 50
    await it.ok("PUT", path, {"priority": 0})
    assert (await it.ok("GET", container))["priority"] == 0
    assert (await it.ok("GET", container))["state"] == "Queued"


async def test_cancel(it: World) -> None:
    alone = await it.submit("alone")
    ended = await it.ok("POST", f"container_requests/{alone['uuid']}/cancel")
    assert (ended["state"], ended["priority"]) == ("Final", 0)
    assert await state_of(it, alone["container_uuid"]) == "Cancelled"
    one, other = await it.submit(), await it.submit()
    await it.ok("POST", f"container_requests/{one['uuid']}/cancel")
    assert await state_of(it, other["container_uuid"]) == "Queued"
    draft = await it.submit(state="Uncommitted")
    assert (await it.ok("POST", f"container_requests/{draft['uuid']}/cancel"))[
        "state"
    ] == "Uncommitted"


async def test_cancelling_what_runs_leaves_it_to_the_dispatcher(it: World) -> None:
    request = await it.submit()
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    waiting = await it.ok("POST", f"container_requests/{request['uuid']}/cancel")
    assert (waiting["state"], (await it.ok("GET", f"containers/{uuid}"))["priority"]) == (
        "Committed",
        0,
    )
    await it.ok("PUT", f"containers/{uuid}", {"state": "Cancelled"}, token=supervisor)
    assert (await it.ok("GET", f"container_requests/{request['uuid']}"))["state"] == "Final"


async def test_final_and_delete_let_the_container_go(it: World) -> None:
    by_hand = await it.submit("a")
    await it.ok("PUT", f"container_requests/{by_hand['uuid']}", {"state": "Final"})
    assert await state_of(it, by_hand["container_uuid"]) == "Cancelled"
    deleted = await it.submit("b")
    await it.ok("DELETE", f"container_requests/{deleted['uuid']}")
    assert await state_of(it, deleted["container_uuid"]) == "Cancelled"
    draft = await it.submit(state="Uncommitted")
    await it.ok("DELETE", f"container_requests/{draft['uuid']}")
    assert (await it.request("GET", f"container_requests/{draft['uuid']}")).status == 404


async def test_a_request_that_was_made_final_by_hand_gets_the_log(it: World) -> None:
    user = await it.user("u")
    request = await it.submit(token=user)
    uuid, path = request["container_uuid"], f"container_requests/{request['uuid']}"
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    own = await it.container_token(uuid)
    log = await it.collection({"stderr.txt": b"hello"}, token=own)
    final = await it.ok("PUT", path, {"state": "Final"}, token=user)
    assert (final["log_uuid"], await state_of(it, uuid)) == (None, "Running")
    ended = {"state": "Cancelled", "log": log["portable_data_hash"]}
    await it.ok("PUT", f"containers/{uuid}", ended, token=supervisor)
    final = await it.ok("GET", path, token=user)
    kept = await it.ok("GET", f"collections/{final['log_uuid']}", token=user)
    assert kept["properties"] == {"type": "log", "container_request": request["uuid"]}
    assert "stderr.txt" in kept["manifest_text"]


async def test_properties_of_a_final_request(it: World) -> None:
    request = await it.submit()
    await it.run(request["container_uuid"])
    path = f"container_requests/{request['uuid']}"
    changed = await it.ok("PUT", path, {"container_request": {"properties": {"cwl_output": {}}}})
    assert changed["properties"] == {"cwl_output": {}}
    assert (await it.request("PUT", path, {"command": ["other"]})).status == 422


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"command": []}, "Command"),
        ({"command": "true"}, "Command"),
        ({"container_image": "no/such:image"}, 'docker image "no/such:image" not found'),
        ({"container_image": f"{'0' * 32}+5"}, "not found"),
        ({"output_path": "/elsewhere"}, "Output path"),
        ({"mounts": {"/out": {"kind": "tmp"}, "/../etc": {"kind": "tmp"}}}, "/../etc"),
        ({"mounts": {"/out": {"kind": "keep"}}}, "/out"),
        ({"runtime_constraints": {"vcpus": 0, "ram": 1}}, "vcpus"),
        ({"runtime_constraints": {"vcpus": 1, "ram": 1, "no magic": True}}, "no magic"),
        ({"priority": 1001}, "Priority"),
        ({"state": "Final"}, "State"),
        ({"colour": "red"}, "unknown attribute 'colour'"),
        # Containers alone have them, as in Arvados.
        ({"runtime_user_uuid": None}, "unknown attribute 'runtime_user_uuid'"),
        ({"runtime_auth_scopes": ["all"]}, "unknown attribute 'runtime_auth_scopes'"),
        ({"requesting_container_uuid": "zzzzz-dz642-000000000000009"}, "requesting_container_uuid"),
        ({"container_uuid": "zzzzz-dz642-000000000000009"}, "container_uuid"),
        ({"owner_uuid": "zzzzz-tpzed-000000000000009"}, "owner_uuid"),
        ({"output_ttl": 1 << 70}, "Output ttl"),
        ({"depends_on": ["x"]}, "Depends on"),
        ({"expires_at": "soon"}, "Expires at"),
        ({"start_after": 5}, "Start after"),
    ],
)
async def test_faults_store_nothing(it: World, more: Record, fault: str) -> None:
    before = (await it.ok("GET", "logs", params={"limit": 0}))["items_available"]
    spec = await it.spec()
    after_image = (await it.ok("GET", "logs", params={"limit": 0}))["items_available"]
    reply = await it.request("POST", "container_requests", {**spec, **more})
    assert reply.status == 422
    assert fault in reply.error
    assert "\n" not in reply.error
    assert (await it.ok("GET", "container_requests"))["items_available"] == 0
    assert (await it.ok("GET", "containers"))["items_available"] == 0
    assert (
        (await it.ok("GET", "logs", params={"limit": 0}))["items_available"]
        == after_image
        == before + 1
    )


async def test_requests_of_others(it: World) -> None:
    mine = await it.submit(token=await it.user("u"))
    other = await it.user("v")
    path = f"container_requests/{mine['uuid']}"
    for method, tail in (
        ("GET", ""),
        ("PUT", ""),
        ("DELETE", ""),
        ("POST", "/cancel"),
        ("GET", "/why"),
    ):
        assert (await it.request(method, f"{path}{tail}", token=other)).status == 404
    assert (await it.ok("GET", "container_requests", token=other))["items"] == []
    owner = (await it.ok("GET", "users/current"))["uuid"]
    assert (await it.ok("PUT", path, {"owner_uuid": owner}))["owner_uuid"] == owner


async def test_at_least_one_container_may_be_tried(it: World) -> None:
    refused = await it.request("POST", "container_requests", await it.spec(container_count_max=0))
    assert refused.status == 422
    assert "Container count max must be greater than or equal to 1" in refused.error


async def test_a_request_without_a_command_runs_that_of_the_image(it: World) -> None:
    request = await it.submit(command=None)
    assert (await it.ok("GET", f"containers/{request['container_uuid']}"))["command"] == []
    assert (await it.submit(command=None))["container_uuid"] == request["container_uuid"]
    gang = await it.spec(command=None, scheduling_parameters={"nodes": 2})
    assert "several nodes" in (await it.request("POST", "container_requests", gang)).error


async def test_log_and_output_name_what_is_there(it: World) -> None:
    request = await it.submit()
    path = f"container_requests/{request['uuid']}"
    for value in ("x", "zzzzz-4zz18-000000000000009"):
        reply = await it.request("PUT", path, {"log_uuid": value})
        assert (reply.status, f"log_uuid: '{value}' not found" in reply.error) == (422, True)
    made = await it.ok("POST", "collections", {"name": "log"})
    assert (await it.ok("PUT", path, {"log_uuid": made["uuid"]}))["log_uuid"] == made["uuid"]


async def test_a_token_names_only_results_that_it_may_read(it: World) -> None:
    path = f"container_requests/{(await it.submit())['uuid']}"
    collection = f"collections/{(await it.ok('POST', 'collections', {'name': 'log'}))['uuid']}"
    scopes = [f"PUT /arvados/v1/{path}", f"GET /arvados/v1/{collection}"]
    for granted, status in ((scopes[:1], 403), (scopes, 200)):
        token = await it.ok("POST", "api_client_authorizations", {"scopes": granted})
        named = {"log_uuid": collection.partition("/")[2]}
        reply = await it.request("PUT", path, named, token=token["api_token"])
        assert reply.status == status
