"""Parameters of lists, and tokens of pages."""

from __future__ import annotations

import pytest

from lading.core.errors import Malformed
from lading.core.tes.listing import (
    TaskView,
    about,
    filters,
    parse_query,
    parse_view,
)
from lading.core.tes.paging import PageCursor, make_page_token

SECRET = b"secret"
CURSOR = PageCursor("2026-01-02T03:04:05.000006000Z", "zzzzz-xvhdp-000000000000000")


def test_defaults_and_blank_values() -> None:
    query = parse_query([("page_size", ""), ("page_token", ""), ("other", "x")], secret=SECRET)
    assert (query.size, query.view, query.after) == (256, TaskView.MINIMAL, None)
    assert filters(query, legacy=False) == [["properties", "exists", "tes"]]


@pytest.mark.parametrize(
    ("pairs", "tags"),
    [
        ([("tag_key", "a")], (("a", ""),)),
        ([("tag_key", "a"), ("tag_value", "")], (("a", ""),)),
        (
            [("tag_key", "a"), ("tag_value", ""), ("tag_key", "b"), ("tag_value", "x")],
            (("a", ""), ("b", "x")),
        ),
        ([("tag_key", "a"), ("tag_key", "b"), ("tag_value", "x")], (("a", "x"), ("b", ""))),
    ],
)
def test_tags_are_paired(pairs: list[tuple[str, str]], tags: tuple[tuple[str, str], ...]) -> None:
    query = parse_query(pairs, secret=SECRET)
    assert query.tags == tags
    conditions = filters(query, legacy=False)[1:]
    assert conditions == [
        [f"properties.<tes.tag.{name}>", *(("=", value) if value else ("exists", True))]
        for name, value in tags
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("page_size", "0"),
        ("page_size", "2048"),
        ("page_size", "-1"),
        ("page_size", "00001"),
        ("page_size", "²"),
        ("state", "NONE"),
        ("view", "NONE"),
        ("tag_value", "x"),
        ("page_token", "x"),
        ("page_token", "é"),
        ("page_token", "AAAA"),
    ],
)
def test_what_is_refused(name: str, value: str) -> None:
    with pytest.raises(Malformed, match=name):
        parse_query([(name, value)], secret=SECRET)


def test_other_filters() -> None:
    query = parse_query([("name_prefix", "a%_\\"), ("state", "QUEUED")], secret=SECRET)
    assert filters(query, legacy=True)[1:] == [
        ["name", "like", "a\\%\\_\\\\%"],
        ["state", "in", ["Committed", "Uncommitted"]],
    ]
    assert parse_view("") is TaskView.MINIMAL


def test_tokens_serve_one_list() -> None:
    query = parse_query([("page_size", "1")], secret=SECRET)
    token = make_page_token(CURSOR, about(query), secret=SECRET)
    assert parse_query([("page_token", token)], secret=SECRET).after == CURSOR
    for pairs, secret in (
        ([("name_prefix", "a")], SECRET),
        ([], b"other"),
        ([("tag_key", "a")], SECRET),
    ):
        with pytest.raises(Malformed):
            parse_query([*pairs, ("page_token", token)], secret=secret)
