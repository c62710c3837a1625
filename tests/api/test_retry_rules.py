"""Retries by rules (docs/spec/containers, section Retry): rules of requests, projects and the
configuration, delays, and amounts that grow.
"""

from __future__ import annotations

from typing import Any

import pytest

from lading.api.events import timers
from lading.core.quantities import told_time
from lading.core.records.schema import Record
from lading.testing.world import World, world
from tests.api.test_attempts import fail

RAM = 1 << 28
NEEDS = {"vcpus": 1, "ram": RAM}


def ruled(**rules: Any) -> dict[str, Any]:
    """Scheduling parameters with rules for retries."""
    return {"scheduling_parameters": {"retry": rules}}


async def container_of(it: World, request: Record) -> Record:
    found: Record = await it.ok("GET", f"containers/{request['container_uuid']}")
    return found


async def project(it: World, name: str, **more: Any) -> str:
    made = await it.ok("POST", "groups", {"group_class": "project", "name": name, **more})
    return str(made["uuid"])


async def test_a_memory_hog_gets_more_ram_until_it_fits(it: World) -> None:
    request = await it.submit(runtime_constraints=NEEDS, **ruled(oom={"factor": 2}))
    assert "retry" not in (await container_of(it, request))["scheduling_parameters"]
    for times in (2, 4):
        request = await fail(it, request, "oom", cost=0.5)
        constraints = (await container_of(it, request))["runtime_constraints"]
        assert constraints["ram"] == times * RAM
    assert request["runtime_constraints"]["ram"] == RAM, "the request stays as it was"
    await it.run(request["container_uuid"], cost=0.25)
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert [
        (one["failure"], one["reason"], one["cost"], one["runtime_constraints"]["ram"] // RAM)
        for one in (*why["attempts"], why["container"])
    ] == [("oom", "it is oom", 0.5, 1), ("oom", "it is oom", 0.5, 2), (None, "", 0.25, 4)]
    again = await it.submit(runtime_constraints=NEEDS)
    assert again["container_uuid"] == request["container_uuid"], "ram does not count for reuse"


async def test_the_next_attempt_says_what_it_has_more(it: World) -> None:
    request = await it.submit(runtime_constraints=NEEDS, **ruled(oom={"factor": 2}))
    request = await fail(it, request, "oom")
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert why["waits"][-1]["sentence"].startswith(
        "It is tried again with 512.0 MiB of ram in place of 256.0 MiB: the attempt before, "
    )


async def test_a_full_disk_gets_more_disk(it: World) -> None:
    request = await it.submit(**ruled(disk={"factor": 4, "limit": 1}))
    request = await fail(it, request, "disk")
    assert (await container_of(it, request))["scheduling_parameters"]["disk_factor"] == 4.0
    assert (await fail(it, request, "disk"))["state"] == "Final"


async def test_a_delay_holds_the_next_attempt_back(it: World) -> None:
    request = await it.submit(**ruled(node={"delay": 60}))
    request = await fail(it, request, "node")
    assert (await container_of(it, request))["priority"] == 0
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert {"reason": "retry delay", "sentence": _paused(request)} in why["waits"]
    assert await timers.act(it.app.services) == request["retry_after"]
    it.clock.advance(61)
    assert await timers.act(it.app.services) is None
    assert (await container_of(it, request))["priority"] > 0


def _paused(request: Record) -> str:
    return f"Its last attempt failed; it is tried again after {told_time(request['retry_after'])}."


async def test_projects_have_rules_and_those_within_come_first(it: World) -> None:
    outer = await project(it, "outer", container_policy={"retry": {"user": {"limit": 2}}})
    inner = await project(it, "inner", owner_uuid=outer)
    request = await fail(it, await it.submit(owner_uuid=inner), "user")
    assert request["container_count"] == 2
    policy = {"container_policy": {"retry": {"user": {"limit": 1}}}}
    await it.ok("PUT", f"groups/{inner}", policy)
    assert (await fail(it, request, "user"))["state"] == "Final"
    own = await it.submit("own", owner_uuid=inner, **ruled(user={"limit": 0}))
    assert (await fail(it, own, "user"))["state"] == "Final"


async def test_the_configuration_has_rules(tmp_path: Any) -> None:
    rules = {"oom": {"factor": 2, "most": RAM * 3}}
    async with world(tmp_path, Containers={"Retry": rules}) as it:
        request = await it.submit(runtime_constraints=NEEDS, container_count_max=9)
        for times in (2, 3):
            request = await fail(it, request, "oom")
            found = await container_of(it, request)
            assert found["runtime_constraints"]["ram"] == times * RAM
        assert (await fail(it, request, "oom"))["state"] == "Final", "there is no more to give"


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ({"moon": {}}, "Scheduling parameters [retry]: moon: must be one of user, oom"),
        ({"oom": {"factor": 99}}, "Scheduling parameters [retry].oom.factor: must be a number"),
    ],
)
async def test_a_rule_that_is_none_is_refused(it: World, rules: Any, fault: str) -> None:
    answer = await it.request("POST", "container_requests", await it.spec(**ruled(**rules)))
    assert (answer.status, fault in answer.error) == (422, True), answer.error


async def test_only_projects_have_a_policy_and_it_is_checked(it: World) -> None:
    role = {"group_class": "role", "name": "r", "container_policy": {"retry": {"oom": {}}}}
    answer = await it.request("POST", "groups", role)
    assert (answer.status, "only projects have one" in answer.error) == (422, True)
    wrong = {"group_class": "project", "name": "p", "container_policy": {"retry": {"moon": {}}}}
    answer = await it.request("POST", "groups", wrong)
    assert (answer.status, "container_policy.retry: moon" in answer.error) == (422, True)


async def test_a_client_sets_neither_the_delay_nor_the_factor(it: World) -> None:
    late = await it.request(
        "POST", "container_requests", await it.spec(retry_after="2030-01-01T00:00:00Z")
    )
    assert late.status == 422
    wide = await it.request(
        "POST", "container_requests", await it.spec(scheduling_parameters={"disk_factor": 3})
    )
    assert (wide.status, "unexpected keys [disk_factor]" in wide.error) == (422, True)
