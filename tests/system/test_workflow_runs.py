"""Workflows as runs on a real server: the request of a runner is one run, whose steps are the
requests of its container, for `arvados-cwl-runner` and for WES.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cwl.runs import add_image
from tests.reality import need_root
from tests.system.arvados_client.tools import Tools
from tests.system.cluster import Cluster, running_cluster
from tests.system.test_wes import ENDED, FILES, WesClient

pytestmark = [pytest.mark.system, pytest.mark.long]
CWL = Path(__file__).parents[1] / "cwl"
CHAIN = (str(CWL / "cases" / "flow-chain.cwl"), str(CWL / "jobs" / "lines.json"))
BROKEN = {
    **FILES,
    "tools/count.cwl": FILES["tools/count.cwl"].replace(
        "wc -l <$0", "echo no lines in $0 >&2; exit 3"
    ),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A site with the images of the steps and of the runner."""
    need_root()
    with running_cluster(tmp_path_factory.mktemp("runs") / "data") as running:
        add_image(running)
        running.lading("image", "runner", timeout=900)
        yield running


def _listed(cluster: Cluster) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(cluster.lading("runs", "list", "--json").stdout)
    return runs


def _shown(cluster: Cluster, uuid: str) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(cluster.lading("runs", "show", uuid, "--json").stdout)
    return run


def test_a_submitted_workflow_is_one_run(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tools = Tools(cluster, tmp_path_factory.mktemp("home"))
    submit = ("--submit", "--no-wait", "--name", "chain", *CHAIN)
    uuid = tools.run("arvados-cwl-runner", *submit).strip()
    cluster.lading("wait", uuid, timeout=300)
    [row] = [run for run in _listed(cluster) if run["uuid"] == uuid]
    assert (row["kind"], row["name"], row["state"]) == ("workflow", "chain", "done")
    shown = _shown(cluster, uuid)
    assert [step["name"] for step in shown["steps"]] == ["shout", "sort"]
    assert shown["steps"][1]["needs"] == ["shout"]
    assert shown["counts"]["done"] == 2
    # Its steps are not runs of their own.
    assert [run["uuid"] for run in _listed(cluster)] == [uuid]


def test_a_workflow_of_wes_is_one_run(cluster: Cluster) -> None:
    before = {run["uuid"] for run in _listed(cluster)}
    client = WesClient(cluster)
    first = client.until(client.create(), *ENDED)
    assert first["state"] == "COMPLETE", client.session.get(first["run_log"]["stderr"]).text
    broken = client.until(client.create(files=BROKEN), *ENDED)
    assert broken["state"] == "EXECUTOR_ERROR"
    rows = [run for run in _listed(cluster) if run["uuid"] not in before]
    assert [(run["kind"], run["state"]) for run in rows] == [
        ("workflow", "failed"),
        ("workflow", "done"),
    ]
    good, bad = _shown(cluster, rows[1]["uuid"]), _shown(cluster, rows[0]["uuid"])
    assert [step["name"] for step in good["steps"]] == ["sort", "count"]
    assert good["counts"]["total"] == 2
    assert good["params"]["file"]["class"] == "File"
    # The first step is that of the good run; the failed one is told with its line.
    assert bad["counts"]["reused"] == 1
    [failure] = [step for step in bad["failures"] if step["step"] == "count"]
    assert failure["exit_code"] == 3
    assert any("no lines in" in line for line in failure["last_lines"])
