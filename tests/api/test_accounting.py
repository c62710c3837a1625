"""Intervals of allocation, and costs of child requests."""

from __future__ import annotations

from lading.testing.world import World


async def test_a_child_that_is_cancelled_charges_what_its_attempts_cost(it: World) -> None:
    parent = await it.submit("parent")
    uuid = parent["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    children = [
        await it.submit(f"child{number}", requesting_container_uuid=uuid) for number in range(3)
    ]
    for child in children:
        attempt = child["container_uuid"]
        token = await it.lock(attempt)
        await it.ok("PUT", f"containers/{attempt}", {"state": "Running"}, token=token)
        await it.ok(
            "PUT", f"containers/{attempt}", {"state": "Cancelled", "cost": 2.0}, token=token
        )
    first, second, third = (f"container_requests/{child['uuid']}" for child in children)
    assert (await it.ok("POST", f"{first}/cancel"))["cumulative_cost"] == 2.0
    await it.ok("PUT", second, {"state": "Final"})
    await it.ok("DELETE", third)
    assert (await it.ok("GET", f"containers/{uuid}"))["subrequests_cost"] == 6.0


async def test_who_held_resources_at_which_priority(it: World) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    first = await it.submit(token=alice, priority=3)
    uuid = first["container_uuid"]
    path = f"containers/{uuid}/accounting"
    assert await it.ok("GET", path) == {"items": []}
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    second = await it.submit(token=bob, priority=5)
    await it.ok("PUT", f"container_requests/{first['uuid']}", {"priority": 4}, token=alice)
    await it.ok("DELETE", f"container_requests/{second['uuid']}", token=bob)
    open_ones = [one for one in (await it.ok("GET", path))["items"] if one["end"] is None]
    assert [one["container_request_priority"] for one in open_ones] == [4]
    await it.ok(
        "PUT", f"containers/{uuid}", {"state": "Complete", "exit_code": 0}, token=supervisor
    )
    items = (await it.ok("GET", path))["items"]
    facts = [
        (one["container_request_uuid"], one["container_request_priority"], one["container_state"])
        for one in items
    ]
    assert facts == [
        (first["uuid"], 3, "Locked"),
        (first["uuid"], 3, "Running"),
        (second["uuid"], 5, "Running"),
        (first["uuid"], 4, "Running"),
    ]
    assert all(one["start"] < one["end"] for one in items)
    users = [(await it.ok("GET", "users/current", token=token))["uuid"] for token in (alice, bob)]
    assert [one["user_uuid"] for one in items] == [users[0], users[0], users[1], users[0]]
    assert len((await it.ok("GET", path, token=alice))["items"]) == 3
    assert (await it.request("GET", path, token=bob)).status == 404
