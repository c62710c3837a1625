"""Operands of filters come out as they are stored, or are refused."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.records.attributes import (
    MAX_INTEGER,
    MAX_PATTERN,
    parse_boolean,
    parse_list,
    parse_operand,
    parse_pattern,
    parse_text,
    shorten,
)
from lading.core.records.schema import JSON, Field, Type


@pytest.mark.parametrize(
    ("type", "value", "stored"),
    [
        (Type.STRING, "x", "x"),
        (Type.STRING, 5, "5"),
        (Type.INTEGER, " -7 ", -7),
        (Type.INTEGER, MAX_INTEGER, MAX_INTEGER),
        (Type.FLOAT, "1.5", 1.5),
        (Type.BOOLEAN, "No", False),
        (Type.TIME, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000000Z"),
        (Type.OBJECT, {"a": 1}, '{"a":1}'),
        (Type.ARRAY, ' ["é"] ', '["é"]'),
    ],
)
def test_operands_come_out_as_they_are_stored(type: Type, value: JSON, stored: JSON) -> None:
    assert parse_operand(Field(name="x", type=type), value) == stored


@pytest.mark.parametrize(
    ("type", "value", "fault"),
    [
        (Type.STRING, True, "must be a string"),
        (Type.STRING, None, "must be a string"),
        (Type.INTEGER, True, "not a 64-bit integer"),
        (Type.INTEGER, MAX_INTEGER + 1, "not a 64-bit integer"),
        (Type.FLOAT, "x", "not a number"),
        (Type.BOOLEAN, 2, "not true or false"),
        (Type.TIME, "noon", "not a timestamp"),
        (Type.OBJECT, "{", "not JSON"),
        (Type.OBJECT, "[" * 101 + "]" * 101, "nested too deep"),
    ],
)
def test_faults_name_the_attribute(type: Type, value: JSON, fault: str) -> None:
    with pytest.raises(Invalid, match=f"in filter on 'x': {fault}"):
        parse_operand(Field(name="x", type=type), value)


def test_booleans_are_also_words_and_numbers() -> None:
    assert [parse_boolean(one, "x") for one in (True, 1, "T", "yes")] == [True] * 4
    assert [parse_boolean(one, "x") for one in (False, 0, "F", "n")] == [False] * 4


def test_patterns_have_an_end() -> None:
    assert parse_pattern("%" * MAX_PATTERN, "x", "like") == "%" * MAX_PATTERN
    with pytest.raises(Invalid, match=f"more than {MAX_PATTERN} characters"):
        parse_pattern("%" * (MAX_PATTERN + 1), "x", "like")


def test_a_text_is_no_array_and_an_array_no_text() -> None:
    with pytest.raises(Invalid, match="'x': must be an array"):
        parse_list("y", "x")
    with pytest.raises(Invalid, match="for 'exists' in filter on 'x': must be a string"):
        parse_text(["y"], "x", "exists")


def test_long_values_are_shortened() -> None:
    assert shorten("x") == '"x"'
    assert shorten("x" * 78) == '"' + "x" * 78 + '"'
    assert shorten("x" * 79) == '"' + "x" * 76 + "..."
