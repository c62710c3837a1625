"""Pages of a list of a run: the number of the first row, and the addresses of other pages."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from lading.core.errors import Invalid
from lading.web.runs.reading import RunView
from lading.web.visit import Visit

PAGE: Final = 50
"""Rows of a page."""


def row_number(visit: Visit) -> int:
    """The number of the first row of the page, from 0. Raises Invalid."""
    digits = visit.query("from", "0")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 7:
        raise Invalid("from: must be a whole number, 0 or more")
    return int(digits)


def page_address(
    view: RunView, path: str, start: int, count: int | None = None, **query: str
) -> str:
    """The address of another page; "" before the first row, and after the last of `count`."""
    if start <= -PAGE or (count is not None and start >= count):
        return ""
    return view_address(view, path, **query, **({"from": str(start)} if start > 0 else {}))


def view_address(view: RunView, path: str, **query: str) -> str:
    """The address of a page of the run, of the same attempt."""
    attempt = {"attempt": str(view.attempt)} if view.attempt else {}
    encoded = urlencode({key: value for key, value in {**attempt, **query}.items() if value})
    return f"{view.place}/{path}" + (f"?{encoded}" if encoded else "")
