"""`lading import`, and `lading replay` of a crate, between two servers."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.site import Play, Site

CLEAN, PLOT = Play(files={"d/kept": b"1", "empty": b""}), Play(files={"plot": b"p" * 100})


@pytest.fixture
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A second server."""
    with Site(tmp_path_factory.mktemp("other")) as served:
        yield served


@pytest.fixture
def crate(site: Site, here: Path) -> Path:
    """The crate of two steps, with data and images."""
    image = site.call(site.world.ensure_image())
    (here / "x").write_text("1")
    run = ("run", "--image", image, "--no-reuse", "--name")
    site.command(*run, "clean", "--input", "/in=x", "--", "c", plays=[CLEAN])
    after = ("--input", "/in=last", "--after", "last")
    site.command(*run, "plot", *after, "--", "p", plays=[PLOT])
    site.lading("export", "plot", "--tree", "--data", "--images", "-o", "crate")
    return here / "crate"


def _rehash(crate: Path) -> None:
    """Make the checksums of a crate anew, as who tampers with it would."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(crate)}\n"
        for path in sorted(crate.rglob("*"))
        if path.is_file() and path.name != "checksums.sha256"
    ]
    (crate / "checksums.sha256").write_text("".join(lines))


def test_another_server_gets_the_same_hashes(other: Site, crate: Path) -> None:
    found = json.loads(other.lading("import", "crate", "--json").stdout)
    manifests = {path.stem for path in (crate / "manifests").iterdir()}
    assert set(found["stored"]) == manifests
    assert (found["present"], found["absent_images"]) == ([], [])
    again = other.lading("import", "crate").stderr
    assert f"stored 0 collections in {found['project'][:6]}" in again
    assert f"{len(manifests)} were here already" in again
    listed = other.lading("ls", found["collection"]).stdout
    assert "ro-crate-metadata.json" in listed


def test_a_crate_is_replayed_on_another_server(other: Site, crate: Path) -> None:
    assert crate.is_dir()
    done = other.command("replay", "./crate", plays=[CLEAN, PLOT])
    assert done.stdout.endswith("reproduced 2 of 2\n")
    changed = Play(files={"plot": b"p" * 60 + b"q" * 40})
    done = other.command("replay", "./crate", plays=[CLEAN, changed], code=1)
    assert "plot differs at byte 60" in done.stdout


def test_what_is_wrong_is_named(other: Site, crate: Path) -> None:
    whole = crate.with_name("whole")
    shutil.copytree(crate, whole)

    def refused(fault: str) -> None:
        assert fault in other.lading("import", "crate", code=1).stderr
        shutil.rmtree(crate)
        shutil.copytree(whole, crate)

    data = next(path for path in (crate / "data").rglob("plot"))
    data.write_bytes(b"q" * 100)
    refused("plot: was changed")
    data.write_bytes(b"q" * 100)
    _rehash(crate)
    refused("the files of the crate give another block")
    data.unlink()
    _rehash(crate)
    refused("is neither in the crate nor here")
    manifest = next(iter((crate / "manifests").iterdir()))
    manifest.write_text(". d41d8cd98f00b204e9800998ecf8427e+0 0:0:x\n")
    _rehash(crate)
    refused(f"{manifest.name}: is not the manifest of this hash")
    manifest.unlink()
    _rehash(crate)
    refused(manifest.name.removesuffix(".txt"))
    record = next(path for path in (crate / "records").iterdir() if "dz642" in path.name)
    record.write_text("{}")
    _rehash(crate)
    refused(f"{record.name}: is not the record")
    record.unlink()
    _rehash(crate)
    refused("the record of its container is missing")


def test_signed_by_whom(other: Site, site: Site, crate: Path) -> None:
    for name in ("key", "foe"):
        command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name)
        subprocess.run(command, cwd=crate.parent, check=True, timeout=20)
    signed = ("--tree", "--data", "--images", "--sign", "key", "-o", "signed.zip")
    site.lading("export", "plot", *signed)
    assert "not signed" in other.lading("import", "crate", "--signers", "key.pub", code=1).stderr
    foe = other.lading("import", "signed.zip", "--signers", "foe.pub", code=1)
    assert "none of the signers" in foe.stderr
    assert (
        "signed by SHA256:" in other.lading("import", "signed.zip", "--signers", "key.pub").stderr
    )


def test_a_crate_without_its_data_or_images(other: Site, site: Site, crate: Path) -> None:
    assert crate.is_dir()
    site.lading("export", "plot", "-o", "bare")
    assert "export it with --data" in other.lading("import", "bare", code=1).stderr
    site.lading("export", "plot", "--data", "-o", "data")
    assert "add it before a replay" in other.lading("import", "data").stderr
    assert "export it with --images" in other.lading("replay", "./data", code=1).stderr
