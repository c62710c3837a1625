"""Expressions are values: they compare by what they say, and their union has all of them."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from lading.core.records import expressions
from lading.core.records.container_types import REQUESTS
from lading.core.records.expressions import All, Column, Compare, Expression, Not, Query
from lading.core.records.filters import check_filters
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import JSON, Type

NAME = Column("name", Type.STRING)


def test_expressions_are_equal_if_they_say_the_same() -> None:
    assert All((Compare(NAME, "=", "a"),)) == All((Compare(NAME, "=", "a"),))
    assert Not(Compare(NAME, "=", "a")) != Not(Compare(NAME, "=", "b"))


@pytest.mark.parametrize("kind", typing.get_args(Expression))
def test_an_expression_can_be_in_a_set(kind: type) -> None:
    # A dataclass that can be changed has no hash.
    assert kind.__hash__ is not None


def test_the_union_has_each_condition_of_the_module() -> None:
    others = {"Column", "PropertyKey", "SortKey", "Query"}
    conditions = {
        name
        for name, one in vars(expressions).items()
        if isinstance(one, type) and dataclasses.is_dataclass(one) and name not in others
    }
    assert conditions == {one.__name__ for one in typing.get_args(Expression)}


def test_a_query_asks_for_a_page_of_all_records() -> None:
    query = Query()
    assert (query.where, query.order, query.select) == ((), (), None)
    assert (query.limit, query.offset) == (100, 0)


@pytest.mark.parametrize(
    ("filter", "columns"),
    [
        (["name", "=", "a"], {"name"}),
        (["name", "in", ["a"]], {"name"}),
        (["name", "like", "a%"], {"name"}),
        (["owner_uuid", "is_a", "arvados#group"], {"owner_uuid"}),
        (["properties", "exists", "k"], {"properties"}),
        (["properties.k", "=", 1], {"properties"}),
        (["properties.k", "exists", True], {"properties"}),
        (["properties.k", "contains", 1], {"properties"}),
        (["(created_at < modified_at)", "=", True], {"created_at", "modified_at"}),
        ([["name", "description"], "=", "a"], {"name", "description"}),
        (["uuid", "is_a", "arvados#group"], set()),
    ],
)
def test_the_columns_that_decide(filter: JSON, columns: set[str]) -> None:
    (found,) = check_filters([filter], COLLECTIONS)
    assert {*expressions.columns_of(found)} == columns
    assert {*expressions.columns_of(All((Not(found),)))} == columns


def test_those_of_containers_are_none_of_the_request() -> None:
    (found,) = check_filters([["container.state", "=", "Queued"]], REQUESTS)
    assert not [*expressions.columns_of(found)]
