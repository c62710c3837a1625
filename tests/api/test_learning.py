"""Amounts that the containers of a tool needed (docs/spec/containers, section Learned amounts)."""

from __future__ import annotations

from typing import Any

import pytest

from lading.api.events import timers
from lading.core.records.schema import Record
from lading.testing.world import World, world
from tests.api.sharing_world import group, share, uuid_of
from tests.api.test_attempts import fail
from tests.api.test_retry_rules import NEEDS, RAM, container_of, ruled


async def learned(it: World, name: str = "a") -> Record:
    """A request that succeeded with twice the ram after its first attempt was killed."""
    request = await it.submit("tool", name, runtime_constraints=NEEDS, **ruled(oom={"factor": 2}))
    request = await fail(it, request, "oom")
    await it.run(request["container_uuid"])
    return request


@pytest.mark.parametrize(("mode", "times"), [("off", 1), ("suggest", 1), ("apply", 2)])
async def test_what_worked_is_remembered_for_the_tool(tmp_path: Any, mode: str, times: int) -> None:
    async with world(tmp_path, Containers={"LearnResources": mode}) as it:
        first = await learned(it)
        second = await it.submit("tool", "b", runtime_constraints=NEEDS)
        found = await container_of(it, second)
        assert found["runtime_constraints"]["ram"] == times * RAM
        why = await it.ok("GET", f"container_requests/{second['uuid']}/why")
        said = why["decision"].get("learned")
        if mode == "off":
            assert said is None
            return
        assert (said["ram"], said["asked_ram"], said["container_uuid"], said["applied"]) == (
            2 * RAM,
            RAM,
            first["container_uuid"],
            mode == "apply",
        )


async def test_a_preview_tells_what_was_learned(tmp_path: Any) -> None:
    async with world(tmp_path, Containers={"LearnResources": "apply"}) as it:
        await learned(it)
        wanted = await it.spec("tool", "b", runtime_constraints=NEEDS)
        answer = await it.ok("POST", "container_requests/preview", wanted)
        assert answer["learned"]["applied"] is True
        assert answer["recipe"]["runtime_constraints"]["ram"] == 2 * RAM


async def test_what_others_learned_is_not_told(tmp_path: Any) -> None:
    async with world(tmp_path, Containers={"LearnResources": "apply"}) as it:
        await learned(it)
        other = await it.user("other")
        second = await it.submit("tool", "b", token=other, runtime_constraints=NEEDS)
        assert (await container_of(it, second))["runtime_constraints"]["ram"] == RAM


async def test_lessons_are_told_to_who_can_read_the_container(tmp_path: Any) -> None:
    async with world(tmp_path, Containers={"LearnResources": "apply"}) as it:
        first = await learned(it)
        shared = await group(it, "shared")
        await share(it, await uuid_of(it, "other"), shared["uuid"], "can_read")
        second = await it.submit("tool", "b", runtime_constraints=NEEDS, owner_uuid=shared["uuid"])
        path = f"container_requests/{second['uuid']}/why"
        other = await it.user("other")
        assert "learned" in (await it.ok("GET", path))["decision"]
        assert "learned" not in (await it.ok("GET", path, token=other))["decision"]
        await it.ok("PUT", f"container_requests/{first['uuid']}", {"owner_uuid": shared["uuid"]})
        assert "learned" in (await it.ok("GET", path, token=other))["decision"]


async def test_lessons_are_forgotten_after_a_year(tmp_path: Any) -> None:
    async with world(tmp_path, Containers={"LearnResources": "apply"}) as it:
        await learned(it)
        it.clock.advance(401 * 86400)
        await timers.sweep(it.app.services)
        second = await it.submit("tool", "b", runtime_constraints=NEEDS)
        assert (await container_of(it, second))["runtime_constraints"]["ram"] == RAM
