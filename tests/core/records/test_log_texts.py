"""The short form of the properties of log rows."""

from __future__ import annotations

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from lading.core.records.log_texts import LogColumns, lengthen, phrases, repeated, shorten, stored

TIME = "2026-11-30T11:44:50.614789000Z"
COLUMNS = LogColumns(
    "zzzzz-4zz18-bgjlnftnmrp1yac",
    "zzzzz-tpzed-t4q7sc7msbjzshn",
    "zzzzz-tpzed-000000000000000",
    TIME,
)


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def test_a_row_about_a_new_collection_is_a_third_as_long_at_most() -> None:
    text = compact(
        {
            "new_etag": "9190501b2458a4b15488e22ff",
            "new_attributes": {
                "uuid": COLUMNS.object_uuid,
                "owner_uuid": COLUMNS.object_owner_uuid,
                "created_at": TIME,
                "modified_at": TIME,
                "modified_by_user_uuid": COLUMNS.user_uuid,
                "name": "Container output for request zzzzz-xvhdp-bgjlneozrjtq0lq",
                "description": None,
                "properties": {
                    "type": "output",
                    "container_request": "zzzzz-xvhdp-bgjlneozrjtq0lq",
                },
                "portable_data_hash": "a4034ba4811ff15d8fb0cd7e6abf2b77+164",
            },
        }
    )
    short = shorten(text, COLUMNS)
    assert short is not None
    assert len(short) < len(text) / 3
    assert lengthen(short, COLUMNS) == text


_TEXTS = st.one_of(
    st.text(),
    st.sampled_from([*COLUMNS, *(phrase for _, phrase in phrases()), "\x01", "\x02", "\x01~"]),
)
_VALUES = st.recursive(
    st.one_of(_TEXTS, st.integers(), st.none()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(_TEXTS, inner)),
)


@given(st.dictionaries(_TEXTS, _VALUES), st.lists(_TEXTS))
def test_nothing_is_lost(properties: dict[str, object], parts: list[str]) -> None:
    # The second is no JSON, and has codes in it.
    for text in (compact(properties), "".join(parts)):
        short = shorten(text, COLUMNS)
        assert short is None or lengthen(short, COLUMNS) == text


def test_columns_without_a_record_or_a_time_have_no_short_form() -> None:
    for columns in (
        LogColumns("", *COLUMNS[1:]),
        LogColumns(*COLUMNS[:3], "2026-01"),
        LogColumns(*COLUMNS[:2], "u", TIME),
    ):
        assert shorten("{}", columns) is None


def test_no_phrase_of_a_released_version_is_changed() -> None:
    """Databases have these codes: append phrases, and count them here."""
    known = list(phrases())[:83]
    digest = hashlib.sha256(compact(known).encode()).hexdigest()
    assert digest == "c1e0c5d3389b33d60542f07b20af24617dee854401a332890731ccf34785b476"
    codes = [code for code, _ in phrases()]
    assert len(codes) == len(set(codes))


def test_a_row_is_stored_in_one_of_both_forms() -> None:
    uuids = dict(zip(("object_uuid", "object_owner_uuid", "owner_uuid"), COLUMNS, strict=False))
    row = {
        **uuids,
        "created_at": TIME,
        "event_type": "create",
        "properties": {"new_etag": "x"},
    }
    short = stored(row, since="")
    assert short["properties"] is None
    assert lengthen(str(short["shortened"]), COLUMNS) == compact(row["properties"])
    for other in (stored(row, since="2027"), stored({**row, "object_uuid": None}, since="")):
        assert (other["properties"], other["shortened"]) == (row["properties"], None)
    of_other_uuid = stored({**row, "owner_uuid": "x"}, since="")
    assert (of_other_uuid["properties"], of_other_uuid["shortened"]) == (row["properties"], None)


def test_columns_that_repeat_others_are_left_out_of_the_short_form_alone() -> None:
    uuids = dict(zip(("object_uuid", "object_owner_uuid", "owner_uuid"), COLUMNS, strict=False))
    row = {**uuids, "created_at": TIME, "event_type": "update", "properties": {"new_etag": "x"}}
    row |= repeated(row)
    assert row["summary"] == f"update of {COLUMNS.object_uuid}"
    short = stored(row, since="")
    assert {name: short[name] for name in repeated(row)} == dict.fromkeys(repeated(row))
    assert stored(row, since="2027") == {**row, "shortened": None}
    # What differs is kept.
    apart = dict.fromkeys(repeated(row), "other")
    assert apart.items() <= stored({**row, **apart}, since="").items()
