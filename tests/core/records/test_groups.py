"""What groups may be."""

from __future__ import annotations

import pytest

from lading.core.errors import Forbidden, Invalid
from lading.core.records import permissions
from lading.core.records.schema import Record

PROJECT: Record = {
    "uuid": "p", "name": "n", "group_class": "project", "properties": {}, "trash_at": None,
    "frozen_by_uuid": None,
}  # fmt: skip
FROZEN: Record = {**PROJECT, "frozen_by_uuid": "u"}


@pytest.mark.parametrize(
    ("new", "fault"),
    [
        ({"group_class": None}, "must be project, role or filter"),
        ({"group_class": "club"}, "must be project, role or filter"),
        ({"group_class": "role"}, "cannot be changed"),
        ({"name": "."}, "cannot be '.' or '..'"),
        ({"name": "a/b"}, "cannot contain"),
    ],
)
def test_faults(new: Record, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        permissions.check_group({**PROJECT, **new}, PROJECT, slashes=False)


def test_names() -> None:
    nameless = {**PROJECT, "name": None}
    permissions.check_group(nameless, None, slashes=False)
    assert nameless["name"] == "p"
    permissions.check_group({**PROJECT, "name": "a/b"}, None, slashes=True)
    permissions.check_group({**PROJECT, "group_class": "role", "name": "a/b"}, None, slashes=False)


@pytest.mark.parametrize("name", ["a\nb", "\x7f", "\x85", "\u2028", "\ud800", "..", "a/b"])
def test_names_that_are_no_part_of_a_path(name: str) -> None:
    with pytest.raises(Invalid, match="name: "):
        permissions.check_group({**PROJECT, "name": name}, None, slashes=False)


def test_roles_have_no_trash() -> None:
    with pytest.raises(Invalid, match="a role has no trash"):
        permissions.check_group(
            {**PROJECT, "group_class": "role", "trash_at": "t"}, None, slashes=False
        )


@pytest.mark.parametrize("filters", [None, "x", [1], [["a", "="]]])
def test_filter_groups_need_filters(filters: object) -> None:
    group = {**PROJECT, "group_class": "filter", "properties": {"filters": filters}}
    with pytest.raises(Invalid, match=r"properties\.filters"):
        permissions.check_group(group, None, slashes=False)
    permissions.check_group(
        {**group, "properties": {"filters": [["name", "=", "x"]]}}, None, slashes=False
    )


def test_managers_freeze_and_thaw() -> None:
    new = {**PROJECT, "frozen_by_uuid": "u"}
    permissions.check_freezing(new, PROJECT, user_uuid="u", level=3, frozen_above=False)
    permissions.check_freezing(
        {**FROZEN, "frozen_by_uuid": ""}, FROZEN, user_uuid="v", level=3, frozen_above=False
    )
    permissions.check_freezing(dict(PROJECT), None, user_uuid="u", level=2, frozen_above=False)
    with pytest.raises(Forbidden, match="needs can_manage"):
        permissions.check_freezing(new, PROJECT, user_uuid="u", level=2, frozen_above=False)


@pytest.mark.parametrize(
    ("new", "fault"),
    [
        ({"frozen_by_uuid": "v"}, "your own uuid"),
        ({"group_class": "filter"}, "only projects"),
        ({"trash_at": "t"}, "on its way to the trash"),
    ],
)
def test_what_cannot_be_frozen(new: Record, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        permissions.check_freezing(
            {**FROZEN, **new}, PROJECT, user_uuid="u", level=3, frozen_above=False
        )


def test_frozen_is_frozen_for_everybody() -> None:
    for frozen_above, old in ((True, PROJECT), (False, FROZEN)):
        with pytest.raises(Forbidden, match="in a frozen project"):
            permissions.check_freezing(
                {**old, "name": "m"}, old, user_uuid="u", level=3, frozen_above=frozen_above
            )
