"""The image of HPC containers, from a machine of our own."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from lading.client.images.from_host import SourceHost
from lading.client.images.hpc import DAEMON, INIT, PROGRAMS, build_hpc
from lading.client.images.linkage import Linkage
from lading.core.errors import Invalid


@pytest.fixture
def host(tmp_path: Path) -> SourceHost:
    """A machine with a script for every program."""
    root = tmp_path / "machine"
    for name in (*PROGRAMS, "sh", "ring"):
        path = root / (name.lstrip("/") if name.startswith("/") else f"usr/bin/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/usr/bin/sh\n")
        path.chmod(0o755)
    return SourceHost(
        root=root, search=("/usr/bin",), linker=lambda *_: Linkage(), architecture="amd64"
    )


def test_the_image_starts_sshd_and_the_daemon(host: SourceHost, tmp_path: Path) -> None:
    image = build_hpc(["ring"], tmp_path, host=host, daemon=b"the daemon")
    with tarfile.open(image.path) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(archive.extractfile(manifest[0]["Config"]))  # type: ignore[arg-type]
    assert config["config"]["Cmd"] == [INIT]
    assert len(config["rootfs"]["diff_ids"]) == 2
    with tarfile.open(tmp_path / "cluster.tar") as layer:
        daemon = layer.extractfile(DAEMON.lstrip("/"))
        assert daemon is not None
        assert daemon.read() == b"the daemon"
        assert layer.getmember(INIT.lstrip("/")).mode & 0o111
        assert not [name for name in layer.getnames() if "key" in name]
    with tarfile.open(tmp_path / "layer.tar") as layer:
        assert "usr/bin/ring" in layer.getnames()


def test_programs_are_named_by_relative_paths(host: SourceHost, tmp_path: Path) -> None:
    here = replace(host, directory="/home/me/work")
    for name in ("work/heat", "ring"):
        path = host.root / "home/me" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/usr/bin/sh\n")
        path.chmod(0o755)
    build_hpc(["./heat", "../ring"], tmp_path, host=here, daemon=b"")
    with tarfile.open(tmp_path / "layer.tar") as layer:
        assert {"home/me/work/heat", "home/me/ring"} <= set(layer.getnames())
        links = {
            name: layer.getmember(f"usr/local/bin/{name}").linkname for name in ("heat", "ring")
        }
    assert links == {"heat": "/home/me/work/heat", "ring": "/home/me/ring"}
    with pytest.raises(Invalid, match="/home/me/work/sum: is no program on this machine"):
        build_hpc(["./sum"], tmp_path, host=here, daemon=b"")


def test_the_code_may_leave_results_as_any_user(host: SourceHost, tmp_path: Path) -> None:
    build_hpc([], tmp_path, host=host, daemon=b"")
    with tarfile.open(tmp_path / "cluster.tar") as layer:
        assert layer.getmember("hpcaas/results").mode == 0o1777


def test_what_the_machine_lacks_is_named(host: SourceHost, tmp_path: Path) -> None:
    (host.root / "usr/bin/mpirun").unlink()
    with pytest.raises(Invalid, match="mpirun"):
        build_hpc([], tmp_path, host=host, daemon=b"")
