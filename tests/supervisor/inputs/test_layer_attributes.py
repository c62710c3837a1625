"""Extended attributes that a file system cannot store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor.inputs.layer_attributes import set_attribute


def test_an_attribute_is_set_or_the_reason_told(tmp_path: Path) -> None:
    place = str(tmp_path)
    assert set_attribute(place, "user.a", b"b", follow_symlinks=True) == ""
    assert os.getxattr(tmp_path, "user.a") == b"b"
    large = b"x" * (1 << 20)
    reason = set_attribute(place, "user.large", large, follow_symlinks=True)
    assert "its 1048576 bytes cannot be stored" in reason


def test_a_failure_of_the_disk_is_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        set_attribute(str(tmp_path / "none"), "user.a", b"b", follow_symlinks=True)
