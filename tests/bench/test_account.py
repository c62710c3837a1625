from __future__ import annotations

from collections import Counter

import pytest

from bench.account import describe, read_summary

TABLE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 96.02   14.694433         864     17005      2187 futex
  1.12    0.170846         328       520           fdatasync
------ ----------- ----------- --------- --------- ----------------
100.00   14.865279         848     17525      2187 total
"""


def test_calls_are_those_of_one_container() -> None:
    assert read_summary(TABLE, 100) == Counter(futex=170, fdatasync=5)


def test_another_text_is_no_table() -> None:
    with pytest.raises(ValueError, match="no table"):
        read_summary("strace: attach: not permitted\n", 1)


def test_calls_are_described() -> None:
    found = describe(Counter(futex=170, fdatasync=5, fsync=3))
    assert found.startswith("178 system calls (170 futex, 5 fdatasync, 3 fsync), 8 of them")
