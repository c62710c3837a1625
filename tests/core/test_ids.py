"""Uuids and portable data hashes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lading.core import ids


@given(st.binary(min_size=10, max_size=20))
def test_made_uuids_are_uuids(entropy: bytes) -> None:
    made = ids.make_uuid("zzzzz", ids.Infix.CONTAINER, entropy)
    assert ids.is_uuid(made)
    assert ids.is_uuid(made, ids.Infix.CONTAINER)
    assert not ids.is_uuid(made, ids.Infix.REQUEST)
    assert ids.infix_of(made) == ids.Infix.CONTAINER


def test_later_uuids_sort_behind_earlier_ones() -> None:
    moments = (0, 2, 1_700_000_000_000, 1_700_000_000_002, 5_000_000_000_000)
    made = [
        ids.make_ordered_uuid("zzzzz", ids.Infix.REQUEST, b"\xff" * 8, milliseconds=one)
        for one in moments
    ]
    assert all(ids.is_uuid(one, ids.Infix.REQUEST) for one in made)
    assert made == sorted(made)
    other = ids.make_ordered_uuid(
        "zzzzz", ids.Infix.REQUEST, bytes(8), milliseconds=1_700_000_000_001
    )
    assert other[:20] == made[2][:20]
    assert other != made[2]


@given(st.integers(min_value=0, max_value=5_000_000_000_000), st.binary(min_size=6, max_size=9))
def test_an_ordered_uuid_has_the_time_at_which_it_was_made(at: int, entropy: bytes) -> None:
    made = ids.make_ordered_uuid("zzzzz", ids.Infix.TOKEN, entropy, milliseconds=at)
    assert 0 <= at - ids.milliseconds_of(made) < 2


@given(st.binary(min_size=5, max_size=9), st.integers(1, ids.MOST_TOGETHER))
def test_uuids_that_are_made_together(entropy: bytes, count: int) -> None:
    made = ids.make_ordered_uuids("zzzzz", ids.Infix.LOG, entropy, count, milliseconds=4_000_001)
    assert len(set(made)) == len(made) == count
    assert all(ids.is_uuid(one, ids.Infix.LOG) for one in made)
    assert {ids.milliseconds_of(one) for one in made} == {4_000_000}
    assert len({one[:25] for one in made}) == 1


def test_uuids_of_other_batches_differ() -> None:
    made = [
        ids.make_ordered_uuids("zzzzz", ids.Infix.LOG, entropy, 2, milliseconds=1)
        for entropy in (bytes(6), b"\xff" * 6)
    ]
    assert not set(made[0]) & set(made[1])


def test_what_is_not_a_uuid() -> None:
    assert not ids.is_uuid("zzzzz-dz642-short")
    assert not ids.is_uuid("../../../etc/passwd")


def test_portable_data_hashes() -> None:
    assert ids.is_pdh(ids.EMPTY_PDH)
    assert not ids.is_pdh(ids.EMPTY_PDH + "+Ahint")


def test_well_known_uuids() -> None:
    assert ids.system_user("zzzzz") == "zzzzz-tpzed-000000000000000"
    assert ids.anonymous_user("zzzzz") == "zzzzz-tpzed-anonymouspublic"
    assert ids.root_token("zzzzz") == "zzzzz-gj3su-000000000000000"


def test_names_of_calls_are_as_random_as_what_they_are_made_of() -> None:
    assert ids.make_request_id(bytes(range(20))) == "req-0123456789abcdefghij"
    assert ids.make_request_id(bytes((35, 36, 255))) == "req-z03"


def test_records_of_the_system_have_the_uuids_that_clients_know() -> None:
    named = {
        "gj3su": ids.anonymous_token, "j7d0g": ids.system_group, "4zz18": ids.empty_collection
    }  # fmt: skip
    for infix, name in named.items():
        assert ids.infix_of(name("zzzzz")) == infix
        assert ids.is_uuid(name("zzzzz"))
    groups = (ids.system_group, ids.all_users, ids.anonymous_group, ids.public_favorites)
    uuids = [group("zzzzz") for group in groups]
    assert uuids == [
        "zzzzz-j7d0g-000000000000000", "zzzzz-j7d0g-fffffffffffffff",
        "zzzzz-j7d0g-anonymouspublic", "zzzzz-j7d0g-publicfavorites",
    ]  # fmt: skip
    assert all(map(ids.is_group, uuids))
