from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.large_files import _figures, _make, _run, _Taken, _timed


def test_the_promises_are_kept_or_broken_by_the_medians() -> None:
    floor, put, get = (_Taken([seconds], [1.0]) for seconds in (1.0, 1.2, 1.3))
    figures = _figures(3 << 29, floor=floor, put=put, get=get)
    assert [figure.met for figure in figures] == [None, True, False]
    assert figures[1].name == "lading put, a file of 1.5 GiB"
    assert figures[1].note == "1.00 s of processor time, 1.20 times md5sum and cp"


def test_files_differ_and_have_their_size(tmp_path: Path) -> None:
    _make(tmp_path / "one", (1 << 24) + 1)
    _make(tmp_path / "two", (1 << 24) + 1)
    assert (tmp_path / "one").stat().st_size == (1 << 24) + 1
    with pytest.raises(RuntimeError, match="cmp failed"):
        _run(("cmp", str(tmp_path / "one"), str(tmp_path / "two")), {})


def test_the_time_of_a_program_is_noted() -> None:
    taken = _Taken([], [])
    assert _timed(taken, ("echo", "hash"), {}, os.getpid()) == "hash"
    assert (len(taken.seconds), len(taken.processor)) == (1, 1)
