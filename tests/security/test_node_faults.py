"""A container's names in messages of its engine do not take a machine out of service."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.testing.images import first_layer, make_archive, make_layer, tiny_image
from tests.reality import need_program, need_root
from tests.system.test_supervisor import staged

pytestmark = pytest.mark.system


@pytest.mark.attack("names a command like the message of a broken engine")
@pytest.mark.parametrize("command", ["crun cannot be run", "No space left on device"])
async def test_a_command_marks_no_machine(tmp_path: Path, command: str) -> None:
    need_root()
    need_program("crun")
    async with staged(engine="native", lock_directory=str(tmp_path)) as stage:
        mounts = {"/out": {"kind": "tmp"}}
        record = await stage.run([command], mounts=mounts, output_path="/out")
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "user")
    assert not (tmp_path / "crunch-run-broken").exists()


@pytest.mark.attack("mounts on a path, named like the message of a broken engine, below a file")
async def test_a_mount_marks_no_machine(tmp_path: Path) -> None:
    need_root()
    need_program("crun")
    target = "/d/No space left on device"
    async with staged(engine="native", lock_directory=str(tmp_path)) as stage:
        layers = [first_layer(tiny_image()[1]), make_layer({"d": b"a file"})]
        name, archive = make_archive(layers)
        stage.image = stage.server.add_collection({f"{name}.tar": archive})
        mounts = {"/out": {"kind": "tmp"}, target: {"kind": "text", "content": ""}}
        record = await stage.run(["true"], mounts=mounts, output_path="/out")
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "image")
    assert not (tmp_path / "crunch-run-broken").exists()
