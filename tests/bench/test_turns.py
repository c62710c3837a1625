"""Contenders in turns, and the shares of their rates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bench.turns import Entry, Peer, Singles, rate, share, take_turns


def peer(said: list[str], name: str) -> Peer:
    """A contender that does ten a second, with user code after 1 ms of 2."""

    def burst(count: int) -> float:
        said.append(name)
        return count / 10

    return Peer(burst, _singles(said, name))


def _singles(said: list[str], name: str) -> Callable[[int], Singles]:
    def singles(count: int) -> Singles:
        said.append(f"{name} alone")
        return [0.001] * count, [0.002] * count

    return singles


def test_each_round_has_all_and_begins_with_another_one() -> None:
    said: list[str] = []
    entries = [Entry("a", "as", peer(said, "a"), 0, 5), Entry("b", "bs", peer(said, "b"), 0, 5)]
    asyncio.run(take_turns(entries, 2))
    assert said == ["a", "b", "b", "a"]
    assert [row.rate for one in entries for row in one.figures()] == [10.0, 10.0]


def test_an_entry_has_rows_for_what_was_measured() -> None:
    said: list[str] = []
    entry = Entry("a", "as", peer(said, "a"), 3, 0)
    asyncio.run(take_turns([entry], 2))
    assert [(row.name, row.count, row.p50) for row in entry.figures()] == [
        ("a, to user code", 6, 1.0),
        ("a, to the end", 6, 2.0),
    ]
    assert said == ["a alone", "a alone"]


def test_what_cannot_be_measured_says_why() -> None:
    entry = Entry("a", "as", None, 3, 5, "a is not installed")
    asyncio.run(take_turns([entry], 1))
    assert [(row.name, row.count, row.note) for row in entry.figures()] == [
        ("a", 0, "a is not installed")
    ]


def test_a_rate_is_the_median_of_its_rounds_with_their_spread() -> None:
    row = rate("x", [9.0, 30.0, 10.0], 100, note="saved", least=10)
    assert (row.rate, row.count, row.target, row.met) == (10.0, 300, ">= 10 /s", True)
    assert row.note == "saved; 3 rounds, 9.0 to 30.0 /s"
    assert rate("x", [9.0], 100, least=10).met is False


def test_a_share_is_taken_round_by_round() -> None:
    row = share("x", [10.0, 30.0, 50.0], [20.0, 40.0, 200.0], least=55)
    assert (row.rate, row.unit, row.target, row.met) == (50.0, "%", ">= 55 %", False)
    assert share("x", [3.0], [2.0], least=100).met is True
