from __future__ import annotations

import io
from pathlib import Path

import pytest

from lading.supervisor.gang.output_archive import send


def test_what_cannot_be_sent_breaks_the_archive_off(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    with pytest.raises(OSError, match="2 deep"):
        send(str(tmp_path), io.BytesIO(), max_depth=2)
