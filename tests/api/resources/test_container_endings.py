"""Ends of containers that their dispatcher does not report."""

from __future__ import annotations

import pytest

from lading.api.events import timers
from lading.api.server.upkeep import UPKEEP
from lading.core.policy import orphans
from lading.core.records.schema import Record
from lading.testing.world import World


async def running(it: World) -> tuple[Record, str]:
    request = await it.submit(token=await it.user("ann"))
    supervisor = await it.lock(request["container_uuid"])
    path = f"containers/{request['container_uuid']}"
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    return request, supervisor


async def lose(it: World, how: str = "delete") -> None:
    """End the dispatcher's token."""
    path = f"api_client_authorizations/{it.dispatcher.split('/')[1]}"
    if how == "delete":
        await it.ok("DELETE", path)
    else:
        await it.ok("PUT", path, {"expires_at": "2026-01-01T00:00:00Z"})
    await timers.act(it.app.services)


async def state(it: World, request: Record) -> Record:
    found: Record = await it.ok("GET", f"containers/{request['container_uuid']}")
    return found


@pytest.mark.parametrize("how", ["delete", "expire"])
async def test_what_a_lost_dispatcher_has_locked_is_given_back(it: World, how: str) -> None:
    request = await it.submit()
    await it.lock(request["container_uuid"])
    await lose(it, how)
    found = await state(it, request)
    assert (found["state"], found["locked_by_uuid"]) == ("Queued", None)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert why["dispatch"][-1]["text"] == orphans.GIVEN_BACK


async def test_a_running_container_ends_once_its_supervisor_is_silent(it: World) -> None:
    request, supervisor = await running(it)
    path = f"containers/{request['container_uuid']}"
    await lose(it)
    assert (await state(it, request))["state"] == "Running"
    it.clock.advance(orphans.SUPERVISOR_LEASE - 10)
    body = {"raw": b"said", "params": {"offset": "0"}, "token": supervisor}
    await it.ok("POST", f"{path}/live/stderr.txt", **body)
    it.clock.advance(60)
    await timers.act(it.app.services)
    assert (await state(it, request))["state"] == "Running"
    it.clock.advance(orphans.SUPERVISOR_LEASE)
    await timers.act(it.app.services)
    found = await state(it, request)
    assert (found["state"], found["runtime_status"]["error"]) == ("Cancelled", orphans.SILENT)
    assert found["log"] is not None
    # Its request is tried again.
    after = await it.ok("GET", f"container_requests/{request['uuid']}")
    assert after["container_uuid"] != request["container_uuid"]
    assert (await it.request("GET", path, token=supervisor)).status == 401


async def test_its_supervisor_can_still_report_the_end(it: World) -> None:
    request, supervisor = await running(it)
    await lose(it)
    body = {"state": "Complete", "exit_code": 0}
    await it.ok("PUT", f"containers/{request['container_uuid']}", body, token=supervisor)
    await timers.act(it.app.services)
    assert (await it.ok("GET", f"container_requests/{request['uuid']}"))["state"] == "Final"
    assert not it.app.services.features[UPKEEP].orphans


async def test_the_owner_cancels_what_has_no_dispatcher(it: World) -> None:
    request, _ = await running(it)
    await lose(it)
    path = f"container_requests/{request['uuid']}"
    await it.ok("POST", f"{path}/cancel", token=await it.user("ann"))
    await timers.act(it.app.services)
    found = await state(it, request)
    assert (found["state"], found["runtime_status"]["error"]) == ("Cancelled", orphans.UNWANTED)
    assert (await it.ok("GET", path))["state"] == "Final"


async def test_a_dispatcher_whose_user_is_no_admin_any_more_is_lost(it: World) -> None:
    user = await it.ok("POST", "users", {"user": {"username": "op", "is_admin": True}})
    scopes = ["POST /arvados/v1/dispatch/statuses", "POST /arvados/v1/containers/"]
    body = {"owner_uuid": user["uuid"], "scopes": scopes}
    token = await it.ok("POST", "api_client_authorizations", body)
    request = await it.submit()
    secret = f"v2/{token['uuid']}/{token['api_token']}"
    await it.ok("POST", f"containers/{request['container_uuid']}/lock", token=secret)
    await timers.act(it.app.services)
    assert (await state(it, request))["state"] == "Locked"
    await it.ok("PUT", f"users/{user['uuid']}", {"is_admin": False})
    await timers.act(it.app.services)
    assert (await state(it, request))["state"] == "Queued"


async def test_a_container_of_the_root_token_is_no_orphan(it: World) -> None:
    request = await it.submit()
    path = f"containers/{request['container_uuid']}"
    await it.ok("POST", f"{path}/lock", token=it.config.SystemRootToken)
    await timers.act(it.app.services)
    assert (await state(it, request))["state"] == "Locked"


@pytest.mark.parametrize("is_running", [False, True])
async def test_an_admin_ends_what_a_dispatcher_holds(it: World, is_running: bool) -> None:
    request = await it.submit(container_count_max=1)
    path = f"containers/{request['container_uuid']}"
    supervisor = await it.lock(request["container_uuid"])
    if is_running:
        await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    for token in (await it.user("ann"), supervisor, it.dispatcher):
        reply = await it.request("POST", f"{path}/cancel", token=token)
        assert reply.status in (403, 404)
    ended = await it.ok("POST", f"{path}/cancel", {"reason": "hangs"})
    said = "Ended by the administrator admin: hangs"
    assert (ended["state"], ended["runtime_status"]["error"]) == ("Cancelled", said)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert why["dispatch"][-1]["text"] == said
    assert (await it.request("POST", f"{path}/cancel")).status == 422


async def test_an_admin_gives_back_what_a_dispatcher_has_locked(it: World) -> None:
    request = await it.submit()
    await it.lock(request["container_uuid"])
    path = f"containers/{request['container_uuid']}/unlock"
    assert (await it.ok("POST", path))["state"] == "Queued"
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert why["dispatch"][-1]["text"] == "Given back by the administrator admin."
