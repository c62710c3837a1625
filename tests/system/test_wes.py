"""Workflows by WES on a real server: attachments in directories, outputs, tasks, cancel, reuse."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.cwl.runs import add_image
from tests.reality import need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.environments import environment

pytestmark = pytest.mark.system
ENDED = ("COMPLETE", "EXECUTOR_ERROR", "SYSTEM_ERROR", "CANCELED", "PREEMPTED")
TOOL = """\
cwlVersion: v1.2
class: CommandLineTool
hints: {DockerRequirement: {dockerPull: "cwl-cases:1"}}
baseCommand: COMMAND
inputs:
  file: {type: File, inputBinding: {}}
stdout: OUTPUT
outputs:
  result: stdout
"""
WORKFLOW = """\
cwlVersion: v1.2
class: Workflow
inputs: {file: File}
outputs: {result: {type: File, outputSource: count/result}}
steps:
  sort:
    run: tools/sort.cwl
    in: {file: file}
    out: [result]
  count:
    run: tools/count.cwl
    in: {file: sort/result}
    out: [result]
"""
FILES = {
    "main.cwl": WORKFLOW,
    "tools/sort.cwl": TOOL.replace("COMMAND", "[sort, -u]").replace("OUTPUT", "sorted.txt"),
    "tools/count.cwl": TOOL.replace("COMMAND", "[sh, -c, 'wc -l <$0']").replace(
        "OUTPUT", "count.txt"
    ),
    "tools/slow.cwl": TOOL.replace("COMMAND", "[sh, -c, sleep 300]").replace("OUTPUT", "x"),
    "data/lines.txt": "b\na\nb\n",
}
PARAMS = {"file": {"class": "File", "location": "data/lines.txt"}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    with running_cluster(tmp_path_factory.mktemp("wes") / "data") as running:
        add_image(running)
        running.lading("image", "runner", timeout=900)
        # wes-service sends no token when it creates a run.
        token = running.environment["ARVADOS_API_TOKEN"]
        running.stop()
        (running.data / "config.yml").write_text(f'TES: {{AnonymousToken: "{token}"}}\n')
        running.start()
        yield running


WES_SERVICE = """\
import json, sys, time
from wes_client.util import WESClient
host, folder = sys.argv[1:]
client = WESClient({"auth": {}, "proto": "https", "host": host})
assert "CWL" in client.get_service_info()["workflow_type_versions"]
attached = [f"file://{folder}/{name}" for name in ("tools/*.cwl", "data/*")]
run = client.run(f"file://{folder}/main.cwl", f"file://{folder}/job.json", attached)["run_id"]
while client.get_run_status(run)["state"] in ("QUEUED", "INITIALIZING", "RUNNING"):
    time.sleep(1)
assert run in [one["run_id"] for one in client.list_runs()["runs"]]
found = client.get_run_log(run)
client.cancel(run)
print(found["state"], json.dumps(found["outputs"]))
"""


class WesClient:
    """Calls of WES with the token of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        environment = cluster.environment
        self.url = f"https://{environment['ARVADOS_API_HOST']}/ga4gh/wes/v1/runs"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {environment['ARVADOS_API_TOKEN']}"
        # The environment may name other certificates.
        self.session.trust_env = False
        self.session.verify = str(cluster.data / "tls.crt")

    def create(self, url: str = "main.cwl", files: dict[str, str] = FILES) -> str:
        form = {
            "workflow_type": "CWL",
            "workflow_type_version": "v1.2",
            "workflow_url": url,
            "workflow_params": json.dumps(PARAMS),
        }
        attached = [("workflow_attachment", (path, text)) for path, text in files.items()]
        answer = self.session.post(self.url, data=form, files=attached, timeout=60)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["run_id"])

    def get(self, path: str) -> Any:
        answer = self.session.get(f"{self.url}/{path}", timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def until(self, run: str, *states: str) -> Any:
        deadline = time.monotonic() + 180
        while (state := self.get(f"{run}/status")["state"]) not in states:
            assert time.monotonic() < deadline, state
            time.sleep(0.3)
        return self.get(run)


def test_a_workflow_twice(cluster: Cluster) -> None:
    client = WesClient(cluster)
    first = client.until(client.create(), *ENDED)
    assert first["state"] == "COMPLETE", client.session.get(first["run_log"]["stderr"]).text
    location = first["outputs"]["result"]["location"]
    assert cluster.lading("cat", location.removeprefix("keep:")).stdout == "2\n"
    tasks = client.get(f"{first['run_id']}/tasks")["task_logs"]
    assert [one["name"] for one in tasks] == ["sort", "count"]
    assert "completed success" in client.session.get(first["run_log"]["stderr"]).text
    task = client.session.get(tasks[0]["tes_uri"]).json()
    assert task == {"id": tasks[0]["id"], "state": "COMPLETE"}
    # Another workflow with the same first step, whose input has not changed.
    files = {**FILES, "main.cwl": WORKFLOW.replace("count", "number"),
             "tools/number.cwl": FILES["tools/count.cwl"]}  # fmt: skip
    second = client.until(client.create(files=files), *ENDED)
    assert second["state"] == "COMPLETE"
    sort = client.get(f"{second['run_id']}/tasks")["task_logs"][0]
    assert sort["start_time"] == tasks[0]["start_time"], "the first step was reused"
    assert second["outputs"]["result"]["location"] == location


def test_cancel_ends_the_steps(cluster: Cluster) -> None:
    client = WesClient(cluster)
    run = client.create("tools/slow.cwl")
    deadline = time.monotonic() + 120
    while not (tasks := client.get(f"{run}/tasks")["task_logs"]) or "start_time" not in tasks[0]:
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert client.session.post(f"{client.url}/{run}/cancel", timeout=60).json() == {"run_id": run}
    assert client.until(run, *ENDED)["state"] == "CANCELED"
    url = tasks[0]["tes_uri"]
    while client.session.get(url).json()["state"] != "CANCELED":
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.mark.quick
def test_a_workflow_that_fails(cluster: Cluster) -> None:
    client = WesClient(cluster)
    broken = client.until(client.create(files={**FILES, "main.cwl": "class: Nothing\n"}), *ENDED)
    assert (broken["state"], broken["outputs"]) == ("EXECUTOR_ERROR", {})
    assert broken["run_log"]["exit_code"] != 0


def test_the_client_of_wes_service(cluster: Cluster, tmp_path: Path) -> None:
    for name, text in {**FILES, "job.json": json.dumps(PARAMS)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    python = environment("ga4gh-clients") / "python"
    host = cluster.environment["ARVADOS_API_HOST"]
    done = subprocess.run(
        [str(python), "-W", "ignore", "-c", WES_SERVICE, host, str(tmp_path)],
        env=os.environ | {"REQUESTS_CA_BUNDLE": str(cluster.data / "tls.crt")},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("COMPLETE ")
    assert '"location": "keep:' in done.stdout
