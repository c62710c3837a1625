"""How fast much data may pass beside calls: properties of the decision, and what becomes of it in
time.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.protocols import transfer_rates
from lading.core.protocols.transfer_rates import (
    PERIOD,
    REFILL,
    SPARE,
    TARGET,
    TURN,
    MinimumRate,
    PeriodMeasurements,
    StreamAllowance,
    StreamPace,
    observe,
    reserve,
)

LEAST = 8e6
RATES = st.floats(LEAST, 1e10)
PACES = st.builds(StreamPace, rate=RATES, is_bound=st.booleans())
SEEN = st.builds(
    PeriodMeasurements,
    seconds=st.floats(PERIOD, 10),
    waited=st.floats(0, 10),
    turns=st.integers(0, 10**5),
    moved=st.integers(0, 10**10),
    called=st.booleans(),
)


def seen(
    *, waited: float = 0.0, turns: int = 0, moved: int = 10**9, called: bool = True
) -> PeriodMeasurements:
    return PeriodMeasurements(
        seconds=PERIOD, waited=waited, turns=turns, moved=moved, called=called
    )


@given(PACES, SEEN)
def test_there_is_a_bound_while_somebody_calls_and_never_below_the_least(
    pace: StreamPace, one: PeriodMeasurements
) -> None:
    found = observe(pace, one, least=LEAST)
    assert found.is_bound is one.called
    assert found.rate >= LEAST
    if not (pace.is_bound and one.called):
        assert found.rate == pace.rate


@given(RATES, SEEN, st.floats(0, 1))
def test_who_waits_longer_never_lets_pass_more(
    rate: float, one: PeriodMeasurements, more: float
) -> None:
    longer = PeriodMeasurements(
        seconds=one.seconds,
        waited=one.waited + more,
        turns=one.turns,
        moved=one.moved,
        called=one.called,
    )
    pace = StreamPace(rate=rate, is_bound=True)
    assert observe(pace, longer, least=LEAST).rate <= observe(pace, one, least=LEAST).rate


def test_what_is_too_long_and_what_is_not() -> None:
    pace = StreamPace(rate=50e6, is_bound=True)
    assert observe(pace, seen(waited=PERIOD * TARGET * 1.1), least=LEAST).rate < pace.rate
    assert observe(pace, seen(waited=PERIOD * TARGET * 0.9), least=LEAST).rate > pace.rate
    # To be given a processor takes a moment when nobody else wants it, and a stream of pieces wants
    # it often.
    assert observe(pace, seen(waited=TURN * 1000, turns=1000), least=LEAST).rate > pace.rate
    # A rate that nobody makes use of says nothing about a higher one.
    assert observe(pace, seen(moved=1000), least=LEAST) == pace


@given(RATES, st.floats(LEAST, 1e9))
def test_the_rate_comes_near_to_what_is_borne_from_anywhere(rate: float, borne: float) -> None:
    """The process waits as soon as more than `borne` passes: soon the rate stays about there, and
    never far below.
    """
    pace, rates = StreamPace(rate=rate, is_bound=True), []
    for number in range(3000):
        waited = 0.005 if pace.rate > borne else 0.0
        pace = observe(pace, seen(waited=waited, moved=int(pace.rate * PERIOD) + 1), least=LEAST)
        if number >= 2900:
            rates.append(pace.rate)
    assert max(rates) <= borne + transfer_rates.STEP * PERIOD
    assert min(rates) >= max(LEAST, borne * transfer_rates.LOWER * 0.99)


@given(st.lists(st.tuples(st.integers(1, 1 << 16), st.floats(0, 0.1)), max_size=200), RATES)
def test_pieces_keep_to_the_rate_and_are_not_saved_up(
    pieces: list[tuple[int, float]], rate: float
) -> None:
    """Whenever they come, after a moment the pieces that have gone are no more than the rate allows
    since then.
    """
    now, free, gone = 100.0, 0.0, []
    for size, pause in pieces:
        now += pause
        due, free = reserve(free, size, now=now, rate=rate)
        assert due >= now
        gone.append((due, size))
    for first in range(len(gone)):
        total = sum(size for _, size in gone[first:-1])
        assert total / rate <= gone[-1][0] - gone[first][0] + transfer_rates.BURST + 1e-6


@given(st.lists(st.tuples(st.integers(1, 1 << 16), st.floats(0, 100)), max_size=100))
def test_who_moves_little_takes_no_part(pieces: list[tuple[int, float]]) -> None:
    """A stream takes part once it has moved more than its allowance, and what has come to it
    since.
    """
    one, now, moved = StreamAllowance(), 0.0, 0
    for size, pause in pieces:
        now, moved = now + pause, moved + size
        one = one.spend(size, now=now)
        if moved < SPARE:
            assert not one.is_spent
        if moved >= SPARE + REFILL * now:
            assert one.is_spent
    assert one.left <= SPARE


@pytest.mark.parametrize(("pause", "spent"), [(0.001, True), (70.0, False)])
def test_an_allowance_comes_back(pause: float, spent: bool) -> None:
    one = StreamAllowance().spend(1 << 30, now=0.0)
    assert one.is_spent
    assert one.spend(1 << 16, now=pause).is_spent is spent


def test_a_peer_has_a_minimum_rate_while_it_is_waited_for() -> None:
    pace = MinimumRate(10, 3.0)
    pace.note(29, 2.0)
    assert pace.left == 1.0
    pace.note(1, 0.5)
    assert pace.left == 3.0
    pace.note(1, 5.0)
    assert pace.left == 0.0
    assert MinimumRate(0, 3.0).left is None
