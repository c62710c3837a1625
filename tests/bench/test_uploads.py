from __future__ import annotations

from pathlib import Path

import pytest

from bench.uploads import SIZE, _figures, _make, _run, _timed_floor


def test_the_promise_is_kept_or_broken_by_the_medians() -> None:
    kept = _figures(100, ours=[1.0, 9.0, 1.0], theirs=[3.0], again=[0.5], floors=[0.1])
    assert [one.met for one in kept] == [None, None, True, None]
    assert kept[2].note == "3.0 times arv-put, the start of both programs included"
    assert _figures(100, ours=[2.0], theirs=[3.0], again=[1.0], floors=[0.1])[2].met is False


def test_every_round_has_files_of_its_own(tmp_path: Path) -> None:
    one, two = _make(tmp_path / "one", 3), _make(tmp_path / "two", 3)
    assert {path.stat().st_size for path in one} == {SIZE}
    assert len({path.read_bytes() for path in (*one, *two)}) == 6
    assert _timed_floor(one) > 0


def test_a_program_that_fails_is_named() -> None:
    with pytest.raises(RuntimeError, match="sh failed: no room"):
        _run(("sh", "-c", "echo no room >&2; exit 3"), {})
