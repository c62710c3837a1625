"""Project quotas, on a file system of its own where the kernel has them; elsewhere there are
none.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from lading.core.containers.disk_space import Amount
from lading.supervisor.limits import project_quota
from lading.supervisor.limits.project_quota import begin_project as begin
from tests.security.small_disk import mounted, small_disk

MIB = 1 << 20
PLACES = {"a": 0o2777, "b": 0o755}


def test_a_file_system_without_quotas_is_left_alone(tmp_path: Path) -> None:
    assert begin(tmp_path, PLACES) is None
    assert begin(tmp_path / "none", PLACES) is None
    assert list(tmp_path.iterdir()) == []


def test_what_the_kernel_is_given_has_its_size() -> None:
    assert (project_quota.ATTRIBUTES.size, project_quota.QUOTA.size) == (28, 72)


def test_the_kernel_stops_who_writes_too_much() -> None:
    try:
        with small_disk(size=64, features="project,quota", options="prjquota") as disk:
            _check(disk / "run")
    except subprocess.CalledProcessError:
        pytest.skip("this kernel has no project quotas for ext4")


def test_a_disk_that_cannot_be_mounted_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    refused = pytest.raises(subprocess.CalledProcessError)
    with refused, mounted("-t", "no-file-system", "none"):
        pass
    assert list(tmp_path.iterdir()) == []


def _check(directory: Path) -> None:
    directory.mkdir()
    project, other = begin(directory, PLACES), begin(directory, {"c": 0o777})
    assert project is not None
    assert other is not None
    assert project.number != other.number
    project.limit(Amount(8 * MIB, 20))
    script = "dd if=/dev/zero of=a/x bs=1M count=20; i=0; while true > b/$i; do i=$((i + 1)); done"
    drop = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]
    said = subprocess.run(
        [*drop, "sh", "-c", script], cwd=directory, capture_output=True, text=True, check=False
    )
    assert "quota exceeded" in said.stderr
    used = project.used()
    assert 7 * MIB < used.size <= 8 * MIB
    assert used.files == 20
    (directory / "c" / "x").write_bytes(b"x" * 10 * MIB)
    project.limit(Amount())
    assert project.used() == used
