"""Which containers a call finds, and which results its user may give them."""

from __future__ import annotations

from lading.testing.world import World


async def test_readable_through_a_request(it: World) -> None:
    token = await it.user("u")
    request = await it.submit(token=token)
    path = f"containers/{request['container_uuid']}"
    assert (await it.ok("GET", path, token=token))["state"] == "Queued"
    assert (await it.ok("GET", "containers", token=token))["items_available"] == 1
    other = await it.user("v")
    assert (await it.request("GET", path, token=other)).status == 404
    assert (await it.ok("GET", "containers", token=other))["items"] == []
    assert (await it.request("PUT", path, {"state": "Cancelled"}, token=token)).status == 403


async def test_outputs_must_be_readable_by_the_container(it: World) -> None:
    token = await it.user("u")
    uuid = (await it.submit(token=token))["container_uuid"]
    supervisor = await it.lock(uuid)
    own = await it.container_token(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    foreign = (await it.collection({"a": b"x"}))["portable_data_hash"]
    for caller in (own, supervisor):
        reply = await it.request("PUT", f"containers/{uuid}", {"output": foreign}, token=caller)
        assert (reply.status, "Output collection must exist" in reply.error) == (422, True)
    reply = await it.request("PUT", f"containers/{uuid}", {"log": foreign}, token=supervisor)
    assert (reply.status, "log: " in reply.error) == (422, True)
    mine = (await it.collection({"a": b"y"}, token=token))["portable_data_hash"]
    for caller in (own, supervisor):
        assert (await it.ok("PUT", f"containers/{uuid}", {"output": mine}, token=caller))[
            "output"
        ] == mine
    assert (await it.ok("PUT", f"containers/{uuid}", {"log": mine}, token=supervisor))[
        "log"
    ] == mine
