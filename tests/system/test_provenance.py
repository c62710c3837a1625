"""Results that travel: exported here, imported and run again on a server with another database,
another engine and another directory.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.phage.__main__ import IMAGE, PROGRAMS, Pipeline
from tests.postgres import PostgresServer
from tests.reality import need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.docker_daemon import DockerDaemon
from tests.system.environments import environment

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with SQLite and its own engine, that has run the pipeline."""
    need_root()
    with running_cluster(tmp_path_factory.mktemp("here") / "data") as cluster:
        cluster.lading("image", "add", "--name", IMAGE, "--from-host", *PROGRAMS, "date")
        yield cluster


@pytest.fixture(scope="module")
def there(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, docker_daemon: DockerDaemon
) -> Iterator[Cluster]:
    """A server with PostgreSQL and Docker, that knows nothing."""
    connection = json.dumps(dict(asyncio.run(postgres.fresh())))
    config = (
        f"PostgreSQL: {{Connection: {connection}}}\n"
        f"Containers: {{RuntimeEngine: docker, DockerSocket: {docker_daemon.socket}}}\n"
    )
    with running_cluster(tmp_path_factory.mktemp("there") / "other", config) as cluster:
        yield cluster


def _pipeline(here: Cluster) -> str:
    """The uuid of the last step of a run of the pipeline."""
    pipeline = Pipeline(here.environment, minimum_quality=20)
    pipeline.run()
    return pipeline.outcomes[-1].request


def test_a_pipeline_is_replayed_elsewhere_with_equal_hashes(
    here: Cluster, there: Cluster, tmp_path: Path
) -> None:
    report = _pipeline(here)
    crate = str(tmp_path / "phage.zip")
    here.lading("export", report, "--tree", "--data", "--images", "-o", crate)
    found = json.loads(there.lading("import", "--json", crate).stdout)
    assert found["absent_images"] == []
    output = here.lading("request", "show", "--json", report).stdout
    hashed = json.loads(output)["container"]["output"]
    assert hashed in found["stored"]
    replayed = there.lading("replay", crate, timeout=300).stdout
    assert replayed.splitlines()[-1] == "reproduced 4 of 4"


def test_other_programs_read_the_crate(here: Cluster, tmp_path: Path) -> None:
    report = _pipeline(here)
    crate = str(tmp_path / "crate")
    here.lading("export", report, "--tree", "--data", "-o", crate)
    programs = environment("crates")

    def said(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    runs = said(str(programs / "runcrate"), "report", crate)
    # The whole, and its four steps.
    assert runs.count("action:") == 5
    assert "instrument: workflow.json" in runs
    script = (
        "import sys; from rocrate.rocrate import ROCrate; it = ROCrate(sys.argv[1]);"
        "print(it.mainEntity.id, len(it.get_by_type('CreateAction')),"
        " all(one.source.exists() for one in it.get_by_type('File')))"
    )
    read = said(str(programs / "python"), "-c", script, crate)
    assert read == "workflow.json 5 True\n"


def test_a_step_that_prints_the_date_is_named(
    here: Cluster, there: Cluster, tmp_path: Path
) -> None:
    report = _pipeline(here)
    script = "cat /in/report.txt > copy; (echo at; date +%s%N) > now"
    run = ("run", "--image", IMAGE, "--name", "dated", "--input", f"/in={report}")
    here.lading(*run, "--", "sh", "-ec", script)
    crate = str(tmp_path / "dated")
    here.lading("export", "dated", "--tree", "--data", "--images", "-o", crate)
    done = there.lading("replay", "--json", crate, check=False, timeout=300)
    assert done.returncode == 1, done.stderr
    steps = {one["name"]: one for one in json.loads(done.stdout)}
    dated = steps.pop("dated")
    assert dated["difference"]["path"] == "now"
    # Behind the line that stays the same.
    assert dated["difference"]["offset"] >= 3
    assert all(one["reproduced"] for one in steps.values())
    assert len(steps) == 4


def test_a_replay_on_another_server_is_remembered_here(here: Cluster, there: Cluster) -> None:
    report = _pipeline(here)
    done = here.lading("replay", report, "--at", str(there.data), timeout=300)
    assert done.stdout == "reproduced 1 of 1\n"
    shown = here.lading("request", "show", report).stdout
    assert f"reproduced on {there.address}" in shown
