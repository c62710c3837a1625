"""What becomes of requests and containers whose project goes into the trash
(docs/spec/containers).
"""

from __future__ import annotations

from datetime import timedelta

from lading.api.events.timers import sweep
from lading.core.records.schema import Record
from lading.testing.world import World


async def _project(it: World, token: str, **more: object) -> str:
    given = {"group_class": "project", "name": "p", **more}
    return str((await it.ok("POST", "groups", {"group": given}, token=token))["uuid"])


async def _priority(it: World, request: Record) -> int:
    return int((await it.ok("GET", f"containers/{request['container_uuid']}"))["priority"])


async def test_what_runs_for_it_stops_unless_others_want_it(it: World) -> None:
    ada = await it.user("ada")
    outer = await _project(it, ada)
    project = await _project(it, ada, owner_uuid=outer)
    alone = await it.submit("sleep", owner_uuid=project, token=ada)
    shared = await it.submit("date", owner_uuid=project, token=ada)
    other = await it.submit("date", token=ada)
    assert other["container_uuid"] == shared["container_uuid"]
    before = await _priority(it, shared)
    await it.ok("POST", f"groups/{outer}/trash", token=ada)
    assert await _priority(it, alone) == 0
    assert 0 < await _priority(it, shared) <= before
    await it.ok("POST", f"groups/{outer}/untrash", token=ada)
    assert await _priority(it, alone) > 0


async def test_no_result_lands_in_it(it: World) -> None:
    ada = await it.user("ada")
    project = await _project(it, ada)
    request = await it.submit("true", owner_uuid=project, token=ada)
    supervisor = await it.lock(request["container_uuid"])
    await it.ok(
        "PUT", f"containers/{request['container_uuid']}", {"state": "Running"}, token=supervisor
    )
    await it.ok("POST", f"groups/{project}/trash", token=ada)
    await it.finish(request["container_uuid"], supervisor)
    ended = await it.ok(
        "GET", f"container_requests/{request['uuid']}", params={"include_trash": True}, token=ada
    )
    assert (ended["state"], ended["output_uuid"], ended["log_uuid"]) == ("Final", None, None)


async def test_nothing_is_tried_again_for_it(it: World) -> None:
    ada = await it.user("ada")
    project = await _project(it, ada)
    request = await it.submit("true", owner_uuid=project, container_count_max=3, token=ada)
    supervisor = await it.lock(request["container_uuid"])
    await it.ok(
        "PUT", f"containers/{request['container_uuid']}", {"state": "Running"}, token=supervisor
    )
    await it.ok("POST", f"groups/{project}/trash", token=ada)
    await it.ok(
        "PUT", f"containers/{request['container_uuid']}", {"state": "Cancelled"}, token=supervisor
    )
    ended = await it.ok(
        "GET", f"container_requests/{request['uuid']}", params={"include_trash": True}, token=ada
    )
    assert (ended["state"], ended["container_count"]) == ("Final", 1)


async def test_its_owner_can_cancel(it: World) -> None:
    ada, eve = await it.user("ada"), await it.user("eve")
    project = await _project(it, ada)
    one = await it.submit("sleep", "1", owner_uuid=project, token=ada)
    two = await it.submit("sleep", "2", owner_uuid=project, token=ada)
    await it.ok("POST", f"groups/{project}/trash", token=ada)
    assert (
        await it.request("POST", f"container_requests/{one['uuid']}/cancel", token=eve)
    ).status == 404
    assert (await it.ok("POST", f"container_requests/{one['uuid']}/cancel", token=ada))[
        "state"
    ] == "Final"
    path = f"container_requests/{two['uuid']}"
    body = {"container_request": {"priority": 0}}
    assert (await it.request("PUT", path, body, token=ada)).status == 404
    await it.ok("PUT", path, body, params={"include_trash": True}, token=ada)


async def test_a_time_that_comes_later_counts_when_it_comes(it: World) -> None:
    ada = await it.user("ada")
    project = await _project(it, ada)
    request = await it.submit("sleep", owner_uuid=project, token=ada)
    soon = it.clock.moment + timedelta(seconds=30)
    await it.ok("PUT", f"groups/{project}", {"group": {"trash_at": soon.isoformat()}}, token=ada)
    await sweep(it.app.services)
    assert await _priority(it, request) > 0
    it.clock.moment += timedelta(seconds=60)
    await sweep(it.app.services)
    assert await _priority(it, request) == 0


async def test_what_is_moved_out_of_it_is_run(it: World) -> None:
    ada = await it.user("ada")
    project = await _project(it, ada)
    inner = await _project(it, ada, owner_uuid=project)
    request = await it.submit("sleep", owner_uuid=inner, token=ada)
    await it.ok("POST", f"groups/{project}/trash", token=ada)
    assert await _priority(it, request) == 0
    user = await it.ok("GET", "users/current", token=ada)
    body = {"container_request": {"owner_uuid": user["uuid"]}}
    await it.ok(
        "PUT",
        f"container_requests/{request['uuid']}",
        body,
        params={"include_trash": True},
        token=ada,
    )
    assert await _priority(it, request) > 0
