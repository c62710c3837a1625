"""Calls that cancel many requests: what they refuse, and the progress that they show."""

from __future__ import annotations

from lading.testing.world import World

_PROGRESS = "container_requests/cancellation"


async def test_the_answer_comes_at_once_and_is_shown_to_its_user_alone(it: World) -> None:
    alice, bob = await it.user("alice"), await it.user("bob")
    await it.submit("hers", token=alice)
    body = {"filters": [["name", "=", "x"]]}
    made = await it.ok("POST", "container_requests/cancel_matching", body, token=alice)
    expected = {"total": None, "cancelled": 0, "refused": 0, "finished_at": None, "error": ""}
    assert {name: made[name] for name in expected} == expected
    params = {"id": made["id"]}
    for token, status in ((alice, 200), (bob, 404), (None, 200)):
        assert (await it.request("GET", _PROGRESS, params=params, token=token)).status == status


async def test_filters_have_to_be_given_and_right(it: World) -> None:
    for body in ({}, {"filters": "all"}):
        refused = await it.request("POST", "container_requests/cancel_matching", body)
        assert refused.status == 400
    bad = await it.request(
        "POST", "container_requests/cancel_matching", {"filters": [["colour", "=", 1]]}
    )
    assert bad.status == 422
    lost = await it.request("GET", _PROGRESS, params={"id": "x"})
    assert (lost.status, "kept for a week" in lost.error) == (404, True)
