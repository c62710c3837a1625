"""The list-query language: what is accepted, what it means, what is refused and how."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Invalid
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.expressions import (
    Among,
    Column,
    Compare,
    CompareColumns,
    Constant,
    Either,
    Holds,
    IsKind,
    KeyContains,
    KeyExists,
    Like,
    OfContainer,
    PropertyKey,
    SortKey,
)
from lading.core.records.filters import (
    check_filters,
    check_order,
    check_query,
    check_select,
    check_where,
)
from lading.core.records.record_types import COLLECTIONS, LINKS, LOGS, TOKENS, WORKFLOWS
from lading.core.records.schema import JSON, RecordType, Type

NAME = Column("name", Type.STRING)
CREATED = Column("created_at", Type.TIME)
PROPERTY = PropertyKey("properties", "a.b")


@pytest.mark.parametrize(
    ("triple", "expected"),
    [
        (["name", "=", "x"], Compare(NAME, "=", "x")),
        (["name", "=", 5], Compare(NAME, "=", "5")),
        (["collections.name", "<>", None], Compare(NAME, "!=", None)),
        (["name", "LIKE", "x%"], Like((NAME,), "x%")),
        (["name", "ilike", "x%"], Like((NAME,), "x%", fold=True)),
        (["name", "in", ["x", None]], Among(NAME, ("x",), null=True)),
        (["name", "not in", ["x"]], Among(NAME, ("x",), negated=True)),
        (["version", ">", "123"], Compare(Column("version", Type.INTEGER), ">", 123)),
        (["is_trashed", "=", "yes"], Compare(Column("is_trashed", Type.BOOLEAN), "=", True)),
        (["is_trashed", "=", False], Compare(Column("is_trashed", Type.BOOLEAN), "=", False)),
        (["created_at", ">=", "2026-01-02T03:04:05+00:00Z"],
         Compare(CREATED, ">=", "2026-01-02T03:04:05.000000000Z")),
        (["created_at", "like", "2026%"], Like((CREATED,), "2026%")),
        ("(created_at < modified_at)",
         CompareColumns(CREATED, "<", Column("modified_at", Type.TIME))),
        (["(collections.name <> uuid)", "=", True],
         CompareColumns(NAME, "!=", Column("uuid", Type.STRING))),
        (["uuid", "is_a", "arvados#collection"], Constant(True)),
        (["uuid", "is_a", ["arvados#group"]], Constant(False)),
        (["owner_uuid", "is_a", "arvados#user"], IsKind("owner_uuid", ("tpzed",))),
        (["properties", "exists", "k"], Holds("properties", ("k",))),
        (["storage_classes_desired", "contains", ["a", "b"]],
         Holds("storage_classes_desired", ("a", "b"))),
        (["properties", "=", "{}"], Compare(Column("properties", Type.OBJECT), "=", "{}")),
        (["properties", "=", {"a": 1}], Compare(Column("properties", Type.OBJECT), "=", '{"a":1}')),
        (["properties.a.b", "=", None], Compare(PROPERTY, "=", None)),
        (["properties.<a.b>", "<>", 1], Compare(PROPERTY, "!=", 1)),
        (["properties.a.b", "<", 1], Compare(PROPERTY, "<", 1)),
        (["properties.a.b", "like", "x"], Like((PROPERTY,), "x")),
        (["properties.a.b", "in", [1, "x"]], Among(PROPERTY, (1, "x"))),
        (["properties.a.b", "exists", "false"], KeyExists(PROPERTY, False)),
        (["properties.a.b", "contains", "x"], KeyContains(PROPERTY, "x")),
        ([["name", "name"], "=", 1], Either((Compare(NAME, "=", "1"), Compare(NAME, "=", "1")))),
    ],
)  # fmt: skip
def test_filters(triple: JSON, expected: object) -> None:
    assert check_filters([triple], COLLECTIONS) == (expected,)


def test_any_looks_at_all_texts() -> None:
    (found,) = check_filters([["any", "ilike", "%x%"]], LINKS)
    assert isinstance(found, Like)
    assert {"name", "uuid", "link_class"} <= {
        target.name for target in found.targets if isinstance(target, Column)
    }
    (equal,) = check_filters([["any", "in", ["x", "y"]]], LINKS)
    assert isinstance(equal, Either)
    assert equal.parts[0] == Among(Column("uuid", Type.STRING), ("x", "y"))
    assert check_filters([["any", "=", "x"]], LINKS) != (equal,)


def test_requests_are_filtered_by_their_container() -> None:
    (found,) = check_filters([["container.state", "=", "Queued"]], REQUESTS)
    assert found == OfContainer(Compare(Column("state", Type.STRING), "=", "Queued"))


def test_no_filters() -> None:
    assert check_filters(None, LINKS) == check_where(None, LINKS) == ()


@pytest.mark.parametrize(
    ("filters", "fault"),
    [
        ("x", "filters: must be an array"),
        (["a < b"], "Invalid filter"),
        (["(name < nothing)"], "Invalid attribute 'nothing'"),
        (["(name < properties)"], "Invalid attribute 'properties'"),
        (["(name < file_count)"], "of different types"),
        (["(name ~ uuid)"], "must be '(attribute < attribute)' = true"),
        ([["name", "like", "%\0"]], "must not contain a NUL character"),
        ([["name", "in", ["a", "a\0"]]], "must not contain a NUL character"),
        ([["any", "=", "a\0"]], "must not contain a NUL character"),
        ([["properties.a\0", "exists", True]], "must not contain a NUL character"),
        ([["(name < uuid)", "=", False]], "must be '(attribute < attribute)' = true"),
        ([["(name < uuid)", ">", True]], "must be '(attribute < attribute)' = true"),
        ([["name", "="]], "Invalid filter"),
        ([["name", 1, "x"]], "Invalid operator 1"),
        ([["name", "@@", "x"]], "no longer supported"),
        ([["name", "near", "x"]], "Invalid operator 'near'"),
        ([[[], "=", "x"]], "Invalid attribute []"),
        ([[5, "=", "x"]], "Invalid attribute 5"),
        ([["nope", "=", "x"]], "Invalid attribute 'nope'"),
        ([["kind", "=", "x"]], "Invalid attribute 'kind'"),
        ([["name.x", "=", "x"]], "has no sub-properties"),
        ([["any", ">", "x"]], "for attribute 'any'"),
        ([["name", "=", True]], "must be a string"),
        ([["name", "like", 1]], "must be a string"),
        ([["version", "like", "1"]], "Invalid operator 'like'"),
        ([["is_trashed", "<", True]], "Invalid operator '<'"),
        ([["version", "<", None]], "Invalid operand type 'null'"),
        ([["version", "=", "x"]], "not a 64-bit integer"),
        ([["version", "=", 1 << 64]], "not a 64-bit integer"),
        ([["is_trashed", "=", "perhaps"]], "not true or false"),
        ([["is_trashed", "=", 1.5]], "not true or false"),
        ([["created_at", "<", "noon"]], "not a timestamp"),
        ([["created_at", "<", 5]], "must be a string"),
        ([["name", "in", "x"]], "must be an array"),
        ([["owner_uuid", "is_a", 5]], "must be a kind"),
        ([["version", "is_a", "arvados#user"]], "must be a kind"),
        ([["name", "exists", "x"]], "Invalid operator 'exists'"),
        ([["name", "contains", "x"]], "Invalid operator 'contains'"),
        ([["properties", "contains", []]], "must not be empty"),
        ([["properties", "exists", 1]], "must be a string"),
        ([["properties", "=", "{"]], "not JSON"),
        ([["properties.x", "is_a", "y"]], "Invalid operator 'is_a'"),
        ([["properties.x", "<", True]], "Invalid operand type"),
        ([["properties.x", "<", [1]]], "Invalid operand type"),
        ([["name", "=", ["x" * 100]]], "..."),
    ],
)
def test_faults(filters: JSON, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_filters(filters, COLLECTIONS)
    assert fault in caught.value.message
    assert "\n" not in caught.value.message


def test_numbers_with_a_point() -> None:
    cost = Column("cost", Type.FLOAT)
    assert check_filters([["cost", ">", "1.5"]], CONTAINERS) == (Compare(cost, ">", 1.5),)
    with pytest.raises(Invalid, match="not a number"):
        check_filters([["cost", ">", "x"]], CONTAINERS)


def test_hidden_fields_cannot_be_filtered() -> None:
    with pytest.raises(Invalid, match="Invalid attribute 'secret_mounts'"):
        check_filters([["secret_mounts", "exists", "x"]], CONTAINERS)


def test_where() -> None:
    found = check_where({"name": ["a"], "uuid": "u", "description": ["contains", "x"]}, COLLECTIONS)
    assert found == (
        Among(NAME, ("a",)),
        Compare(Column("uuid", Type.STRING), "=", "u"),
        Like((Column("description", Type.STRING),), "%x%", fold=True),
    )
    assert check_where({"properties": {"a.b": 1}}, COLLECTIONS) == (Compare(PROPERTY, "=", 1),)
    (pattern,) = check_where({"name": ["contains", "50%_\\"]}, COLLECTIONS)
    assert pattern == Like((NAME,), "%50\\%\\_\\\\%", fold=True)
    with pytest.raises(Invalid, match="where: must be an object"):
        check_where([], COLLECTIONS)


def test_order_drops_what_rows_are_not_sorted_by_and_adds_a_tie_break() -> None:
    order = check_order(
        ["collections.name DESC", "uuid asc", "uuid asc", "properties", "groups.name", " "],
        COLLECTIONS,
    )
    assert order == (
        SortKey("name", descending=True),
        SortKey("uuid"),
        SortKey("modified_at", descending=True),
    )
    assert check_order("id asc,uuid", LOGS) == (SortKey("id"), SortKey("uuid"))
    assert check_order("name", LINKS, plain=True) == (SortKey("name"),)
    assert check_order(None, LOGS) == (SortKey("id", descending=True),)


@pytest.mark.parametrize(
    ("order", "fault"),
    [
        ("nope", "order: 'nope': no such attribute of collections"),
        (["name", "collections.nope desc"], "order: 'nope': no such attribute"),
        ("name; drop table", "order: name; drop table is not an attribute"),
        ("name upwards", "is not an attribute with 'asc' or 'desc' after it"),
        ("nope.name", "order: 'nope': no such table"),
    ],
)
def test_an_order_by_what_there_is_not_is_refused(order: JSON, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        check_order(order, COLLECTIONS)


def test_an_order_by_a_hidden_attribute_is_refused_like_one_that_there_is_not() -> None:
    for order in ("secret_hash", "container_uuid"):
        with pytest.raises(Invalid, match="no such attribute of api_client_auth"):
            check_order(order, TOKENS)


@pytest.mark.parametrize("order", [5, [5], {"name": "asc"}])
def test_order_must_be_texts(order: JSON) -> None:
    with pytest.raises(Invalid, match="order: must be an array"):
        check_order(order, LINKS)


def test_select() -> None:
    assert check_select(None, LINKS) is None
    assert check_select(["name", "links.name", "kind"], LINKS) == ("name", "kind")


@pytest.mark.parametrize(
    ("select", "kind"),
    [
        ([], LINKS),
        ("name", LINKS),
        (["nope"], LINKS),
        ([5], LINKS),
        (["runtime_token"], CONTAINERS),
    ],
)
def test_select_faults(select: JSON, kind: RecordType) -> None:
    with pytest.raises(Invalid, match="select"):
        check_select(select, kind)


def test_query() -> None:
    query = check_query(
        {"limit": "5000", "offset": 3, "count": "none", "distinct": True}, LINKS, max_limit=1000
    )
    assert (query.limit, query.offset, query.count, query.distinct) == (1000, 3, False, False)
    assert check_query({"distinct": True, "select": ["name"]}, LINKS, max_limit=10).distinct
    assert check_query({}, LINKS, max_limit=1000).limit == 100
    asked = {"include": "head_uuid, tail_uuid"}
    assert check_query(asked, LINKS, max_limit=10).include == ("head_uuid", "tail_uuid")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"include": [5]}, "include: must be an array"),
        ({"include": ["name"]}, "include: 'name' is no attribute of Link that names a record"),
        (
            {"include": ["head_uuid"], "distinct": True, "select": ["name"]},
            "include: rows that are made distinct",
        ),
        ({"distinct": True, "select": ["head_kind"]}, "distinct: 'head_kind' is computed"),
    ],
)
def test_faults_of_lists(params: dict[str, JSON], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        check_query(params, LINKS, max_limit=10)


def test_workflows_have_no_collections() -> None:
    assert check_filters([["collection.name", "=", "x"]], WORKFLOWS) == (Constant(False),)
    with pytest.raises(Invalid, match="Invalid attribute 'nothing'"):
        check_filters([["collection.nothing", "=", "x"]], WORKFLOWS)


@pytest.mark.parametrize(
    "params", [{"limit": -1}, {"limit": "x"}, {"offset": 1.5}, {"limit": True}, {"count": "some"}]
)
def test_query_faults(params: dict[str, JSON]) -> None:
    with pytest.raises(Invalid, match=r"limit|offset|count"):
        check_query(params, LINKS, max_limit=10)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["name", "version", "created_at", "is_trashed", "properties", "properties.a", "any", "uuid"]
)
OPERATORS = st.sampled_from(
    ["=", "!=", "<", "in", "not in", "like", "is_a", "exists", "contains", "ilike"]
)


@given(
    st.lists(st.tuples(NAMES | JSON_VALUES, OPERATORS, JSON_VALUES).map(list), max_size=2)
    | JSON_VALUES
)
def test_any_input_is_accepted_or_refused_in_one_line(filters: JSON) -> None:
    with contextlib.suppress(Invalid):
        assert isinstance(check_filters(filters, COLLECTIONS), tuple)


def test_queries_have_an_end() -> None:
    one = ["uuid", "=", "x"]
    assert len(check_filters([one] * 200, LINKS)) == 200
    for many in (
        [one] * 201,
        [[["uuid"] * 201, "=", "x"]],
        [["properties", "contains", ["x"] * 201]],
        [[["properties"] * 11, "Contains ", ["x"] * 19]],
    ):
        with pytest.raises(Invalid, match="more than 200 conditions"):
            check_filters(many, LINKS)
    for name in ("name", "any", "properties.a"):
        with pytest.raises(Invalid, match="more than 10000 characters"):
            check_filters([[name, "like", "%" * 10_001]], LINKS)
    for deep in ("[" * 101 + "]" * 101, "[" * 100_000):
        with pytest.raises(Invalid, match="nested too deep|not JSON"):
            check_filters([["properties", "=", deep]], LINKS)


def test_the_kinds_of_the_ends_of_links() -> None:
    assert check_filters([["head_kind", "=", "arvados#collection"]], LINKS) == (
        IsKind("head_uuid", ("4zz18",)),
    )
    assert check_filters([["tail_kind", "in", ["arvados#user"]]], LINKS) == (
        IsKind("tail_uuid", ("tpzed",)),
    )
    with pytest.raises(Invalid, match="must be =, in or is_a"):
        check_filters([["head_kind", "<", "arvados#user"]], LINKS)
