"""Writing conditions: values never become part of the text. What conditions mean is in the contract suite."""

from __future__ import annotations

import pytest

from lading.core.filters import Order, check_filters
from lading.core.records import COLLECTIONS
from lading.store.query import Writer, order_by
from lading.store.sqlite import SqliteDialect


@pytest.mark.parametrize(
    ("attribute", "operator", "operand"),
    [
        ("name", "=", "'; DROP"),
        ("name", "in", ["'; DROP"]),
        ("properties.'; DROP", "=", "'; DROP"),
        ("properties.x", "contains", "'; DROP"),
        ("properties", "exists", "'; DROP"),
    ],
)
def test_values_stay_out_of_the_text(attribute: str, operator: str, operand: object) -> None:
    writer = Writer(SqliteDialect(), "collections")
    text = writer.where(check_filters([[attribute, operator, operand]], COLLECTIONS))
    assert "DROP" not in text
    assert text.count("?") == len(writer.values)


def test_nothing_to_write() -> None:
    assert Writer(SqliteDialect(), "links").where(()) == order_by(SqliteDialect(), (), "links") == ""
    assert order_by(SqliteDialect(), (Order("a"), Order("b", descending=True)), "t") == " ORDER BY t.a ASC, t.b DESC"


def test_not_an_expression() -> None:
    with pytest.raises(TypeError, match="not an expression"):
        Writer(SqliteDialect(), "links").write("x")
