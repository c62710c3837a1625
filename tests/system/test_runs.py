"""A pipeline of 50 samples as a run: its server is killed in the middle, one sample fails, and one
command leads to the line that it wrote. What is run again is the next attempt.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, running_cluster

pytestmark = pytest.mark.system
_SAMPLES = 50
_PATIENCE = 180.0
_COUNT = (
    "sleep 0.2; test {sample} != s17 || { echo 'no reads in s17' >&2; exit 3; }; echo {sample} > n"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A site with an image."""
    need_root()
    need_program("crun")
    with running_cluster(tmp_path_factory.mktemp("runs") / "data") as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
        yield running


def pipeline(cluster: Cluster, table: Path, session: str) -> None:
    """Submit the samples, and a step that needs the first of them."""
    names = {"LADING_RUN": "cohort", "LADING_SESSION": session}
    for command in (
        ("map", "--detach", "--step", "count", "--name", "count", "--table", str(table),
         "--image", "tools:1", "--", "sh", "-c", _COUNT),
        ("run", "--detach", "--image", "tools:1", "--name", "merge", "--input", "/in=count.0",
         "--", "cat", "/in/n"),
    ):  # fmt: skip
        subprocess.run(
            [LADING, *command],
            env=cluster.environment | names, check=True, capture_output=True, timeout=120,
        )  # fmt: skip


def shown(cluster: Cluster, run: str) -> dict[str, Any]:
    """A run, for programs, once the server answers."""
    until = time.monotonic() + _PATIENCE
    while True:
        done = cluster.lading("runs", "show", run, "--json", check=False)
        if done.returncode == 0:
            document: dict[str, Any] = json.loads(done.stdout)
            return document
        assert time.monotonic() < until, done.stderr
        time.sleep(0.2)


def ended(cluster: Cluster, run: str) -> dict[str, Any]:
    """A run, once it has ended."""
    until = time.monotonic() + _PATIENCE
    while (document := shown(cluster, run))["state"] in ("waiting", "running"):
        assert time.monotonic() < until, document["counts"]
        time.sleep(0.5)
    return document


def test_a_failed_sample_is_found_after_a_crash(cluster: Cluster, tmp_path: Path) -> None:
    table = tmp_path / "samples.csv"
    table.write_text("sample\n" + "".join(f"s{number}\n" for number in range(_SAMPLES)))
    pipeline(cluster, table, "monday")
    until = time.monotonic() + _PATIENCE
    while not 5 <= shown(cluster, "cohort")["counts"]["done"] < _SAMPLES:
        assert time.monotonic() < until
        time.sleep(0.1)
    for pid in cluster.pids("server"):
        os.kill(pid, signal.SIGKILL)
    first = ended(cluster, "cohort")
    assert (first["state"], first["attempt"]) == ("failed", 1)
    assert (first["counts"]["done"], first["counts"]["failed"]) == (_SAMPLES, 1)
    assert [step["name"] for step in first["steps"]] == ["count", "merge"]
    assert "  | no reads in s17\n" in cluster.lading("runs", "show", "cohort").stdout
    pipeline(cluster, table, "tuesday")
    again = ended(cluster, "cohort")
    assert (again["attempt"], again["state"]) == (2, "failed")
    assert again["counts"]["reused"] == _SAMPLES
    rows = json.loads(cluster.lading("runs", "list", "--json").stdout)
    assert [row["name"] for row in rows] == ["cohort"]
