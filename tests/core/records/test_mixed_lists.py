"""Queries over several record types."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import Column, Compare
from lading.core.records.mixed_lists import check_group_filters, selected_of, split
from lading.core.records.record_types import COLLECTIONS, GROUPS
from lading.core.records.schema import JSON, Type

KINDS = (GROUPS, REQUESTS, COLLECTIONS)


def names(**params: JSON) -> list[str]:
    return [part.kind.plural for part in split(params, KINDS, max_limit=1000)]


def test_is_a_picks_types() -> None:
    assert names() == ["groups", "container_requests", "collections"]
    assert names(filters=[["uuid", "is_a", "arvados#collection"]]) == ["collections"]
    assert names(filters=[["uuid", "is_a", ["arvados#group", "arvados#collection"]]]) == [
        "groups",
        "collections",
    ]
    assert names(filters=[["uuid", "is_a", "arvados#user"]]) == []


def test_ordered_by_uuid_types_come_in_the_order_of_their_uuids() -> None:
    assert names(order="uuid") == ["collections", "groups", "container_requests"]
    assert names(order=["uuid desc"]) == ["container_requests", "groups", "collections"]
    assert names(order="name") == ["groups", "container_requests", "collections"]


def test_an_order_is_of_those_types_that_have_its_attribute() -> None:
    assert names(order=["portable_data_hash", "uuid"])[0] in ("groups", "collections")
    with pytest.raises(Invalid, match="order: 'nope': no such attribute"):
        names(order="nope")
    with pytest.raises(Invalid, match="order: must be an array"):
        names(order=5)


def test_qualified_filters_concern_one_type() -> None:
    parts = split({"filters": [["groups.name", "=", "x"], ["name", "!=", "y"]]}, KINDS, max_limit=9)
    named = Compare(Column("name", Type.STRING), "!=", "y")
    assert [part.query.where[-1] for part in parts] == [named] * 3
    assert [len(part.query.where) for part in parts] == [2, 1, 1]
    check_group_filters(
        [["container_requests.state", "=", "Final"], ["properties.a", "=", 1]], KINDS
    )


def test_selected_names_need_be_known_to_one_type() -> None:
    parts = split(
        {"select": ["group_class", "collections.name", "manifest_text"]}, KINDS, max_limit=9
    )
    assert [part.query.select for part in parts] == [
        ("uuid", "group_class"),
        ("uuid",),
        ("uuid", "name"),
    ]


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"filters": "x"}, "filters: must be an array"),
        ({"filters": [["nope", "=", 1]]}, "Invalid attribute 'nope'"),
        ({"filters": [["group_class", "=", "project"]]}, "Invalid attribute 'group_class'"),
        ({"filters": [7]}, "Invalid filter 7"),
        ({"filters": [["uuid", "is_a", 7]]}, "must be a kind"),
        ({"select": []}, "select: must be an array"),
        ({"select": "name"}, "select: must be an array"),
        ({"select": ["nope"]}, "Invalid attribute 'nope' in select"),
        ({"select": [7]}, "Invalid attribute '7' in select"),
        ({"limit": -1}, "limit"),
    ],
)
def test_faults(params: dict[str, JSON], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        split(params, KINDS, max_limit=9)


def test_attributes_of_what_is_answered_beside() -> None:
    select: JSON = ["name", "containers.exit_code", "mounts", "manifest_text"]
    with pytest.raises(Invalid, match=r"'containers\.exit_code'"):
        split({"select": select}, KINDS, max_limit=9)
    parts = split({"select": select}, KINDS, max_limit=9, beside=(CONTAINERS,))
    assert list(parts[0].query.select or ()) == ["uuid", "name"]
    assert selected_of(select, CONTAINERS) == ("uuid", "exit_code", "mounts")
    assert selected_of(["manifest_text"], COLLECTIONS) == ("uuid",)
    assert selected_of(None, CONTAINERS) == CONTAINERS.listed
