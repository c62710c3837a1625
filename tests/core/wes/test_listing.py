"""Pages of runs."""

from __future__ import annotations

import pytest

from lading.core.errors import Malformed
from lading.core.tes.paging import PageCursor, make_page_token
from lading.core.wes.listing import RUNS, parse_page, tasks_of

SECRET = b"secret"
CURSOR = PageCursor("2026-01-02T03:04:05.000006000Z", "zzzzz-xvhdp-000000000000000")


def test_pages() -> None:
    assert parse_page([], RUNS, secret=SECRET).size == 256
    token = make_page_token(CURSOR, RUNS, secret=SECRET)
    page = parse_page([("page_size", "3"), ("page_token", token)], RUNS, secret=SECRET)
    assert (page.size, page.after) == (3, CURSOR)
    with pytest.raises(Malformed, match="page_token"):
        parse_page([("page_token", token)], tasks_of("x"), secret=SECRET)
    with pytest.raises(Malformed, match="page_size"):
        parse_page([("page_size", "1000")], RUNS, secret=SECRET)
