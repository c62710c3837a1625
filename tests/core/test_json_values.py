"""Canonical JSON, equality and integers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core import values
from lading.core.ids import Infix
from lading.core.values import Json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_canonical_text_reads_back_and_ignores_key_order(value: values.Json) -> None:
    text = values.canonical(value)
    assert json.loads(text) == value
    assert values.canonical(values.ordered(value)) == text
    assert values.same(value, json.loads(text))


def test_the_digest_of_no_secrets_is_the_documented_one() -> None:
    assert values.digest({}) == values.EMPTY_OBJECT_DIGEST == "99914b932bd37a50b983c5e7c90ae93b"


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), (1, 1.0), (None, False), ({}, []), ("", None)]
)
def test_values_of_different_types_are_not_the_same(one: object, other: object) -> None:
    assert not values.same(one, other)


def test_empty_values_count_as_equal_where_that_is_asked_for() -> None:
    assert values.same_or_empty(None, {})
    assert values.same_or_empty([], {})
    assert not values.same_or_empty(None, 0)
    assert values.same_or_empty({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_big_integers_stay_exact() -> None:
    assert not values.same(2**53, 2**53 + 1)


@pytest.mark.parametrize(
    ("given_value", "meant"),
    [
        (3, 3),
        ("3", 3),
        (" -4 ", -4),
        (3.0, 3),
        (3.5, None),
        (True, None),
        ("x", None),
        ("--3", None),
        (None, None),
    ],
)
def test_integers_that_clients_mean(given_value: object, meant: int | None) -> None:
    assert values.integer(given_value) == meant


def test_depth() -> None:
    value: object = 5
    for depth in range(values.MAX_DEPTH + 1):
        assert not values.is_too_deep([1, value, "x"]) or depth == values.MAX_DEPTH
        value = {"a": value} if depth % 2 else [value]
    assert values.is_too_deep(value)


@given(VALUES, VALUES)
def test_same_is_equality_of_texts(one: Json, other: Json) -> None:
    assert values.same(one, other) is (values.canonical(one) == values.canonical(other))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        (1.5, 1.5, True),
        ((1, "a"), [1, "a"], True),
        (Infix.USER, "tpzed", True),
        ([1], [1, 2], False),
        ([1, 2], [1, 3], False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": True}, {"a": 1}, False),
        (0, False, False),
        (1, 1.0, False),
    ],
)
def test_same_in_corners(one: object, other: object, expected: bool) -> None:
    assert values.same(one, other) is expected
    assert (values.canonical(one) == values.canonical(other)) is expected
