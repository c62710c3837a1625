"""Requests of one call that are the steps of a run."""

from __future__ import annotations

from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.resources.runs.runs_world import shown, steps


async def bodies(it: World, *commands: str, **more: JSON) -> list[Record]:
    image = await it.ensure_image()
    return [
        {
            "command": [command],
            "container_image": image,
            "mounts": {"/out": {"kind": "tmp", "capacity": 1000}},
            "output_path": "/out",
            "cwd": "/out",
            "runtime_constraints": {"vcpus": 1, "ram": 1 << 28},
            "priority": 1,
            "state": "Committed",
            "properties": {"lading_step": command},
            **more,
        }
        for command in commands
    ]


async def test_a_run_and_its_steps_are_one_call(it: World) -> None:
    run = {"name": "cohort-7", "params": {"k": 1}, "session": "a"}
    body = {"container_requests": await bodies(it, "a", "b"), "run": run}
    answer = await it.ok("POST", "container_requests/batch", body)
    assert (answer["run"]["attempt"], answer["run"]["is_new"]) == (1, True)
    rows = await steps(it, answer["run"])
    assert [row["properties"] for row in rows] == [
        {"lading_step": "a", "lading_attempt": 1},
        {"lading_step": "b", "lading_attempt": 1},
    ]
    second = await it.ok(
        "POST", "container_requests/batch", {**body, "run": {**run, "session": "b"}}
    )
    assert second["run"]["attempt"] == 2
    assert (await shown(it, answer["run"]))["counts"]["total"] == 2


async def test_a_refused_call_begins_no_run(it: World) -> None:
    good = await bodies(it, "a")
    bad = await bodies(it, "b", container_image="none:1")
    run: JSON = {"name": "cohort-7"}
    for body in (
        {"container_requests": [*good, *bad], "run": run},
        {"container_requests": good, "run": "x"},
        {"container_requests": good, "run": run, "atomic": False},
        {"container_requests": good, "run": {"name": "a/b"}},
    ):
        assert (await it.request("POST", "container_requests/batch", body)).status == 422
    assert not (await it.ok("GET", "groups/runs"))["items"]


async def test_a_run_of_somebody_else_takes_no_steps(it: World) -> None:
    owner = (await it.ok("GET", "users/current"))["uuid"]
    await it.ok("POST", "groups/begin_run", {"name": "mine"})
    body = {
        "container_requests": await bodies(it, "a"),
        "run": {"name": "mine", "project": owner},
    }
    other = await it.user("ada")
    reply = await it.request("POST", "container_requests/batch", body, token=other)
    assert reply.status in (403, 404, 422)
