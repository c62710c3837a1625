"""Runs from their creation to their end."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lading.core.records.schema import Record
from tests.tes.run_site import PARAMS, RunWorld, form, run_world

FILES = {"cwl/main.cwl": b"class: Workflow", "data/a.txt": b"a", "data/b.txt": b"b"}
INPUT = {"class": "File", "path": "data/a.txt"}


async def test_attachments_become_collections(runs: RunWorld) -> None:
    run = await runs.create({"text": INPUT}, files=FILES, workflow_url="cwl/main.cwl")
    request = await runs.request(run)
    mounts = request["mounts"]
    location = mounts["/var/lib/cwl/cwl.input.json"]["content"]["text"]["location"]
    workflow = request["command"][-2]
    assert (workflow[-9:], location[-11:]) == ("/main.cwl", "/data/a.txt")
    found = {one["portable_data_hash"]: one["file_count"] for one in await runs.world.collections()}
    assert found[workflow[5:].partition("/")[0]] == 3
    assert found[location[5:].partition("/")[0]] == 2
    assert request["runtime_constraints"]["API"] is True


async def test_a_run_from_queue_to_end(runs: RunWorld) -> None:
    run = await runs.create({"x": 1}, tags='{"a": "b"}')
    assert await runs.ok("GET", f"runs/{run}/status") == {"run_id": run, "state": "QUEUED"}
    waiting = await runs.ok("GET", f"runs/{run}")
    assert waiting["outputs"] == {}
    assert waiting["request"]["workflow_params"] == {"x": 1}
    await runs.end(run, b'{"out": {"class": "File", "location": "o.txt"}, "n": 3}')
    found = await runs.ok("GET", f"runs/{run}")
    output = found["outputs"]["out"]["location"]
    assert output.startswith("keep:")
    assert output.endswith("/o.txt")
    assert (found["state"], found["outputs"]["n"], found["run_log"]["exit_code"]) == (
        "COMPLETE", 3, 0,
    )  # fmt: skip
    assert found["request"]["tags"] == {"a": "b"}
    assert found["task_logs"] is None


@pytest.mark.parametrize(
    ("output", "note"),
    [
        (b"", ""),
        (b"{", "not JSON"),
        (b"[" * 5000, "not JSON"),
        (b"[]", "no object"),
        (b" " * ((4 << 20) + 1), "too many"),
    ],
)
async def test_outputs_that_cannot_be_shown(runs: RunWorld, output: bytes, note: str) -> None:
    run = await runs.create()
    await runs.end(run, output, exit_code=1)
    found = await runs.ok("GET", f"runs/{run}")
    assert (found["state"], found["outputs"]) == ("EXECUTOR_ERROR", {})
    assert note in "; ".join(found["run_log"]["system_logs"])


async def test_a_deleted_output(runs: RunWorld) -> None:
    run = await runs.create()
    request = await runs.end(run, b"{}")
    await runs.world.ok("DELETE", f"collections/{request['output_uuid']}")
    found = await runs.ok("GET", f"runs/{run}")
    assert found["run_log"]["system_logs"] == ["the output collection was deleted"]


async def child(runs: RunWorld, run: str, name: str) -> Record:
    """A request that the runner of a run makes."""
    container = (await runs.request(run))["container_uuid"]
    own = await runs.world.container_token(container)
    image = await runs.world.ensure_image()
    return await runs.world.submit(name, token=own, name=name, container_image=image)


async def test_tasks_of_a_run(runs: RunWorld) -> None:
    run, other = await runs.create(), await runs.create(tags='{"other": "one"}')
    container = (await runs.request(run))["container_uuid"]
    supervisor = await runs.world.lock(container)
    await runs.world.ok("PUT", f"containers/{container}", {"state": "Running"}, token=supervisor)
    made = [(await child(runs, run, name))["uuid"] for name in ("first", "second", "third")]
    seen, token = [], ""
    while True:
        page = await runs.ok("GET", f"runs/{run}/tasks", query=f"page_size=1&page_token={token}")
        seen += [one["id"] for one in page["task_logs"]]
        if not (token := page["next_page_token"]):
            break
    assert seen == made
    task = await runs.ok("GET", f"runs/{run}/tasks/{made[0]}")
    assert (task["name"], task["cmd"]) == ("first", ["first"])
    assert task["tes_uri"].endswith(f"/ga4gh/tes/v1/tasks/{made[0]}")
    assert (await runs.call("GET", f"runs/{other}/tasks/{made[0]}")).status == 404
    assert (await runs.ok("GET", f"runs/{other}/tasks"))["task_logs"] == []


async def test_a_list_page_by_page(runs: RunWorld) -> None:
    made = [await runs.create(tags=f'{{"n": "{number}"}}') for number in range(3)]
    await runs.world.submit("no run")
    first = await runs.ok("GET", "runs", query="page_size=2")
    late = await runs.create(tags='{"n": "late"}')
    token = first["next_page_token"]
    second = await runs.ok("GET", "runs", query=f"page_size=2&page_token={token}")
    assert [one["run_id"] for one in first["runs"] + second["runs"]] == made[::-1]
    assert (first["runs"][0]["tags"], second["next_page_token"]) == ({"n": "2"}, "")
    assert (await runs.ok("GET", "runs"))["runs"][0]["run_id"] == late
    path = f"runs/{late}/tasks"
    assert (await runs.call("GET", path, query=f"page_token={token}")).status == 400


async def test_cancel(runs: RunWorld) -> None:
    run = await runs.create()
    for _ in range(2):
        assert await runs.ok("POST", f"runs/{run}/cancel") == {"run_id": run}
    assert (await runs.ok("GET", f"runs/{run}/status"))["state"] == "CANCELED"
    counts = (await runs.ok("GET", "service-info"))["system_state_counts"]
    assert counts == {"CANCELED": 1}


async def test_others_do_not_find_a_run(runs: RunWorld) -> None:
    run = await runs.create()
    other = await runs.world.user("other")
    plain = (await runs.world.submit())["uuid"]
    for method, path in (
        ("GET", f"runs/{run}"),
        ("GET", f"runs/{run}/status"),
        ("GET", f"runs/{run}/tasks"),
        ("GET", f"runs/{run}/tasks/{plain}"),
        ("POST", f"runs/{run}/cancel"),
    ):
        reply = await runs.call(method, path, token=other)
        assert (reply.status, reply.json["status_code"]) == (404, 404)
    assert (await runs.ok("GET", "runs", token=other))["runs"] == []
    assert (await runs.call("GET", f"runs/{plain}")).status == 404
    assert (await runs.call("GET", "runs/none")).status == 404


async def test_a_run_in_a_project(runs: RunWorld) -> None:
    project = await runs.world.ok("POST", "groups", {"name": "p", "group_class": "project"})
    tags = msgspec.json.encode({"lading.project": project["uuid"]}).decode()
    request = await runs.request(await runs.create(tags=tags))
    assert request["owner_uuid"] == project["uuid"]
    assert f"--project-uuid={project['uuid']}" in request["command"]
    [attached] = await runs.world.collections(
        filters=[["properties.type", "=", "workflow attachments"]]
    )
    assert attached["owner_uuid"] == project["uuid"]


async def test_without_the_image_of_the_runner(tmp_path: Path) -> None:
    async with run_world(tmp_path, image="arvados/jobs:3.2.1") as runs:
        reply = await runs.call("POST", "runs", form(PARAMS, {"main.cwl": b""}))
        assert reply.status == 400
        assert "lading image runner" in reply.json["msg"]
        tags = '{"lading.project": "none"}'
        reply = await runs.call("POST", "runs", form({**PARAMS, "tags": tags}, {"main.cwl": b""}))
        assert "lading image runner" not in reply.json["msg"]


@pytest.mark.parametrize("name", ["?", "?limit=0", "..", "zzzzz-4zz18-000000000000000"])
async def test_ids_lead_nowhere_else(runs: RunWorld, name: str) -> None:
    assert (await runs.call("GET", f"runs/{name}")).status == 404
