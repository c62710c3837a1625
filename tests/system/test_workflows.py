"""What `arvados-cwl-runner` does beside running: register, cancel, keep secrets, report. `make cwl`
runs it.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cwl.runs import add_image
from tests.reality import need_root
from tests.system.arvados_client.tools import Tools
from tests.system.cluster import running_cluster
from tests.system.records import Api, Record

pytestmark = [pytest.mark.system, pytest.mark.long]
CWL = Path(__file__).parents[1] / "cwl"
CHAIN = (str(CWL / "cases" / "flow-chain.cwl"), str(CWL / "jobs" / "lines.json"))
SECRET = "correct horse battery staple"
SLOW = """\
cwlVersion: v1.2
class: Workflow
inputs: []
outputs: []
steps:
  sleep:
    in: []
    out: []
    run:
      class: CommandLineTool
      hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
      baseCommand: [sleep, '300']
      inputs: []
      outputs: []
"""
PART = """\
cwlVersion: v1.2
class: Workflow
$namespaces: {arv: "http://arvados.org/cwl#"}
requirements: {SubworkflowFeatureRequirement: {}}
inputs: {file: File}
outputs: {result: {type: File, outputSource: part/result}}
steps:
  part:
    run: CHAIN
    hints: {"arv:SeparateRunner": {}}
    in: {file: file}
    out: [result]
"""
RUNNER = "arvados-cwl-runner"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    need_root()
    with running_cluster(tmp_path_factory.mktemp("workflows") / "data") as cluster:
        add_image(cluster)
        cluster.lading("image", "runner", timeout=900)
        yield Tools(cluster, tmp_path_factory.mktemp("home"))


@pytest.fixture
def api(tools: Tools) -> Api:
    return Api(tools.cluster)


def _ended(api: Api, uuid: str, *, seconds: float = 120) -> Record:
    deadline = time.monotonic() + seconds
    while (found := api.get(f"container_requests/{uuid}"))["state"] != "Final":
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


def test_a_registered_workflow_runs_with_all_that_was_asked(tools: Tools, api: Api) -> None:
    workflow = tools.run(
        RUNNER, "--create-workflow", "--no-copy-deps", "--name", "a chain", CHAIN[0]
    ).strip()
    assert (
        tools.run(RUNNER, "--update-workflow", workflow, "--no-copy-deps", CHAIN[0]).strip()
        == workflow
    )
    options = ("--name", "of today", "--output-name", "the result", "--priority", "700")
    more = ("--intermediate-output-ttl", "3600", "--storage-classes", "default")

    submitted = tools.run(
        RUNNER, "--submit", "--no-wait", *options, *more, workflow, CHAIN[1]
    ).strip()

    request = _ended(api, submitted)
    assert (request["name"], request["priority"], request["output_name"]) == (
        "of today",
        700,
        "the result",
    )
    assert request["properties"]["template_uuid"] == workflow
    output = api.get(f"collections/{request['output_uuid']}")
    assert output["name"] == "the result"
    assert output["properties"]["type"] == "output"
    children = api.list(
        "container_requests", ["requesting_container_uuid", "=", request["container_uuid"]]
    )
    assert len(children) == 2
    for child in children:
        step = api.get(f"collections/{child['output_uuid']}")
        assert step["properties"]["type"] == "intermediate"
        assert step["trash_at"] is not None
        logs = tools.run("arv-ls", child["log_uuid"]).split()
        assert "./usage_report.html" in logs
    summary = tools.run("crunchstat-summary", "--container", submitted)
    assert summary.count("# Elapsed time") == 3, "the runner and its two steps"


def test_a_part_with_a_runner_of_its_own_is_reused_as_one(
    tools: Tools, api: Api, tmp_path: Path
) -> None:
    (tmp_path / "whole.cwl").write_text(PART.replace("CHAIN", CHAIN[0]))
    submit = (RUNNER, "--submit", "--quiet", str(tmp_path / "whole.cwl"), CHAIN[1])
    result = json.loads(tools.run(*submit))
    before = api.requests()
    assert json.loads(tools.run(*submit)) == result
    new = {one["name"]: one for one in api.list("container_requests") if one["uuid"] not in before}
    assert sorted(new) == ["part", "whole.cwl"]
    container = api.get(f"containers/{new['part']['container_uuid']}")
    assert container["created_at"] < new["whole.cwl"]["created_at"]


@pytest.mark.parametrize("way", ["--local", "--submit"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_signal_cancels_all_of_it(
    tools: Tools, api: Api, tmp_path: Path, way: str, number: signal.Signals
) -> None:
    (tmp_path / "slow.cwl").write_text(SLOW)
    before = api.requests()
    process = tools.start(RUNNER, way, "--quiet", "--disable-reuse", str(tmp_path / "slow.cwl"))
    try:
        deadline = time.monotonic() + 90
        while not any(_sleeps(api, uuid) for uuid in api.requests() - before):
            assert time.monotonic() < deadline
            time.sleep(0.3)
        process.send_signal(number)
        assert process.wait(60) != 0
    finally:
        process.kill()
        process.communicate()
    for uuid in api.requests() - before:
        request = _ended(api, uuid)
        assert api.get(f"containers/{request['container_uuid']}")["state"] == "Cancelled"


def _sleeps(api: Api, uuid: str) -> bool:
    request = api.get(f"container_requests/{uuid}")
    if request["command"][0] != "sleep" or not request["container_uuid"]:
        return False
    return bool(api.get(f"containers/{request['container_uuid']}")["state"] == "Running")


def test_a_secret_is_seen_by_the_tool_alone(tools: Tools, api: Api) -> None:
    case = (str(CWL / "cases" / "ext-secrets.cwl"), str(CWL / "jobs" / "secret.json"))
    before = api.requests()
    result = json.loads(tools.run(RUNNER, "--submit", "--always-submit-runner", "--quiet", *case))
    assert tools.cluster.lading(
        "cat", result["sum"]["location"].removeprefix("keep:")
    ).stdout.startswith("c4bbcb1f")

    requests = [one for one in api.list("container_requests") if one["uuid"] not in before]
    assert len(requests) == 2
    containers = [api.get(f"containers/{one['container_uuid']}") for one in requests]
    assert SECRET not in json.dumps([requests, containers, api.list("logs")])
    data = tools.cluster.data
    places = (str(data / name) for name in ("blocks", "cache", "log", "live", "run"))
    found = subprocess.run(
        ["grep", "-rlF", SECRET, *places], capture_output=True, text=True, check=False
    )
    assert found.stdout == ""


def test_a_copy_within_the_cluster(tools: Tools, api: Api, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("one\n")
    collection = tools.run("arv-put", "--no-progress", str(tmp_path / "one.txt")).strip()
    cluster, environment = collection[:5], tools.cluster.environment
    settings = tools.home / ".config" / "arvados" / f"{cluster}.conf"
    settings.parent.mkdir(parents=True, exist_ok=True)
    names = ("ARVADOS_API_HOST", "ARVADOS_API_TOKEN", "ARVADOS_API_HOST_INSECURE")
    settings.write_text("".join(f"{name}={environment[name]}\n" for name in names))
    project = api.post("groups", {"group_class": "project", "name": "copies"})["uuid"]
    copy = tools.run(
        "arv-copy",
        "--src",
        cluster,
        "--dst",
        cluster,
        "--project-uuid",
        project,
        "--no-progress",
        collection,
    )
    hashes = {
        api.get(f"collections/{uuid}")["portable_data_hash"] for uuid in (collection, copy.strip())
    }
    assert copy.strip() != collection
    assert len(hashes) == 1


def test_events_are_heard(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "heard.txt").write_text("heard\n")
    listening = Tools(tools.cluster, tools.home, {"PYTHONUNBUFFERED": "1"})
    process = listening.start("arv-ws", "--filters", '[["event_type","=","create"]]')
    assert process.stdout is not None
    try:
        deadline = time.monotonic() + 90
        while not select.select([process.stdout], [], [], 1)[0]:
            assert time.monotonic() < deadline
            tools.run("arv-put", "--no-progress", "--no-resume", str(tmp_path / "heard.txt"))
        assert '"object_kind": "arvados#collection"' in process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
