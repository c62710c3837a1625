"""Writing conditions: values never become part of the text. What conditions mean is in the contract
suite.
"""

from __future__ import annotations

import pytest

from lading.core.records.container_types import REQUESTS
from lading.core.records.expressions import SortKey
from lading.core.records.filters import check_filters
from lading.core.records.record_types import COLLECTIONS, LINKS
from lading.core.records.schema import JSON
from lading.store.databases.postgres import PostgresDialect
from lading.store.databases.sqlite import SqliteDialect
from lading.store.query import ConditionWriter, order_by


@pytest.mark.parametrize(
    ("attribute", "operator", "operand"),
    [
        ("name", "=", "'; DROP"),
        ("name", "in", ["'; DROP"]),
        ("properties.'; DROP", "=", "'; DROP"),
        ("properties.x", "contains", "'; DROP"),
        ("properties", "exists", "'; DROP"),
        ("owner_uuid", "is_a", "arvados#group"),
    ],
)
def test_values_stay_out_of_the_text(attribute: str, operator: str, operand: object) -> None:
    writer = ConditionWriter(SqliteDialect(), "collections")
    text = writer.where(check_filters([[attribute, operator, operand]], COLLECTIONS))
    assert "DROP" not in text
    assert text.count("?") == len(writer.values)


def test_nothing_to_write() -> None:
    assert (
        ConditionWriter(SqliteDialect(), "links").where(())
        == order_by(SqliteDialect(), (), "links")
        == ""
    )
    assert (
        order_by(SqliteDialect(), (SortKey("a"), SortKey("b", descending=True)), "t")
        == " ORDER BY t.a ASC, t.b DESC"
    )


def test_not_an_expression() -> None:
    with pytest.raises(TypeError, match="not an expression"):
        ConditionWriter(SqliteDialect(), "links").write("x")  # type: ignore[arg-type]


def test_what_follows_a_uuid_decides_nothing() -> None:
    pages = (SortKey("created_at"), SortKey("uuid"), SortKey("modified_at", descending=True))
    assert order_by(SqliteDialect(), pages, "t") == " ORDER BY t.created_at ASC, t.uuid ASC"
    # As its own index has it: a uuid is never null.
    assert order_by(PostgresDialect(), pages[1:], "t") == " ORDER BY t.uuid"
    assert (
        order_by(PostgresDialect(), (SortKey("uuid", descending=True),), "t")
        == " ORDER BY t.uuid DESC"
    )


@pytest.mark.parametrize(
    ("triple", "condition"),
    [
        (["state", "=", "Committed"], "container_requests.state = ?"),
        (
            ["state", "=", "Final"],
            "CASE WHEN container_requests.state = ? THEN TRUE ELSE FALSE END",
        ),
        (["state", "in", ["Final", "Committed"]], "CASE WHEN container_requests.state IN"),
        (["state", "in", ["Committed"]], "container_requests.state IN"),
    ],
)
def test_states_that_most_have_are_not_looked_up_by(triple: JSON, condition: str) -> None:
    where = check_filters([triple], REQUESTS)
    assert (
        ConditionWriter(SqliteDialect(), "container_requests")
        .where(where)
        .startswith(f" WHERE ({condition}")
    )
    assert "+" not in ConditionWriter(PostgresDialect(), "container_requests").where(where)


def test_short_lists_of_texts_come_in_a_few_sizes() -> None:
    texts = {}
    for count in (1, 3, 4, 5, 256, 257):
        writer = ConditionWriter(SqliteDialect(), "links")
        texts[count] = writer.where(
            check_filters([["uuid", "in", [str(number) for number in range(count)]]], LINKS)
        )
        assert texts[count].count("?") == len(writer.values)
    assert texts[3] == texts[4] == " WHERE (links.uuid IN (?, ?, ?, ?))"
    assert [texts[count].count("?") for count in (1, 5, 256, 257)] == [1, 8, 256, 1]
