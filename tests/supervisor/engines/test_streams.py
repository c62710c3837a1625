from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor.engines import crun
from lading.supervisor.engines.crun import guarded, null
from tests.reality import need_root


def test_the_null_device_keeps_its_owner_and_mode() -> None:
    need_root()
    assert os.read(null(), 1) == b""
    assert os.write(null(), b"x") == 1
    with pytest.raises(OSError, match="Read-only"):
        os.fchmod(null(), 0)
    with pytest.raises(OSError, match="Read-only"):
        os.fchown(null(), 1, 1)


def test_a_file_that_is_read_is_guarded_and_others_are_passed_on(tmp_path: Path) -> None:
    need_root()
    (tmp_path / "input").write_text("data")
    reading, writing = os.pipe()
    with (
        (tmp_path / "input").open("rb") as file,
        guarded((file.fileno(), writing, -1), None) as used,
    ):
        assert used[0] != file.fileno()
        assert used[1:] == (writing, null())
        with pytest.raises(OSError, match="Read-only"):
            os.fchmod(used[0], 0o777)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(used[0])
    os.close(reading)
    os.close(writing)


def test_an_old_kernel_passes_files_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(descriptor: int, **more: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(crun, "reopen", refuse)
    null.cache_clear()
    os.close(null())
    null.cache_clear()
    with (
        (tmp_path / "input").open("wb") as file,
        guarded((file.fileno(), file.fileno(), file.fileno()), None) as used,
    ):
        assert used == (file.fileno(),) * 3
