"""A backup of `lading up` taken under load, restored elsewhere: what had ended is there, whole, and
work goes on.
"""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.system.cluster import LADING, running_cluster

pytestmark = pytest.mark.system


def test_a_backup_under_load_comes_back_whole(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat")
        before = [_run(cluster, number) for number in range(3)]
        stop = threading.Event()
        made: list[dict[str, Any]] = []

        def work() -> None:
            while not stop.is_set():
                made.append(_run(cluster, 100 + len(made)))

        worker = threading.Thread(target=work)
        worker.start()
        try:
            cluster.lading("admin", "backup", str(tmp_path / "backup"), "--data", str(cluster.data))
        finally:
            stop.set()
            worker.join(60)
        assert made, "there was no load"
    command = [
        LADING,
        "admin",
        "restore",
        str(tmp_path / "backup"),
        "--data",
        str(tmp_path / "again"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (json.loads(done.stdout)["damaged"], json.loads(done.stdout)["missing"]) == ([], [])
    with running_cluster(tmp_path / "again") as restored:
        for number, one in enumerate(before):
            assert restored.lading("cat", f"{one['output']}/number").stdout == f"{number}\n"
        reused = _run(restored, 1)
        assert (reused["reused"], reused["container_uuid"]) == (True, before[1]["container_uuid"])
        assert not _run(restored, 1000)["reused"]


def _run(cluster: Any, number: int) -> dict[str, Any]:
    done = cluster.lading(
        "run", "--json", "--image", "tools:1", "--", "sh", "-c", f"echo {number} > number"
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
