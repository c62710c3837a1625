from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from lading.supervisor.rehearsal import rehearse
from tests.supervisor.supervised import open_files


async def test_it_goes_through_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_files()
    await rehearse()
    assert list(tmp_path.iterdir()) == []
    assert open_files() == before
