"""Containers that no machine can hold."""

from __future__ import annotations

import pytest

from lading.testing.world import World

TOO_LARGE = {"reason": "too large", "sentence": "Too large for this dispatcher."}


async def warning_of(it: World, uuid: str) -> object:
    return (await it.ok("GET", f"containers/{uuid}"))["runtime_status"].get("warning")


async def say(
    it: World, uuid: str, status: object, *, misfit: bool = False, token: str | None = None
) -> None:
    body = {"items": {uuid: status}, "misfits": [uuid] if misfit else []}
    await it.ok("POST", "dispatch/statuses", body, token=token)


async def test_clients_are_warned_of_a_container_that_no_machine_can_hold(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    await say(it, uuid, TOO_LARGE)
    assert await warning_of(it, uuid) is None
    await say(it, uuid, TOO_LARGE, misfit=True)
    assert await warning_of(it, uuid) == "Too large for this dispatcher."
    await say(it, uuid, {"reason": "capacity", "sentence": "It is next."})
    assert await warning_of(it, uuid) is None


async def test_a_warning_ends_when_somebody_takes_the_container(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    await say(it, uuid, TOO_LARGE, misfit=True)
    await it.ok("POST", f"containers/{uuid}/lock", token=it.dispatcher)
    assert await warning_of(it, uuid) is None


async def test_nobody_is_warned_while_another_dispatcher_can_run_it(it: World) -> None:
    uuid = (await it.submit())["container_uuid"]
    await say(it, uuid, {"reason": "capacity", "sentence": "It is next."}, token=it.dispatcher)
    await say(it, uuid, TOO_LARGE, misfit=True)
    assert await warning_of(it, uuid) is None
    await say(it, uuid, "", token=it.dispatcher)
    await say(it, uuid, TOO_LARGE, misfit=True)
    assert await warning_of(it, uuid) == "Too large for this dispatcher."


@pytest.mark.parametrize("misfits", ["x", [1], ["x"] * 10_001])
async def test_misfits_that_are_none(it: World, misfits: object) -> None:
    answer = await it.request("POST", "dispatch/statuses", {"items": {}, "misfits": misfits})
    assert answer.status == 422
