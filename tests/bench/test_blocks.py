from __future__ import annotations

from pathlib import Path

import pytest

from bench.blocks.floor import Floor
from bench.blocks.measure import SIZE, Samples
from tests.reality import need_program


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "one", tmp_path / "two"]
    for path in made:
        path.write_bytes(bytes(3 << 20))
    return made


def test_the_floor_times_every_file_and_leaves_nothing(tmp_path: Path, files: list[Path]) -> None:
    need_program("gcc")
    floor = Floor(tmp_path)
    for seconds in (floor.put(files), floor.get(files)):
        assert len(seconds) == 2
        assert all(0 < one < 60 for one in seconds)
    assert list((tmp_path / "floor-blocks").iterdir()) == []


def test_a_row_says_its_share_of_the_floor() -> None:
    samples = Samples()
    samples.add("floor", [1.0, 1.0, 5.0])
    samples.add("fast", [0.5])
    samples.add("slow", [2.0])
    assert samples.rate("floor") == SIZE / 1e6
    fast, slow = (samples.figure(name, "floor", promised=True) for name in ("fast", "slow"))
    assert (fast.met, fast.note, slow.met, slow.note) == (
        True,
        "200% of the floor",
        False,
        "50% of the floor",
    )
    assert samples.figure("floor", "floor").met is None
