from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor import linux
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.full_mounts import full_places
from tests.supervisor.inputs.stages import staged


async def test_a_directory_in_memory_that_is_full_is_named(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linux, "mount", lambda *_: None)
    mounts = {"/a": {"kind": "tmp", "device_type": "ram", "capacity": 7}}
    stage = await staged(tmp_path, inputs, mounts, memory=True)
    assert full_places(tmp_path, stage) == ""
    assert full_places(tmp_path / "none", None) == ""
    monkeypatch.setattr(
        os, "statvfs", lambda path: os.statvfs_result((1, 1, 100, 1, 0, 1, 1, 1, 1, 1))
    )
    assert full_places(tmp_path, stage) == "/a was full (mounts: capacity 7)"
