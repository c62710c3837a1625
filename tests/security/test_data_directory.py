"""What another user of the machine finds in the data directory, whatever umask `lading up` was
started with.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reality import need_root
from tests.security.stranger import QUIET
from tests.system.cluster import LADING, Cluster, free_address, running_cluster

pytestmark = pytest.mark.system
OTHERS = 0o077
OF_CONTAINERS = ("bundle", "mounts", "rootfs")
"""What belongs to a container below its run directory; its modes are those that its programs
see.
"""
PATIENCE = 30.0


def _open_to_others(data: Path) -> Iterator[str]:
    """Everything that has a bit for group or others, but for the trees of containers behind closed
    directories.
    """
    for folder, names, files in os.walk(data):
        place = Path(folder)
        if place.parent == data / "run":
            names[:] = [name for name in names if name not in OF_CONTAINERS]
            files = [name for name in files if name != "crun.log"]
        if place == data / "cache":
            names[:] = []
        for name in (".", *files):
            mode = (place / name).lstat().st_mode
            if mode & OTHERS and not stat.S_ISLNK(mode):
                yield f"{place / name}: {stat.S_IMODE(mode):o}"


@pytest.mark.attack(
    "reads the records, blocks, logs or secrets in a data directory as another user of the machine"
)
@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
@pytest.mark.quick
def test_modes_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    need_root()
    before = os.umask(umask)
    try:
        with running_cluster(tmp_path / "data") as cluster:
            _use(cluster)
            assert list(_open_to_others(cluster.data)) == []
            backup = tmp_path / "backup"
            cluster.lading("admin", "backup", str(backup), "--data", str(cluster.data))
        subprocess.run(
            [LADING, "admin", "restore", str(backup), "--data", str(tmp_path / "again")], check=True
        )
    finally:
        os.umask(before)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert list(_open_to_others(tmp_path / "again")) == []


def _use(cluster: Cluster) -> None:
    """Have a block, a log and a container that runs."""
    cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "id")
    # A program in it that is not root reads the tree that was made for it.
    done = cluster.lading(
        "run", "--image", "tools:1", "--", "sh", "-c", "id -u >/out/who && ls -ld / >/dev/null || :"
    )
    assert done.returncode == 0
    command = [LADING, "run", "--image", "tools:1", "--", "sleep", "2"]
    running = subprocess.Popen(command, env=cluster.environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while not list((cluster.data / "run").glob("*/log/stdout.txt")):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert list(_open_to_others(cluster.data)) == []
    assert running.wait() == 0


@pytest.mark.attack("reads a data directory that was made for everybody before it was first served")
def test_a_wide_directory_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    with running_cluster(data, QUIET):
        pass
    for wide in (
        data,
        data / "db.sqlite",
        data / "log" / "server.log",
        data / "tls.key",
        data / "log",
    ):
        wide.chmod(0o777 if wide.is_dir() else 0o666)
    (data / "config.yml").chmod(0o644)
    told = _told(data)
    assert told == [
        f"lading: {data}: was open to other users (mode 777); only its owner can read it now"
    ]
    assert list(_open_to_others(data)) == [f"{data / 'config.yml'}: 644"]
    assert _told(data) == []


def _told(data: Path) -> list[str]:
    """What `lading up` says on standard error, until it serves."""
    command = [LADING, "up", "--data", str(data), "--listen", free_address()]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "ready" in process.stdout.readline()
        process.terminate()
        return process.stderr.read().splitlines()


@pytest.mark.attack(
    "makes a data directory for somebody else to serve, and keeps the right to read it"
)
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    need_root()
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, 65534, 65534)
    done = subprocess.run(
        [LADING, "up", "--data", str(data)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, "belongs to user 65534" in done.stderr, done.stderr.count("\n")) == (
        1,
        True,
        1,
    )
    assert list(data.iterdir()) == []
