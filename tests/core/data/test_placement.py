from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import placement
from lading.core.data.placement import DesiredReplication, ReplicaPlace, Tally, next_wave, order
from lading.core.errors import Invalid

HASH = "acbd18db4cc2f85cedef654fccc4a4d8"
WISH = DesiredReplication(copies=2)
SITE = {"site_classes": ["default", "archive"], "default": ["default"]}
NOW = "2026-01-01T00:00:00.000000000Z"


def names(places: list[ReplicaPlace]) -> list[str]:
    return [place.uuid for place in places]


def test_those_that_hold_it_come_first_and_those_that_fail_last() -> None:
    places = [
        ReplicaPlace(uuid="a", fails=True),
        ReplicaPlace(uuid="b"),
        ReplicaPlace(uuid="c", holds=True),
    ]
    assert names(order(places, HASH)) == ["c", "b", "a"]


def test_every_block_has_an_order_of_its_own_and_keeps_it() -> None:
    places = [ReplicaPlace(uuid=name, free=100) for name in "abcd"]
    firsts = Counter(order(places, f"{number:032x}")[0].uuid for number in range(400))
    assert set(firsts) == set("abcd")
    assert min(firsts.values()) > 60
    assert order(places, HASH) == order(reversed(places), HASH)


def test_room_decides_how_often_a_volume_is_first() -> None:
    places = [
        ReplicaPlace(uuid="small", free=100),
        ReplicaPlace(uuid="large", free=900),
        ReplicaPlace(uuid="full", free=0),
    ]
    firsts = Counter(order(places, f"{number:032x}")[0].uuid for number in range(1000))
    assert 850 < firsts["large"] < 950
    assert firsts["full"] < 10


def test_a_wave_is_as_many_volumes_as_are_needed() -> None:
    places = [ReplicaPlace(uuid="a"), ReplicaPlace(uuid="b", copies=2), ReplicaPlace(uuid="c")]
    assert names(next_wave(places, Tally(), WISH)) == ["a", "b"]
    assert names(next_wave(places, Tally(), DesiredReplication())) == ["a"]
    assert names(next_wave([ReplicaPlace(uuid="b", copies=2)], Tally(), WISH)) == ["b"]
    assert names(
        next_wave([ReplicaPlace(uuid="one", copies=None)], Tally(), DesiredReplication(copies=7))
    ) == ["one"]


def test_nothing_more_is_written_once_the_wish_is_fulfilled() -> None:
    done = Tally().with_copy(ReplicaPlace(uuid="a", copies=2), WISH)
    assert (done.copies, done.lacks(WISH)) == (2, ())
    assert next_wave([ReplicaPlace(uuid="b")], done, WISH) == []


def test_two_volumes_on_one_device_are_one() -> None:
    places = [
        ReplicaPlace(uuid="a", device="disk"),
        ReplicaPlace(uuid="b", device="disk"),
        ReplicaPlace(uuid="c"),
    ]
    assert names(next_wave(places, Tally(), WISH)) == ["a", "c"]
    once = Tally().with_copy(places[0], WISH)
    assert once.with_copy(places[1], WISH) is once


def test_every_class_gets_its_copies_and_no_other_is_written() -> None:
    desired = DesiredReplication(copies=1, classes=("fast", "slow"))
    places = [
        ReplicaPlace(uuid="other"),
        ReplicaPlace(uuid="fast", classes=frozenset({"fast"})),
        ReplicaPlace(uuid="slow", classes=frozenset({"slow"})),
    ]
    assert names(next_wave(places, Tally(), desired)) == ["fast", "slow"]
    both = ReplicaPlace(uuid="both", classes=frozenset({"fast", "slow"}))
    assert names(next_wave([both, *places], Tally(), desired)) == ["both"]
    assert Tally().with_copy(places[1], desired).lacks(desired) == ("slow",)


PLACES = st.lists(
    st.builds(
        ReplicaPlace,
        uuid=st.text("abcdefgh", min_size=1, max_size=2),
        copies=st.one_of(st.none(), st.integers(1, 3)),
        classes=st.frozensets(st.sampled_from(["default", "fast"]), min_size=1),
        free=st.integers(0, 100),
        holds=st.booleans(),
        fails=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda place: place.uuid,
)
WISHES = st.builds(
    DesiredReplication,
    copies=st.integers(1, 4),
    classes=st.sampled_from([("default",), ("fast", "default")]),
)


@given(PLACES, WISHES)
def test_waves_fulfil_what_can_be_fulfilled(
    places: list[ReplicaPlace], desired: DesiredReplication
) -> None:
    tally, everything = Tally(), Tally()
    for place in next_wave(order(places, HASH), Tally(), desired):
        assert any(name in place.classes for name in tally.lacks(desired))
        tally = tally.with_copy(place, desired)
    for place in places:
        everything = everything.with_copy(place, desired)
    assert tally.lacks(desired) == everything.lacks(desired)


def test_names_go_into_a_header() -> None:
    placement.check_names("classes", ["default", "hot-1", "a.b_c"])


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a\r\nX: y", "ä", 7, None, "x" * 129])
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(Invalid, match="classes: .*no name of a storage class"):
        placement.check_names("classes", [name])


def test_too_many_names() -> None:
    with pytest.raises(Invalid, match="more than 64"):
        placement.check_names("classes", ["x"] * 65)


@pytest.mark.parametrize(
    ("desired", "served"),
    [(["archive", "none"], ("archive",)), (["none"], ("default",)), ([], ("default",))],
)
def test_served(desired: list[str], served: tuple[str, ...]) -> None:
    assert placement.served(desired, {"archive", "default"}, ["default"]) == served


def test_common_classes() -> None:
    assert placement.common(["a", "b", "a"], [{"a", "b"}, {"a"}]) == ["a"]
    assert placement.common(["a"], []) == ["a"]


def test_confirmation() -> None:
    assert placement.confirmation(["a"], NOW) == {
        "storage_classes_confirmed": ["a"],
        "storage_classes_confirmed_at": NOW,
    }
    assert placement.confirmation([], NOW) == {
        "storage_classes_confirmed": [],
        "storage_classes_confirmed_at": None,
    }


def test_known_classes_get_no_warning() -> None:
    assert placement.with_warning({}, ["default"], **SITE) is None


def test_a_warning_is_added_to_others() -> None:
    alone = placement.with_warning({}, ["x"], **SITE)
    assert alone is not None
    text = alone["warning"]
    assert text == (
        "not confirmed: this site has no storage class x; output and log are kept in default"
    )
    assert "warningDetail" not in alone
    assert placement.with_warning(
        {"warning": "w", "warningDetail": "d", "other": 1}, ["x"], **SITE
    ) == {"warning": f"w; {text}", "warningDetail": f"d\n{text}", "other": 1}
