"""Order of records on pages."""

from __future__ import annotations

from lading.core.tes.paging import PageCursor, is_after, merge_pages

CURSOR = PageCursor("2026-01-02T03:04:05.000006000Z", "zzzzz-xvhdp-000000000000000")


def test_order() -> None:
    row = {"created_at": CURSOR.created_at, "uuid": CURSOR.uuid}
    assert is_after(None, row)
    assert not is_after(CURSOR, row)
    assert is_after(CURSOR, {**row, "uuid": "a"})
    assert not is_after(CURSOR, {**row, "created_at": "2027"})


def test_two_lists_as_one() -> None:
    a, b, c = ({"uuid": one, "created_at": "2026"} for one in "abc")
    assert merge_pages([c, a], [b, a], None) == [c, b, a]
    assert merge_pages([c], [b, a], PageCursor("2026", "b")) == [c, b]
