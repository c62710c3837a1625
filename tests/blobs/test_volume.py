from __future__ import annotations

from pathlib import Path

import pytest

from lading.blobs.directory import DirectoryVolume
from lading.blobs.volume import open_volume, read_parameters
from lading.core.errors import Invalid


def test_a_driver_is_found_by_its_name(tmp_path: Path) -> None:
    assert isinstance(open_volume("Directory", {"Root": str(tmp_path)}), DirectoryVolume)
    with pytest.raises(Invalid, match="no driver 'Tape'; there are: .*Directory"):
        open_volume("Tape", {})


def test_parameters_have_names_types_and_defaults() -> None:
    assert read_parameters("X", {"a": 1}, {"a": 2.0, "b": "c"}) == {"a": 1, "b": "c"}
    with pytest.raises(Invalid, match="X: unknown parameter d; known: a, b"):
        read_parameters("X", {"d": 1}, {"a": 2.0, "b": "c"})
    with pytest.raises(Invalid, match="X: b must be a str, not 5"):
        read_parameters("X", {"b": 5}, {"a": 2.0, "b": "c"})
