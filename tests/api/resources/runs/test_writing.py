"""Runs that are begun, ended, and given earlier requests."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from lading.testing.world import World
from tests.api.resources.runs.runs_world import begin, steps


async def test_an_end_that_its_program_reports(it: World) -> None:
    run = await begin(it, "r")
    ended = await it.ok(
        "POST", f"groups/{run['uuid']}/end_run", {"outcome": "failed", "note": "no reads"}
    )
    assert (ended["state"], ended["note"]) == ("failed", "no reads")
    assert ended["ended_at"]


async def test_requests_that_were_there_before_are_added(it: World) -> None:
    old = await it.submit("old")
    await it.run(old["container_uuid"])
    it.clock.advance(3600)
    run = await begin(it, "r")
    body = {"uuids": [old["uuid"]], "step": "first"}
    added = await it.ok("POST", f"groups/{run['uuid']}/add_to_run", body)
    assert added["counts"]["done"] == 1
    moved = await it.ok("GET", f"container_requests/{old['uuid']}")
    assert moved["owner_uuid"] == run["uuid"]
    output = await it.ok("GET", f"collections/{moved['output_uuid']}")
    assert output["owner_uuid"] == run["uuid"]
    assert (await steps(it, run))[0]["properties"]["lading_step"] == "first"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, "name: must be"),
        ({"name": "a/b"}, "no slash"),
        ({"name": "r", "params": 5}, "params: must be"),
        ({"name": "r", "params": {"k": "x" * 20_000}}, "16384 at most"),
        ({"name": "r", "attempt": 3}, "no attempt 3"),
        ({"name": "r", "attempt": "x"}, "attempt: must be"),
        ({"name": "plain"}, "is no run"),
        ({"name": "r", "project": 5}, "project: must be"),
        ({"name": "r", "session": "x" * 2000}, "session: must be"),
    ],
)
async def test_faults(it: World, body: Record, fault: str) -> None:
    await it.ok("POST", "groups", {"name": "plain", "group_class": "project"})
    reply = await it.request("POST", "groups/begin_run", body)
    assert (reply.status, fault in reply.error) == (422, True), reply.error


async def test_a_name_that_is_taken_and_an_attempt_that_is_not_there(it: World) -> None:
    run = await begin(it, "r")
    path = f"groups/{run['uuid']}"
    reply = await it.request("GET", f"{path}/run", params={"attempt": 4})
    assert (reply.status, "has no attempt 4" in reply.error) == (404, True)
    for action, body in (
        ("end_run", {"outcome": "odd"}),
        ("end_run", {"attempt": 4}),
        ("add_to_run", {"uuids": []}),
        ("add_to_run", {"uuids": ["x"], "attempt": 4}),
    ):
        assert (await it.request("POST", f"{path}/{action}", body)).status == 422
    plain = await it.ok("POST", "groups", {"name": "plain", "group_class": "project"})
    assert (await it.request("GET", f"groups/{plain['uuid']}/run")).status == 404


async def test_outputs_of_one_name_are_moved_under_distinct_names(it: World) -> None:
    run = await begin(it, "r")
    requests = [await it.submit(str(number), output_name="same") for number in range(2)]
    await it.run(requests[0]["container_uuid"])
    path = f"groups/{run['uuid']}/add_to_run"
    await it.ok("POST", path, {"uuids": [requests[0]["uuid"]]})
    await it.run(requests[1]["container_uuid"])
    added = await it.ok("POST", path, {"uuids": [request["uuid"] for request in requests]})
    assert added["counts"]["total"] == 2
    filters = [["owner_uuid", "=", run["uuid"]]]
    names = [output["name"] for output in await it.collections(filters=filters)]
    assert len(set(names)) == len(names) == 4
