"""Runs that are read: lists, one run, its steps."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from lading.testing.world import WITH_API, World
from tests.api.resources.runs.runs_world import begin, shown, step, steps


async def test_a_run_from_its_first_step_to_its_end(it: World) -> None:
    run = await begin(it, "cohort-7", params={"k": 25}, source={"script": "p.sh"})
    assert (run["attempt"], run["is_new"]) == (1, True)
    empty = await shown(it, run)
    assert (empty["state"], empty["counts"]["total"], empty["progress"]) == ("waiting", 0, 0)
    first = await step(it, run, "align", "1")
    second = await step(it, run, "sort", "1")
    assert (await shown(it, run))["state"] == "waiting"
    await it.run(first["container_uuid"])
    half = await shown(it, run)
    assert (half["state"], half["progress"], half["finished_at"]) == ("running", 0.5, None)
    await it.run(second["container_uuid"], exit_code=3)
    over = await shown(it, run)
    assert (over["state"], over["counts"]["done"], over["counts"]["failed"]) == ("failed", 1, 1)
    assert (over["params"], over["source"]["script"], over["kind"]) == (
        {"k": 25},
        "p.sh",
        "project",
    )
    assert over["started_at"] <= over["finished_at"]
    rows = await steps(it, run)
    assert [(row["properties"]["lading_step"], row["state"]) for row in rows] == [
        ("align", "done"),
        ("sort", "failed"),
    ]
    assert rows[1]["exit_code"] == 3
    listed = await it.ok("GET", "groups/runs")
    assert [item["name"] for item in listed["items"]] == ["cohort-7"]
    assert (listed["items"][0], listed["next"]) == (over, None)


async def test_a_second_attempt_reuses_the_first(it: World) -> None:
    run = await begin(it, "r", session="a")
    first = await step(it, run, "align", "1")
    await it.run(first["container_uuid"], cost=0.5)
    assert await begin(it, "r", session="a") == {**run, "is_new": False}
    again = await begin(it, "r", session="b", params={"k": 2})
    assert (again["uuid"], again["attempt"], again["is_new"]) == (run["uuid"], 2, True)
    await step(it, again, "align", "1")
    await step(it, again, "other", "1")
    latest = await shown(it, run)
    assert (latest["attempt"], latest["counts"]["total"], latest["counts"]["reused"]) == (2, 2, 1)
    assert (latest["params"], len(latest["attempts"])) == ({"k": 2}, 2)
    assert latest["saved"] == (await steps(it, run))[0]["cost"]
    before = await shown(it, run, attempt=1)
    assert (before["counts"]["total"], before["counts"]["reused"], before["state"]) == (
        1,
        0,
        "done",
    )
    assert len(await steps(it, run, attempt=1)) == 1
    joined = await begin(it, "r", attempt=1, params={"x": 1})
    assert (joined["attempt"], joined["is_new"]) == (1, False)
    assert (await shown(it, run, attempt=1))["params"] == {"x": 1}


async def test_steps_without_marks_belong_to_the_latest_attempt(it: World) -> None:
    run = await begin(it, "r")
    await it.submit("a", owner_uuid=run["uuid"])
    assert len(await steps(it, run)) == 1
    await begin(it, "r")
    await it.submit("b", owner_uuid=run["uuid"])
    rows = await steps(it, run)
    assert [row["command"] for row in rows] == [["a"], ["b"]]
    assert not await steps(it, run, attempt=1)


async def test_a_run_is_shared_with_all_that_belongs_to_it(it: World) -> None:
    ada, bob = await it.user("ada"), await it.user("bob")
    run = await begin(it, "r", token=ada)
    await step(it, run, "a", token=ada)
    assert (await it.request("GET", f"groups/{run['uuid']}/run", token=bob)).status == 404
    assert not (await it.ok("GET", "groups/runs", token=bob))["items"]
    reader = await it.ok("GET", "users/current", token=bob)
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": reader["uuid"],
        "head_uuid": run["uuid"],
    }
    await it.ok("POST", "links", link, token=ada)
    assert (await shown(it, run, token=bob))["counts"]["total"] == 1
    assert len((await it.ok("GET", "groups/runs", token=bob))["items"]) == 1
    calls: tuple[tuple[str, Record], ...] = (("end_run", {}), ("add_to_run", {"uuids": ["x"]}))
    for path, body in calls:
        reply = await it.request("POST", f"groups/{run['uuid']}/{path}", body, token=bob)
        assert reply.status == 403
    owner = (await it.ok("GET", "users/current", token=ada))["uuid"]
    taken = {"name": "r", "project": owner}
    assert (await it.request("POST", "groups/begin_run", taken, token=bob)).status in (403, 422)


async def test_the_runner_of_a_workflow_is_a_run(it: World) -> None:
    runner = await it.submit(
        "arvados-cwl-runner", "w.cwl", name="w.cwl", runtime_constraints=WITH_API, priority=500
    )
    assert (await shown(it, runner))["state"] == "waiting"
    supervisor = await it.lock(runner["container_uuid"])
    path = f"containers/{runner['container_uuid']}"
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    own = await it.container_token(runner["container_uuid"])
    child = await it.submit("align", "1", token=own, container_image=await it.ensure_image())
    assert (await shown(it, runner))["counts"]["waiting"] == 1
    await it.run(child["container_uuid"])
    run = await shown(it, runner)
    assert (run["kind"], run["name"], run["state"]) == ("workflow", "w.cwl", "running")
    assert [row["command"] for row in await steps(it, runner)] == [["align", "1"]]
    listed = await it.ok("GET", "groups/runs")
    assert [item["uuid"] for item in listed["items"]] == [runner["uuid"]]
    plain = await it.submit("plain")
    reply = await it.request("GET", f"container_requests/{plain['uuid']}/run")
    assert (reply.status, "is no run" in reply.error) == (404, True)


async def test_pages_and_filters_of_the_list(it: World) -> None:
    names = [f"run_{number}" for number in range(5)]
    for name in names:
        await begin(it, name)
        it.clock.advance(60)
    await it.submit("arvados-cwl-runner", "w.cwl", name="run_cwl")
    listed: list[str] = []
    after = None
    while True:
        params: Record = {"limit": 2, **({"after": after} if after else {})}
        page = await it.ok("GET", "groups/runs", params=params)
        listed += [item["name"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert listed == ["run_cwl", *reversed(names)]
    chosen = await it.ok("GET", "groups/runs", params={"name": "N_3"})
    assert [item["name"] for item in chosen["items"]] == ["run_3"]
    since = (await it.ok("GET", "groups/runs", params={"name": "run_3"}))["items"][0]["began_at"]
    later = await it.ok("GET", "groups/runs", params={"since": since})
    assert [item["name"] for item in later["items"]] == ["run_cwl", "run_4", "run_3"]
    waiting = await it.ok("GET", "groups/runs", params={"state": "waiting", "limit": 4})
    assert len(waiting["items"]) == 4
    assert waiting["next"]
    done = await it.ok("GET", "groups/runs", params={"state": "done"})
    assert (done["items"], done["next"]) == ([], None)


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"state": "odd"}, "state: must be"),
        ({"after": "odd"}, "after: must be"),
        ({"since": "odd"}, "since:"),
        ({"limit": "0"}, "limit: must be"),
    ],
)
async def test_faults_of_lists(it: World, params: Record, fault: str) -> None:
    reply = await it.request("GET", "groups/runs", params=params)
    assert (reply.status, fault in reply.error) == (422, True), reply.error


async def test_a_token_without_a_scope_for_requests_reads_no_run(it: World) -> None:
    run = await begin(it, "r")
    body = {"scopes": ["GET /arvados/v1/groups/"]}
    token = await it.ok("POST", "api_client_authorizations", body)
    secret = f"v2/{token['uuid']}/{token['api_token']}"
    for path in ("runs", f"{run['uuid']}/run", f"{run['uuid']}/run_steps"):
        reply = await it.request("GET", f"groups/{path}", token=secret)
        assert (reply.status, "container_requests" in reply.error) == (403, True)


async def test_a_step_that_was_submitted_again_has_not_failed(it: World) -> None:
    run = await begin(it, "again")
    first = await step(it, run, "align", "1", name="align")
    other = await step(it, run, "align", "2", name="align")
    await it.run(first["container_uuid"], exit_code=1)
    await it.run(other["container_uuid"])
    assert (await shown(it, run))["state"] == "failed"
    second = await step(it, run, "align", "1", name="align", use_existing=False)
    live = await shown(it, run)
    assert (live["state"], live["counts"]["failed"], live["counts"]["repeated"]) == (
        "running",
        0,
        1,
    )
    await it.run(second["container_uuid"])
    over = await shown(it, run)
    assert (over["state"], over["counts"]["total"], over["counts"]["done"]) == ("done", 2, 2)
    assert [row["is_repeated"] for row in await steps(it, run)] == [True, False, False]
    listed = await it.ok("GET", "groups/runs")
    assert listed["items"][0] == over
    # Of another sample under the same name a failure counts.
    third = await step(it, run, "align", "3", name="align")
    await it.run(third["container_uuid"], exit_code=1)
    assert (await shown(it, run))["state"] == "failed"
