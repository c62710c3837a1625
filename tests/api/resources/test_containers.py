"""Containers: who may do what with them."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.quantities import format_time
from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.stored_logs import log_texts


async def test_from_lock_to_end(it: World) -> None:
    request = await it.submit()
    uuid = request["container_uuid"]
    path = f"containers/{uuid}"
    locked = await it.ok("POST", f"{path}/lock", token=it.dispatcher)
    assert locked["state"] == "Locked"
    assert locked.keys() == {
        "uuid", "state", "priority", "auth_uuid", "locked_by_uuid", "kind", "etag",
        "supervisor_token",
    }  # fmt: skip
    supervisor = locked["supervisor_token"]
    seen = await it.ok("GET", path, token=supervisor)
    assert (seen["lock_count"], seen["secret_mounts_md5"]) == (
        1,
        "99914b932bd37a50b983c5e7c90ae93b",
    )
    assert "secret_mounts_md5" not in await it.ok("GET", path)
    running = await it.ok("PUT", path, {"container": {"state": "Running"}}, token=supervisor)
    assert running["started_at"] is not None
    ended = await it.ok("PUT", path, {"state": "Complete", "exit_code": 3}, token=supervisor)
    assert (ended["exit_code"], ended["auth_uuid"], ended["locked_by_uuid"]) == (3, None, None)
    assert (await it.request("GET", path, token=supervisor)).status == 401
    assert (await it.ok("GET", f"container_requests/{request['uuid']}"))["state"] == "Final"


async def test_the_supervisor_touches_nothing_else(it: World) -> None:
    mine, other = [(await it.submit(name))["container_uuid"] for name in "ab"]
    token = await it.lock(mine)
    for method, path in (
        ("GET", f"containers/{other}"),
        ("GET", "containers"),
        ("POST", "collections"),
        ("POST", f"containers/{mine}/lock"),
        ("GET", f"containers/{mine}/secret_mounts"),
    ):
        assert (await it.request(method, path, token=token)).status == 403
    assert (await it.ok("POST", f"containers/{mine}/unlock", token=token))["state"] == "Queued"
    assert (await it.request("GET", f"containers/{mine}", token=token)).status == 401


async def test_a_lock_can_answer_what_the_supervisor_would_ask_for(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    locked = await it.ok("POST", f"containers/{uuid}/lock", {"known": True}, token=it.dispatcher)
    supervisor = locked["supervisor_token"]
    assert locked["known"]["container"] == await it.ok(
        "GET", f"containers/{uuid}", token=supervisor
    )
    auth = await it.ok("GET", f"containers/{uuid}/auth", token=supervisor)
    assert locked["known"]["auth"] == {"uuid": auth["uuid"], "api_token": auth["api_token"]}


async def test_a_lock_can_make_a_container_running_and_clients_see_both_changes(it: World) -> None:
    container = (await it.submit())["container_uuid"]
    path = f"containers/{container}"
    image = (await it.ok("GET", path))["container_image"]
    body = {"ready_images": [image], "known": True}
    locked = await it.ok("POST", f"{path}/lock", body, token=it.dispatcher)
    assert (locked["state"], locked["known"]["container"]["state"]) == ("Running", "Running")
    seen = await it.ok("GET", path)
    assert seen["started_at"] is not None
    rows = await it.ok("GET", "logs", {"filters": [["object_uuid", "=", container]]})
    updates = [row for row in reversed(rows["items"]) if row["event_type"] == "update"]
    states = [row["properties"]["new_attributes"].get("state") for row in updates]
    assert [state for state in states if state] == ["Locked", "Running"]
    supervisor = locked["supervisor_token"]
    await it.ok("PUT", path, {"state": "Complete", "exit_code": 0}, token=supervisor)


async def test_a_lock_with_another_image_does_not_start(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    body = {"ready_images": ["acbd18db4cc2f85cedef654fccc4a4d8+3"]}
    locked = await it.ok("POST", f"containers/{uuid}/lock", body, token=it.dispatcher)
    assert locked["state"] == "Locked"


@pytest.mark.parametrize("given", ["x", [1], ["x"] * 101])
async def test_wrong_ready_images_are_refused(it: World, given: Any) -> None:
    uuid = (await it.submit())["container_uuid"]
    path, body = f"containers/{uuid}/lock", {"ready_images": given}
    refused = await it.request("POST", path, body, token=it.dispatcher)
    assert (refused.status, "ready_images: " in refused.error) == (422, True)


async def test_only_one_locks(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    await it.lock(uuid)
    again = await it.request("POST", f"containers/{uuid}/lock", token=it.dispatcher)
    assert (again.status, "cannot lock when Locked" in again.error) == (422, True)
    other = await it.user("u")
    assert (await it.request("POST", f"containers/{uuid}/unlock", token=other)).status == 404
    assert (await it.ok("POST", f"containers/{uuid}/unlock", token=it.dispatcher))[
        "state"
    ] == "Queued"
    assert (
        await it.request("POST", f"containers/{uuid}/lock", token=await it.user("u"))
    ).status == 404


async def test_a_lock_takes_the_first_alternative_that_can_be_locked(it: World) -> None:
    requests = [await it.submit(name) for name in "abcd"]
    first, held, free, last = [one["container_uuid"] for one in requests]
    await it.lock(first)
    await it.ok("PUT", f"container_requests/{requests[1]['uuid']}", {"priority": 0})
    body = {"alternatives": [held, f"{first[:-1]}0", free, last], "known": True}
    locked = await it.ok("POST", f"containers/{first}/lock", body, token=it.dispatcher)
    assert (locked["uuid"], locked["state"]) == (free, "Locked")
    assert locked["known"]["container"]["uuid"] == free
    assert [(one["uuid"], one["state"], one["priority"] > 0) for one in locked["passed"]] == [
        (first, "Locked", True),
        (held, "Queued", False),
    ]
    path = f"containers/{free}"
    await it.ok("PUT", path, {"state": "Running"}, token=locked["supervisor_token"])
    assert (await it.ok("GET", f"containers/{last}"))["state"] == "Queued"


async def test_a_lock_without_a_free_alternative_changes_nothing(it: World) -> None:
    first, other = [(await it.submit(name))["container_uuid"] for name in "ab"]
    tokens = [await it.lock(uuid) for uuid in (first, other)]
    path, body = f"containers/{first}/lock", {"alternatives": [other]}
    refused = await it.request("POST", path, body, token=it.dispatcher)
    assert (refused.status, "cannot lock when Locked" in refused.error) == (422, True)
    for uuid, token in zip((first, other), tokens, strict=True):
        assert (await it.ok("GET", f"containers/{uuid}", token=token))["lock_count"] == 1


@pytest.mark.parametrize("given", ["x", ["x"], [1], [{}], ["zzzzz-dz642-000000000000000"] * 101])
async def test_wrong_alternatives_are_refused(it: World, given: Any) -> None:
    uuid = (await it.submit())["container_uuid"]
    path, body = f"containers/{uuid}/lock", {"alternatives": given}
    refused = await it.request("POST", path, body, token=it.dispatcher)
    assert (refused.status, "alternatives: " in refused.error) == (422, True)
    assert (await it.ok("GET", f"containers/{uuid}"))["state"] == "Queued"


async def test_alternatives_are_for_dispatchers(it: World) -> None:
    request = await it.submit()
    other = (await it.submit("other"))["container_uuid"]
    path, body = f"containers/{request['container_uuid']}/lock", {"alternatives": [other]}
    # An error about the other one would tell that it waits.
    await it.lock(request["container_uuid"])
    refused = await it.request("POST", path, body, token=await it.user("u"))
    assert (refused.status, other in refused.error) == (404, False)


async def test_too_many_attempts_cancel(it: World) -> None:
    request = await it.submit(container_count_max=1)
    uuid = request["container_uuid"]
    for _ in range(10):
        await it.lock(uuid)
        last = await it.ok("POST", f"containers/{uuid}/unlock", token=it.dispatcher)
    assert last["state"] == "Cancelled"
    assert "MaxDispatchAttempts" in last["runtime_status"]["error"]


async def test_auth_is_for_who_locked_it(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    path = f"containers/{uuid}/auth"
    assert (await it.request("GET", path, token=it.dispatcher)).status == 403
    supervisor = await it.lock(uuid)
    assert (await it.request("GET", path)).status == 403
    by_dispatcher, by_supervisor = [
        await it.ok("GET", path, token=token) for token in (it.dispatcher, supervisor)
    ]
    assert by_dispatcher["api_token"] == by_supervisor["api_token"]
    token = f"v2/{by_dispatcher['uuid']}/{by_dispatcher['api_token']}"
    assert (await it.ok("GET", "users/current", token=token))["username"] == "admin"
    await it.ok("POST", f"containers/{uuid}/unlock", token=it.dispatcher)
    assert (await it.request("GET", "users/current", token=token)).status == 401


async def test_the_containers_own_token(it: World) -> None:
    request = await it.submit(secret_mounts={"/secret": {"kind": "text", "content": "xyzzy"}})
    assert "secret_mounts" not in request
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    token = await it.container_token(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    current = await it.ok("GET", "containers/current", token=token)
    assert current["uuid"] == uuid
    assert "secret_mounts" not in current
    secrets = await it.ok("GET", f"containers/{uuid}/secret_mounts", token=token)
    assert secrets == {"secret_mounts": {"/secret": {"kind": "text", "content": "xyzzy"}}}
    assert (await it.request("GET", f"containers/{uuid}/secret_mounts")).status == 403
    status = await it.ok(
        "PUT", f"containers/{uuid}", {"runtime_status": {"activity": "x"}}, token=token
    )
    assert status["runtime_status"] == {"activity": "x"}
    assert (await it.request("PUT", f"containers/{uuid}", {"priority": 1}, token=token)).status in (
        403,
        422,
    )
    assert (await it.request("GET", "containers/current")).status == 404
    logged = str(await log_texts(it))
    assert uuid in logged
    assert "xyzzy" not in logged


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"state": "Locked"}, 422),
        ({"state": "Queued"}, 422),
        ({"state": "nonsense"}, 422),
        ({"command": ["x"]}, 422),
        ({"nope": 1}, 422),
        ({"exit_code": "x"}, 422),
        ({"output": "nonsense"}, 422),
        ({"output": f"{'0' * 32}+5"}, 422),
        ({"auth_uuid": "x"}, 422),
        ({"runtime_status": {"error": 5}}, 422),
    ],
)
async def test_faults_change_nothing(it: World, body: Record, status: int) -> None:
    uuid = (await it.submit())["container_uuid"]
    supervisor = await it.lock(uuid)
    before = await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    reply = await it.request("PUT", f"containers/{uuid}", body, token=supervisor)
    assert reply.status == status
    assert "\n" not in reply.error
    assert await it.ok("GET", f"containers/{uuid}") == before


async def test_live_logs(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    supervisor = await it.lock(uuid)
    path = f"containers/{uuid}/live/stdout.txt"
    reply = await it.request("POST", path, raw=b"{not json", token=supervisor, params={"offset": 0})
    assert reply.json == {"length": 9}
    assert (
        await it.request("POST", path, raw=b"x", token=supervisor, params={"offset": 99})
    ).status == 409
    assert (
        await it.request("POST", path, raw=b"x", token=supervisor, params={"offset": "x"})
    ).status == 422
    assert (await it.request("POST", path, raw=b"x")).status == 403


async def test_update_priority(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    right = (await it.ok("GET", f"containers/{uuid}"))["priority"]
    assert (await it.ok("PUT", f"containers/{uuid}", {"priority": 5}))["priority"] == 5
    assert (await it.ok("POST", f"containers/{uuid}/update_priority"))["priority"] == right
    token = await it.user("u")
    assert (
        await it.request("POST", f"containers/{uuid}/update_priority", token=token)
    ).status == 403
    unknown = f"containers/{uuid[:-5]}00000/update_priority"
    assert (await it.request("POST", unknown)).status == 404


async def test_admins_make_and_delete(it: World) -> None:
    body = {
        "command": ["true"],
        "container_image": f"{'0' * 32}+5",
        "output_path": "/out",
        "mounts": {},
    }
    made = await it.ok("POST", "containers", {"container": body})
    assert (made["state"], made["priority"]) == ("Queued", 0)
    path = f"containers/{made['uuid']}"
    assert (await it.request("DELETE", path)).status == 422
    await it.ok("PUT", path, {"state": "Cancelled"})
    await it.ok("DELETE", path)
    assert (await it.request("GET", path)).status == 404
    assert (await it.request("POST", "containers", {**body, "command": []})).status == 422
    assert (await it.request("POST", "containers", {**body, "lock_count": 5})).status == 422
    assert (await it.request("POST", "containers", body, token=await it.user("u"))).status == 403


async def test_a_container_without_a_token(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    await it.lock(uuid)
    async with it.database.writing() as tx:
        await tx.execute("UPDATE containers SET auth_uuid = NULL WHERE uuid = ?", (uuid,))
    assert (await it.request("GET", f"containers/{uuid}/auth", token=it.dispatcher)).status == 404


async def running(it: World, request: Record) -> tuple[str, str]:
    """The tokens of the supervisor and of the container itself, which runs."""
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    own = await it.container_token(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    return supervisor, f"{own}/{uuid}"


async def test_the_container_says_how_far_it_is(it: World) -> None:
    request = await it.submit()
    supervisor, own = await running(it, request)
    path = f"containers/{request['container_uuid']}/progress"
    assert (await it.ok("POST", path, {"progress": 0.5}, token=own))["progress"] == 0.5
    assert (await it.ok("POST", path, {"container": {"progress": 0.75}}, token=own))[
        "progress"
    ] == 0.75
    for body in ({"progress": 2}, {"progress": "x"}, {}, {"progress": 0.5, "cost": 1.0}):
        assert (await it.request("POST", path, body, token=own)).status == 422
    for token in (it.admin, it.dispatcher, supervisor):
        assert (await it.request("POST", path, {"progress": 0.5}, token=token)).status == 403
    assert (
        await it.request("POST", path, {"progress": 0.5}, token=await it.user("bob"))
    ).status == 404


async def test_a_late_report_counts_only_to_the_end_of_the_command(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    path = f"containers/{uuid}"
    supervisor = await it.lock(uuid)
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    it.clock.advance(60)
    ended = format_time(it.clock())
    it.clock.advance(3600)
    report = {"state": "Complete", "exit_code": 0, "finished_at": ended}
    assert (await it.ok("PUT", path, report, token=supervisor))["finished_at"] == ended
    assert (await it.ok("GET", f"{path}/accounting"))["items"][-1]["end"] == ended


async def test_what_the_server_cancels_has_no_priority_left(it: World) -> None:
    request = await it.submit()
    await it.ok("POST", f"container_requests/{request['uuid']}/cancel")
    container = await it.ok("GET", f"containers/{request['container_uuid']}")
    assert (container["state"], container["priority"]) == ("Cancelled", 0)


async def test_a_dispatcher_gives_what_it_has_within_the_range(it: World) -> None:
    request = await it.submit(
        runtime_constraints={"ram": [1 << 28, 1 << 30], "vcpus": [1, 4], "internet": True}
    )
    assert request["runtime_constraints"]["ram"] == [1 << 28, 1 << 30]
    path = f"containers/{request['container_uuid']}"
    made = await it.ok("GET", path)
    assert (made["runtime_constraints"]["ram"], made["constraint_ranges"]["vcpus"]) == (
        1 << 28,
        [1, 4],
    )
    for amounts in ({"ram": 1 << 31}, {"vcpus": 0}, {"keep_cache_ram": 1}, [1]):
        refused = await it.request(
            "POST", f"{path}/lock", {"runtime_constraints": amounts}, token=it.dispatcher
        )
        assert refused.status == 422
    body = {"runtime_constraints": {"ram": 1 << 29, "vcpus": 3}}
    locked = await it.ok("POST", f"{path}/lock", body, token=it.dispatcher)
    assert locked["runtime_constraints"]["vcpus"] == 3
    await it.ok("POST", f"{path}/unlock", token=it.dispatcher)
    assert (await it.ok("GET", path))["runtime_constraints"]["vcpus"] == 1
    await it.ok("POST", f"{path}/lock", body, token=it.dispatcher)
    joined = await it.submit(runtime_constraints={"ram": 1 << 29, "vcpus": 3, "internet": True})
    outside = await it.submit(runtime_constraints={"ram": 1 << 29, "vcpus": [1, 2]})
    assert joined["container_uuid"] == request["container_uuid"] != outside["container_uuid"]
