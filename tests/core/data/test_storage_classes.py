from __future__ import annotations

import pytest

from lading.core.data import storage_classes
from lading.core.errors import Invalid

SITE = {"known": ["default", "archive"], "default": ["default"]}
NOW = "2026-01-01T00:00:00.000000000Z"


def test_names_go_into_a_header() -> None:
    storage_classes.check_names("classes", ["default", "hot-1", "a.b_c"])


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a\r\nX: y", "ä", 7, None, "x" * 129])
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(Invalid, match="classes: .*no name of a storage class"):
        storage_classes.check_names("classes", [name])


def test_too_many_names() -> None:
    with pytest.raises(Invalid, match="more than 64"):
        storage_classes.check_names("classes", ["x"] * 65)


@pytest.mark.parametrize(
    ("desired", "served"),
    [(["archive", "none"], ("archive",)), (["none"], ("default",)), ([], ("default",))],
)
def test_served(desired: list[str], served: tuple[str, ...]) -> None:
    assert storage_classes.served(desired, {"archive", "default"}, ["default"]) == served


def test_common_classes() -> None:
    assert storage_classes.common(["a", "b", "a"], [{"a", "b"}, {"a"}]) == ["a"]
    assert storage_classes.common(["a"], []) == ["a"]


def test_confirmation() -> None:
    assert storage_classes.confirmation(["a"], NOW) == {
        "storage_classes_confirmed": ["a"],
        "storage_classes_confirmed_at": NOW,
    }
    assert storage_classes.confirmation([], NOW) == {
        "storage_classes_confirmed": [],
        "storage_classes_confirmed_at": None,
    }


def test_known_classes_get_no_warning() -> None:
    assert storage_classes.with_warning({}, ["default"], **SITE) is None


def test_a_warning_is_added_to_others() -> None:
    alone = storage_classes.with_warning({}, ["x"], **SITE)
    assert alone is not None
    text = alone["warning"]
    assert text == (
        "not confirmed: this site has no storage class x; output and log are kept in default"
    )
    assert "warningDetail" not in alone
    assert storage_classes.with_warning(
        {"warning": "w", "warningDetail": "d", "other": 1}, ["x"], **SITE
    ) == {"warning": f"w; {text}", "warningDetail": f"d\n{text}", "other": 1}
