from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from lading.config import sections
from lading.core.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    Size: int = field(default=1, metadata={"unit": "bytes"})
    Time: float = field(default=2.0, metadata={"unit": "seconds"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    Part: Inner = field(default_factory=Inner)
    Many: dict[str, Inner] = field(default_factory=dict)
    Free: dict[str, Any] = field(default_factory=dict)
    Hidden: str = field(default="hush", metadata={"private": True})


def test_a_section_is_built_and_shown() -> None:
    made = sections.build(Top, {"Part": {"Size": "1KiB"}, "Many": {"a": {"Time": "1m"}}})
    assert made == Top(Part=Inner(Size=1024), Many={"a": Inner(Time=60.0)})
    assert sections.export(made) == {
        "Part": {"Size": 1024, "Time": "2s"},
        "Many": {"a": {"Size": 1, "Time": "60s"}},
        "Free": {},
    }


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ({"Other": 1}, "unknown key Other; known here: Free, Hidden, Many, Part"),
        ({"Part": {"Other": 1}}, "unknown key Part.Other"),
        ({"Part": 1}, "Part must be a mapping"),
        ({"Many": 1}, "Many must be a mapping"),
        ({"Many": {"a": 1}}, "Many.a must be a mapping"),
        ({"Hidden": 1}, "Hidden: "),
    ],
)
def test_a_fault_names_the_key(raw: dict[str, Any], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        sections.build(Top, raw)


def test_what_is_on_top_wins() -> None:
    assert sections.merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4}, "d": 5}) == {
        "a": {"b": 4, "c": 2},
        "d": 5,
    }


def test_names_of_keys_are_left_out() -> None:
    raw = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert sections.without(raw, {"a.c.d", "e", "b"}) == ({"a": {"b": 1, "c": {}}}, ["a.c.d", "e"])
    assert raw == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}


def test_a_key_has_a_default_of_its_own_and_says_what_it_is() -> None:
    one = sections.key(["a"], "Some.", private=True, unit="bytes")
    assert one.metadata == {"doc": "Some.", "private": True, "unit": "bytes"}
    assert one.default_factory() == ["a"]
    assert one.default_factory() is not one.default_factory()
