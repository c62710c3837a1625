from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.blobs.volume import Loan


def test_closed_once_and_when_nobody_has_it(tmp_path: Path) -> None:
    (tmp_path / "block").write_bytes(b"data")
    loan = Loan(tmp_path / "block")
    descriptor = loan.descriptor
    loan.close()
    loan.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)
    lost = Loan(tmp_path / "block").descriptor
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(lost)
    with pytest.raises(FileNotFoundError):
        Loan(tmp_path / "none")
