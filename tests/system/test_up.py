"""`lading up`: ready fast, stopped cleanly, and a container outlives it and is picked up again."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.cluster import LADING, Cluster, free_address, running_cluster

pytestmark = pytest.mark.system


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path / "data") as running:
        yield running


def _add_image(cluster: Cluster) -> None:
    cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")


@pytest.mark.quick
def test_it_stops_and_starts_again_with_the_same_records(cluster: Cluster) -> None:
    _add_image(cluster)
    assert cluster.stop() == 0
    cluster.start()
    assert "tools" in cluster.lading("image", "ls").stdout


@pytest.mark.quick
def test_a_second_one_on_the_same_directory_is_refused(cluster: Cluster) -> None:
    command = [LADING, "up", "--data", str(cluster.data), "--listen", free_address()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "another 'lading up' serves this directory" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.quick
def test_it_serves_in_the_background_until_it_is_stopped(tmp_path: Path) -> None:
    def lading(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [LADING, *arguments, "--data", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    address = free_address()
    begun = lading("up", "--detach", "--json", "--listen", address)
    made = json.loads(begun.stdout)
    assert (made["address"], made["started"]) == (address, True)
    assert "serving https://" in Path(made["log"]).read_text()
    again = json.loads(lading("up", "--detach", "--json").stdout)
    assert (again["pid"], again["started"]) == (made["pid"], False)
    refused = lading("up", "--detach", "--listen", free_address())
    assert (refused.returncode, "is served at" in refused.stderr) == (1, True)
    assert json.loads(lading("down", "--json").stdout)["stopped"] == made["pid"]
    assert "nothing serves" in lading("down").stderr
    assert not (tmp_path / "up.json").exists()


@pytest.mark.quick
def test_a_port_that_is_taken_is_named(cluster: Cluster, tmp_path: Path) -> None:
    command = [LADING, "up", "--data", str(tmp_path / "other"), "--listen", cluster.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert cluster.address in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_container_outlives_a_restart(cluster: Cluster) -> None:
    _add_image(cluster)
    script = "echo before; sleep 12; echo after >/out/late.txt"
    detached = cluster.lading(
        "run", "--json", "--detach", "--image", "tools:1", "--", "sh", "-ec", script
    )
    uuid = json.loads(detached.stdout)["uuid"]
    _wait_until(lambda: bool(cluster.pids("supervisor")))
    before = cluster.pids("supervisor")
    assert cluster.stop() == 0
    cluster.start()
    assert cluster.pids("supervisor") == before
    _wait_until(lambda: _show(cluster, uuid)["state"] == "Final")
    shown = _show(cluster, uuid)
    assert (shown["container"]["state"], shown["container"]["exit_code"]) == ("Complete", 0)
    assert cluster.lading("cat", f"{shown['container']['output']}/late.txt").stdout == "after\n"


def test_who_follows_a_request_outlives_a_restart(cluster: Cluster) -> None:
    _add_image(cluster)
    script = "echo before; sleep 8; echo after"
    pipe = subprocess.PIPE
    run = [LADING, "run", "--no-reuse", "--image", "tools:1", "--", "sh", "-c", script]
    logs = [LADING, "request", "logs", "--follow", "last"]
    with subprocess.Popen(run, env=cluster.environment, stdout=pipe, text=True) as running:
        _wait_until(lambda: bool(cluster.pids("supervisor")))
        with subprocess.Popen(logs, env=cluster.environment, stdout=pipe, text=True) as following:
            # Both follow the command when the server goes.
            for process in (running, following):
                assert process.stdout is not None
                assert process.stdout.readline() == "before\n"
            assert cluster.stop() == 0
            # Longer than all attempts of one call.
            time.sleep(3)
            cluster.start()
            for process in (running, following):
                assert process.communicate(timeout=60)[0] == "after\n"
                assert process.returncode == 0


@pytest.mark.quick
def test_the_warm_parent_and_the_server_are_started_again(cluster: Cluster) -> None:
    _add_image(cluster)
    for role in ("server", "dispatcher", "warm-parent"):
        _wait_until(lambda role=role: len(cluster.pids(role)) == 1)
        (pid,) = cluster.pids(role)
        subprocess.run(["kill", "-9", str(pid)], check=True)
        _wait_until(lambda role=role, pid=pid: cluster.pids(role) not in ([], [pid]))
    _wait_until(lambda: cluster.lading("request", "list", check=False).returncode == 0)
    done = cluster.lading("run", "--image", "tools:1", "--", "sh", "-c", "echo still here")
    assert done.stdout == "still here\n"


def _show(cluster: Cluster, uuid: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(cluster.lading("request", "show", "--json", uuid).stdout)
    return shown


def _wait_until(true: object, seconds: float = 30) -> None:
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
