"""What a release consists of: scripts/build.sh, scripts/oci.py, scripts/units.py."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from tests.reality import need_program

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[2]


def image(directory: Path, number: int) -> Path:
    """The image archive of a small root."""
    root, target = directory / "root.tar", directory / f"image-{number}.tar"
    if not root.exists():
        (directory / "hello").write_text("hello\n")
        with tarfile.open(root, "w") as tar:
            tar.add(directory / "hello", "hello")
    options = ("--name", "lading:9.9.9", "--architecture", "amd64", "--version", "9.9.9")
    subprocess.run([sys.executable, "scripts/oci.py", root, target, *options], cwd=ROOT, check=True,
                   env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"})  # fmt: skip
    return target


@pytest.mark.quick
def test_the_same_root_gives_the_same_image(tmp_path: Path) -> None:
    assert image(tmp_path, 1).read_bytes() == image(tmp_path, 2).read_bytes()


@pytest.mark.quick
def test_every_digest_of_an_image_is_that_of_its_blob(tmp_path: Path) -> None:
    with tarfile.open(image(tmp_path, 1)) as tar:
        files = {one.name: tar.extractfile(one) for one in tar}
        found = {name: file.read() for name, file in files.items() if file is not None}
    blobs = {name: data for name, data in found.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    for name, data in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
    (listed,) = json.loads(found["manifest.json"])
    assert {listed["Config"], *listed["Layers"]} < {*blobs}
    assert listed["RepoTags"] == ["lading:9.9.9"]
    settings = json.loads(found[listed["Config"]])["config"]
    assert settings["Cmd"][:3] == ["up", "--data", "/var/lib/lading"]


@pytest.mark.quick
def test_podman_reads_the_image(tmp_path: Path) -> None:
    need_program("podman")
    made = image(tmp_path, 1)
    # Podman refuses a run root of more than 50 characters.
    with tempfile.TemporaryDirectory(prefix="lading-") as folder:
        store = ("--root", f"{folder}/store", "--runroot", f"{folder}/run")
        command = ["podman", *store, "--storage-driver", "vfs"]
        done = subprocess.run(
            [*command, "load", "-i", made], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip().endswith("lading:9.9.9")
        subprocess.run([*command, "rmi", "--all", "--force"], capture_output=True, check=True)


@pytest.mark.quick
def test_the_units_of_the_package_run_its_program(tmp_path: Path) -> None:
    for kind in ("system", "user"):
        (tmp_path / kind).mkdir()
    subprocess.run([sys.executable, "scripts/units.py", tmp_path], cwd=ROOT, check=True)
    system = (tmp_path / "system/lading.service").read_text()
    user = (tmp_path / "user/lading.service").read_text()
    assert "ExecStart=/usr/bin/lading up --data /var/lib/lading --listen" in system
    assert "ExecStart=/usr/bin/lading up --data %h/.local/share/lading" in user
    # Several users of one machine have several ports.
    assert "--listen" not in user


@pytest.mark.long
def test_two_builds_give_the_same_distributions(tmp_path: Path) -> None:
    for name in ("one", "two"):
        subprocess.run(["scripts/build.sh", tmp_path / name], cwd=ROOT, check=True, timeout=600)
    made = sorted((tmp_path / "one").iterdir())
    assert [path.suffix for path in made] == [".whl", ".whl", ".whl", ".gz"]
    assert ["-any" in path.name for path in made] == [True, False, False, False]
    assert ["_aarch64" in path.name for path in made] == [False, True, False, False]
    for path in made:
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    with zipfile.ZipFile(made[0]) as wheel:
        assert "lading/client/site.py" in wheel.namelist()
        assert "lading/wiring/up.py" not in wheel.namelist()
    with zipfile.ZipFile(made[1]) as wheel:
        assert "lading/web/static/vendor/htmx.min.js" in wheel.namelist()
        assert "lading/supervisor/starter/lading-start" in wheel.namelist()
