"""What the rows of the HPC daemon promise."""

from __future__ import annotations

from bench.hpc import rows


def test_what_is_promised_of_the_daemon() -> None:
    kept = rows([0.5, 0.6], used=0.05, memory=30, ended=2.5, left=0)
    assert [row.met for row in kept] == [True] * 4
    broken = rows([1.5, 1.6], used=0.2, memory=50, ended=2.5, left=1)
    assert [row.met for row in broken] == [False] * 4
