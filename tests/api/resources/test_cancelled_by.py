"""`why` tells who cancelled a request."""

from __future__ import annotations

from lading.testing.world import World


async def test_why_tells_who_cancelled(it: World) -> None:
    ada = await it.user("ada")
    request = await it.submit("echo", "1", token=ada)
    path = f"container_requests/{request['uuid']}"
    assert (await it.ok("GET", f"{path}/why"))["cancelled"] is None
    await it.ok("POST", f"{path}/cancel", token=ada)
    await it.ok("PUT", path, {"name": "renamed since"})
    why = await it.ok("GET", f"{path}/why")
    assert why["outcome"].startswith("ada cancelled it at 20")
    assert (why["cancelled"]["name"], why["state"]) == ("ada", "Final")


async def test_why_tells_who_cancelled_what_runs(it: World) -> None:
    request = await it.submit("echo", "1")
    supervisor = await it.lock(request["container_uuid"])
    path = f"containers/{request['container_uuid']}"
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    await it.ok("POST", f"container_requests/{request['uuid']}/cancel")
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert " cancelled it at 20" in why["outcome"]
    assert "Its container has been running" in why["outcome"]
    await it.ok("PUT", path, {"state": "Cancelled"}, token=supervisor)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert why["outcome"].endswith(". Its container was cancelled.")


async def test_what_the_server_cancelled_has_no_canceller(it: World) -> None:
    parent = (await it.submit("echo", "1"))["container_uuid"]
    supervisor = await it.lock(parent)
    await it.ok("PUT", f"containers/{parent}", {"state": "Running"}, token=supervisor)
    child = await it.submit("echo", "2", requesting_container_uuid=parent)
    await it.ok("PUT", f"containers/{parent}", {"state": "Cancelled"}, token=supervisor)
    why = await it.ok("GET", f"container_requests/{child['uuid']}/why")
    assert (why["state"], why["cancelled"]) == ("Final", None)
