"""A CWL workflow as a crate, and run again elsewhere. `make cwl` runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cwl.runs import add_image
from tests.reality import need_root
from tests.system.arvados_client.tools import Tools
from tests.system.cluster import Cluster, running_cluster
from tests.system.test_provenance import there

__all__ = ["there"]
pytestmark = [pytest.mark.system, pytest.mark.long]
CWL = Path(__file__).parents[1] / "cwl"
CHAIN = (str(CWL / "cases" / "flow-chain.cwl"), str(CWL / "jobs" / "lines.json"))


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    need_root()
    with running_cluster(tmp_path_factory.mktemp("cwl") / "data") as cluster:
        add_image(cluster)
        cluster.lading("image", "runner", timeout=900)
        yield Tools(cluster, tmp_path_factory.mktemp("home"))


def test_a_workflow_is_replayed_elsewhere(tools: Tools, there: Cluster, tmp_path: Path) -> None:
    cluster = tools.cluster
    submit = ("--submit", "--no-wait", "--name", "chain", *CHAIN)
    runner = tools.run("arvados-cwl-runner", *submit).strip()
    cluster.lading("wait", runner, timeout=300)
    crate = tmp_path / "crate"
    wanted = ("--tree", "--data", "--images", "-o", str(crate))
    cluster.lading("export", runner, *wanted, timeout=300)
    workflow = json.loads((crate / "workflow.cwl").read_text())
    assert workflow["cwlVersion"] == "v1.2"
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    entities = {one["@id"]: one for one in graph}
    assert entities["./"]["mainEntity"] == {"@id": "workflow.cwl"}
    assert len(entities["workflow.cwl"]["step"]) == 3
    done = there.lading("replay", str(crate), timeout=600)
    assert done.stdout.splitlines()[-1] == "reproduced 2 of 2"
    seen = cluster.lading("preview", runner).stdout
    assert seen == "2 steps: 2 reused\n"
