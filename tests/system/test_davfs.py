"""A collection mounted for reading and writing by Debian's davfs2: files are made, renamed, removed
and stay.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.reality import need, need_program, need_root
from tests.system.cluster import Cluster, running_cluster

pytestmark = [pytest.mark.system, pytest.mark.quick]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    need_program("mount.davfs")
    need(Path("/dev/fuse").exists(), "/dev/fuse")
    with running_cluster(tmp_path_factory.mktemp("davfs") / "data") as running:
        yield running


@contextmanager
def mounted(cluster: Cluster, uuid: str) -> Iterator[Path]:
    """The collection below a directory; what was written is sent at the latest when it is taken
    away.
    """
    with tempfile.TemporaryDirectory(prefix="lading-davfs-") as folder:
        # The program reads them as a user of its own.
        Path(folder).chmod(0o755)
        settings, place, certificate = (
            Path(folder) / name for name in ("davfs2.conf", "dav", "tls.crt")
        )
        certificate.write_bytes((cluster.data / "tls.crt").read_bytes())
        settings.write_text(f"trust_server_cert {certificate}\ndelay_upload 0\n")
        place.mkdir()
        command = [
            "mount.davfs",
            f"https://{cluster.address}/c={uuid}/",
            str(place),
            "-o",
            f"conf={settings}",
        ]
        login = f"any\n{cluster.environment['ARVADOS_API_TOKEN']}\n"
        done = subprocess.run(
            command, input=login, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True, capture_output=True, timeout=60)


def test_files_are_written_through_a_mount(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "first").write_text("was here\n")
    uuid = json.loads(cluster.lading("put", "--json", str(tmp_path / "first")).stdout)["uuid"]
    with mounted(cluster, uuid) as place:
        assert (place / "first").read_text() == "was here\n"
        (place / "notes").mkdir()
        (place / "notes" / "a.txt").write_text("written\n")
        (place / "notes" / "a.txt").rename(place / "notes" / "b.txt")
        (place / "large").write_bytes(bytes(range(256)) * 4096)
        (place / "first").unlink()
    listed = cluster.lading("ls", "-r", uuid).stdout.splitlines()
    assert [line.split()[-1] for line in listed] == ["large", "notes/b.txt"]
    assert cluster.lading("cat", f"{uuid}/notes/b.txt").stdout == "written\n"
