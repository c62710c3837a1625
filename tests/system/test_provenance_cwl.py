"""A CWL workflow as a crate, and run again elsewhere. `make cwl` runs it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cwl.runs import add_image
from tests.reality import need_root
from tests.system.arvados_client.environment import client_environment
from tests.system.arvados_client.tools import Tools
from tests.system.cluster import Cluster, running_cluster
from tests.system.environments import environment
from tests.system.test_provenance import there

__all__ = ["there"]
pytestmark = [pytest.mark.system, pytest.mark.long]
CWL = Path(__file__).parents[1] / "cwl"
LINES = CWL / "data" / "lines.txt"
CHAIN = (str(CWL / "cases" / "flow-chain.cwl"), str(CWL / "jobs" / "lines.json"))


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    need_root()
    with running_cluster(tmp_path_factory.mktemp("cwl") / "data") as cluster:
        add_image(cluster)
        cluster.lading("image", "runner", timeout=900)
        yield Tools(cluster, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def runner(tools: Tools) -> str:
    """The request of a workflow that has run."""
    submit = ("--submit", "--no-wait", "--name", "chain", *CHAIN)
    uuid = tools.run("arvados-cwl-runner", *submit).strip()
    tools.cluster.lading("wait", uuid, timeout=300)
    return uuid


def test_a_workflow_is_replayed_elsewhere(
    tools: Tools, runner: str, there: Cluster, tmp_path: Path
) -> None:
    cluster = tools.cluster
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


def test_cwlprov_reads_a_workflow_and_runs_it_again(
    tools: Tools, runner: str, tmp_path: Path
) -> None:
    bag = tmp_path / "bag"
    tools.cluster.lading("export", runner, "--format", "cwlprov", "-o", str(bag))
    program = str(environment("crates") / "cwlprov")

    def said(*words: str) -> str:
        done = subprocess.run(
            [program, "--directory", str(bag), "--no-hints", *words],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said("validate") == f"Valid CWLProv RO: {bag}\n"
    assert "Executed By: root" in said("who")
    assert said("prov").count("primary.cwlprov.") == 2
    assert "#main" in said("runs")
    ran = said("run", "--inputs", "--outputs")
    assert ran.count(" Step ") == 2
    assert "> wf:main/result" in ran
    (read,) = json.loads(said("inputs", "--format", "json")).values()
    (made,) = json.loads(said("outputs", "--format", "json")).values()
    assert Path(read["path"]).read_bytes() == LINES.read_bytes()
    # Without containers: the image holds programs of this machine.
    again = ("--cwlrunner", f"{client_environment() / 'cwltool'} --no-container --quiet")
    whole = json.loads(said("rerun", *again))
    assert whole["result"]["checksum"] == f"sha1${Path(made['path']).name}"
    first = ran.partition(" Step ")[2].split()[0]
    (loud,) = json.loads(said("rerun", *again, first)).values()
    assert loud["checksum"].removeprefix("sha1$") in {
        path.name for path in (bag / "data").rglob("*")
    }
