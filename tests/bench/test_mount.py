"""What the rows of the mount's benchmark promise."""

from __future__ import annotations

import pytest

from bench.mount import Turns, _rows

NAMES = ("cold", "warm", "kernel empty", "random", "readers", "find", "files")


def _turns(seconds: float, *, opening: float = 0.5, memory: int = 100 << 20) -> Turns:
    found = Turns(memory=memory)
    for name, value in (*((name, seconds) for name in NAMES), ("open", opening)):
        found.seconds[name] = [value] * 3
        found.busy[name] = [value] * 3
    return found


@pytest.mark.parametrize(("ours", "kept"), [(0.9, 4), (0.6, 7), (1.1, 0)])
def test_the_ratio_to_arv_mount_is_what_is_promised(ours: float, kept: int) -> None:
    rows = _rows(_turns(ours), _turns(1.0), _turns(2.0), size=512, files=100)
    assert sum(row.met is True for row in rows[:-1]) == kept
    assert [row.met for row in rows if "over HTTPS" in row.name] == [None] * 3


@pytest.mark.parametrize(
    ("opening", "memory", "met"), [(0.9, 199, True), (1.1, 100, False), (0.5, 201, False)]
)
def test_opening_is_bounded_in_time_and_memory(opening: float, memory: int, met: bool) -> None:
    rows = _rows(
        _turns(1.0, opening=opening, memory=memory << 20),
        _turns(1.0),
        _turns(1.0),
        size=512,
        files=100,
    )
    assert rows[-1].met is met
