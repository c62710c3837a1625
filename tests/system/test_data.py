"""The commands for data with a real server: an upload that is killed goes on, a very large
directory stays cheap.
"""

from __future__ import annotations

import json
import random
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
BLOCK = 64 << 20
PARTS = 2
MANY = 100_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("data") / "data") as running:
        yield running


@pytest.fixture(autouse=True)
def _own_cache(cluster: Cluster, tmp_path: Path) -> None:
    cluster.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")


def test_a_killed_upload_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    chance = random.Random(4)
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "large").open("wb") as file:
        for _ in range(PARTS):
            file.write(chance.randbytes(BLOCK))
    command = [sys.executable, "-m", "lading", "put", str(tmp_path / "in")]
    putting = subprocess.Popen(command, env=cluster.environment)
    journals = tmp_path / "cache" / "lading" / "uploads"
    until = time.monotonic() + 60
    while not any(b'"locator"' in path.read_bytes() for path in journals.glob("*.jsonl")):
        assert putting.poll() is None
        assert time.monotonic() < until
        time.sleep(0.005)
    putting.send_signal(signal.SIGKILL)
    assert putting.wait() == -signal.SIGKILL
    (journal,) = journals.glob("*.jsonl")
    sent = journal.read_bytes().count(b'"locator"')
    assert 1 <= sent <= PARTS
    pdh = cluster.lading("put", str(tmp_path / "in")).stdout.strip()
    journal.unlink()
    assert cluster.lading("put", str(tmp_path / "in")).stdout.strip() == pdh
    cluster.lading("get", pdh, str(tmp_path / "out"))
    assert (tmp_path / "out" / "large").read_bytes() == (tmp_path / "in" / "large").read_bytes()


def test_many_files_are_listed_and_one_is_fetched_in_little_memory(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "all").write_text("".join(f"{number:05}" for number in range(MANY)))
    stored = json.loads(cluster.lading("put", "--json", str(tmp_path / "all")).stdout)
    found = _api(cluster, f"collections/{stored['uuid']}")
    locator = found["manifest_text"].split()[1]
    lines = []
    for first in range(0, MANY, 1000):
        files = " ".join(f"{number * 5}:5:{number}" for number in range(first, first + 1000))
        lines.append(f"./{first // 1000} {locator} {files}\n")
    made = _api(cluster, "collections", {"collection": {"manifest_text": "".join(sorted(lines))}})
    pdh = made["portable_data_hash"]
    for arguments in (["ls", pdh], ["du", pdh], ["get", f"{pdh}/77/77123", str(tmp_path / "one")]):
        assert _peak(cluster, *arguments) < 200 << 20
    assert (tmp_path / "one").read_text() == "77123"
    assert made["file_count"] == MANY


def test_many_small_files_are_put_and_fetched(cluster: Cluster, tmp_path: Path) -> None:
    for number in range(2000):
        folder = tmp_path / "in" / f"{number // 100}"
        if not number % 100:
            folder.mkdir(parents=True)
        (folder / f"{number}").write_text(str(number))
    pdh = cluster.lading("put", str(tmp_path / "in")).stdout.strip()
    cluster.lading("get", pdh, str(tmp_path / "out"))
    done = subprocess.run(
        ["diff", "-r", "in", "out"], cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")


def _api(cluster: Cluster, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
    token = cluster.environment["ARVADOS_API_TOKEN"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(
        f"https://{cluster.address}/arvados/v1/{path}", data=data, headers=headers
    )
    context = ssl.create_default_context(cafile=str(cluster.data / "tls.crt"))
    with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _peak(cluster: Cluster, *arguments: str) -> int:
    """The most memory of one command, in bytes."""
    script = (
        "import resource, subprocess, sys; "
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", script, sys.executable, "-m", "lading", *arguments]
    done = subprocess.run(
        command, env=cluster.environment, capture_output=True, text=True, timeout=120, check=True
    )
    return int(done.stdout) * 1024
