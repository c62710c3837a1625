"""Rows of projects and collections."""

from __future__ import annotations

from lading.web.data.entries import DataPage, address


def test_addresses_have_what_is_wanted() -> None:
    assert address("/ui/x", q="a b", after="") == "/ui/x?q=a+b"
    assert address("/ui/x") == "/ui/x"


def test_the_last_page_has_no_next_one() -> None:
    assert DataPage(rows=[], after="").address("/ui/x", q="a") == ""
    assert DataPage(rows=[], after="k").address("/ui/x", q="a") == "/ui/x?q=a&after=k"
