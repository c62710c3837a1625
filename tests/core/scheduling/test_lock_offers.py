"""Offers of containers to one dispatcher first: rules as examples, bounds as properties."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.scheduling.lock_offers import LONGEST, SHORTEST, LockOffers

ABC = ("a", "b", "c")


def test_containers_are_offered_in_turns() -> None:
    offers = LockOffers()
    assert [offers.offer(str(number), ABC, now=0.0) for number in range(6)] == list("abcabc")
    assert offers.offered_to("1") == "b"
    assert offers.offered_to("9") == ""


def test_a_single_dispatcher_needs_no_offer() -> None:
    offers = LockOffers()
    assert offers.offer("1", ("a",), now=0.0) == ""
    assert offers.deadline is None


def test_all_hear_at_once_when_each_has_its_offers() -> None:
    offers = LockOffers(most=1)
    assert [offers.offer(one, "ab", now=0.0) for one in "123"] == ["a", "b", ""]


def test_who_lets_an_offer_pass_gets_none_until_it_locks() -> None:
    offers = LockOffers()
    assert offers.offer("1", "ab", now=0.0) == "a"
    assert offers.deadline == SHORTEST
    assert list(offers.expire(SHORTEST / 2)) == []
    assert list(offers.expire(SHORTEST)) == [("1", "a")]
    assert [offers.offer(one, "ab", now=1.0) for one in "23"] == ["b", "b"]
    offers.lock("1", "a", now=1.0)
    assert offers.offer("4", "ab", now=1.0) == "a"


def test_who_lets_an_offer_pass_has_room_again_when_a_container_of_its_ends() -> None:
    offers = LockOffers()
    offers.lock("0", "a", now=0.0)
    offers.offer("1", "ab", now=0.0)
    assert dict(offers.expire(1.0)) == {"1": "a"}
    offers.close("0")
    assert offers.holder("0") == ""
    assert [offers.offer(one, "ab", now=1.0) for one in "23"] == ["b", "a"]


def test_who_lets_an_offer_pass_is_asked_again_after_a_pause() -> None:
    offers = LockOffers(pause=5.0, most=1)
    offers.offer("1", "ab", now=0.0)
    offers.offer("2", "ab", now=0.0)
    assert dict(offers.expire(1.0)) == {"1": "a", "2": "b"}
    assert offers.offer("3", "ab", now=5.0) == ""
    assert offers.offer("4", "ab", now=6.0) == "a"


def test_who_never_locks_is_asked_more_and_more_seldom() -> None:
    offers, asked = LockOffers(pause=10.0), list[int]()
    for now in range(700):
        # The other one locks all.
        offers.lock("0", "b", now=now)
        if offers.offer(str(now), "ab", now=now) == "a":
            asked.append(now)
        dict(offers.expire(now + 0.5))
    pauses = [after - before for before, after in pairwise(asked)]
    assert pauses[:6] == [pytest.approx(one, abs=2) for one in (10, 20, 40, 80, 160, 160)]


def test_the_holder_is_known_until_the_end() -> None:
    offers = LockOffers()
    offers.lock("1", "b", now=0.0)
    assert offers.holder("1") == "b"
    offers.close("1")
    assert offers.holder("1") == ""


def test_offers_last_longer_where_locks_take_long() -> None:
    offers = LockOffers()
    for number in range(50):
        chosen = offers.offer(str(number), "ab", now=0.0)
        # Also of an offer that has ended before its lock.
        assert dict(offers.expire(0.2)) in ({}, {str(number): chosen})
        offers.lock(str(number), chosen, now=0.2)
    assert 0.9 < offers.period <= 1.0
    for number in range(50):
        offers.lock(str(number), offers.offer(str(number), "ab", now=0.0), now=100.0)
    assert offers.period == LONGEST


def test_a_lock_by_another_dispatcher_says_nothing_about_the_time() -> None:
    offers = LockOffers()
    assert offers.offer("1", "ab", now=0.0) == "a"
    offers.lock("1", "b", now=9.0)
    assert offers.period == SHORTEST


def test_what_is_remembered_is_bounded() -> None:
    offers = LockOffers(most_held=2, most_ended=1)
    for container in "123":
        offers.lock(container, "a", now=0.0)
    assert [offers.holder(container) for container in "123"] == ["", "a", "a"]
    chosen = {container: offers.offer(container, ABC, now=0.0) for container in "45"}
    assert dict(offers.expire(1.0)) == chosen
    # The time of the first one is forgotten, so its late lock does not count.
    offers.lock("4", chosen["4"], now=9.0)
    assert offers.period == SHORTEST
    offers.lock("5", chosen["5"], now=9.0)
    assert offers.period == LONGEST


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.integers(0, 9)),
        st.tuples(st.just("lock"), st.integers(0, 9), st.sampled_from(ABC)),
        st.tuples(st.just("close"), st.integers(0, 9)),
        st.tuples(st.just("pass"), st.floats(0, 5)),
    )
)


@given(_steps)
def test_each_offer_ends_once_and_none_has_too_many(steps: list[tuple[object, ...]]) -> None:
    offers, now, opened = LockOffers(most=2), 0.0, dict[str, str]()
    for kind, *given_values in steps:
        container = str(given_values[0])
        if kind == "offer":
            opened.pop(container, None)
            if chosen := offers.offer(container, ABC, now=now):
                opened[container] = chosen
        elif kind == "lock":
            opened.pop(container, None)
            offers.lock(container, str(given_values[1]), now=now)
        elif kind == "close":
            opened.pop(container, None)
            offers.close(container)
        else:
            now += float(str(given_values[0]))
            for over, dispatcher in offers.expire(now):
                assert opened.pop(over) == dispatcher
        assert {one: offers.offered_to(one) for one in opened} == opened
        assert all(count <= 2 for count in Counter(opened.values()).values())
        assert (offers.deadline is None) == (not opened)
        assert SHORTEST <= offers.period <= LONGEST
    assert dict(offers.expire(now + LONGEST)) == opened


def test_two_offers_that_pass_at_once_count_as_one() -> None:
    offers = LockOffers(pause=60.0)
    assert [offers.offer(one, "ab", now=0.0) for one in "123"] == ["a", "b", "a"]
    assert list(offers.expire(SHORTEST)) == [("1", "a"), ("2", "b"), ("3", "a")]
    assert offers.offer("4", "ab", now=SHORTEST + 59.0) == ""
    assert {offers.offer(one, "ab", now=SHORTEST + 60.0) for one in "56"} == {"a", "b"}
