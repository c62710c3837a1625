"""Every page of a running server, from the table of routes: a page that is added is looked at
without being named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from playwright.sync_api import Page

from lading.web.app import ROUTES
from tests.web.addresses import address, takes_uuid

# A stream without an end, and addresses that lead away or end what a browser is doing.
_LEFT_OUT: Final = ("/ui/events", "/ui/static/", "/ui/login/", "/ui/openid")

# These are about a file that not every record has.
_OF_FILES: Final = ("/show", "/raw", "/download")


@dataclass(frozen=True, slots=True)
class View:
    """A page; `name` is fit for a file."""

    name: str
    path: str


def views(page: Page, origin: str, uuids: Iterable[str], **query: str) -> Iterator[View]:
    """The pages of a browser that is logged in, each about the first of these records that it is
    about. Parts of pages, files and reports are left out: in the latter no script may look.

    Raises AssertionError for an address of a record that is about none of them.
    """
    found, known = urlencode(query), list(uuids)
    for one in ROUTES:
        path = address(one)
        if one.method != "GET" or path.startswith(_LEFT_OUT):
            continue
        wanted = [address(one, uuid=uuid) for uuid in known] if takes_uuid(one) else [path]
        statuses: set[int] = set()
        for asked in (*wanted, *(f"{place}?{found}" for place in wanted)):
            answer = page.request.get(f"{origin}{asked}")
            statuses.add(answer.status)
            has_scripts = "sandbox" not in answer.headers.get("content-security-policy", "")
            is_whole = answer.text().startswith("<!doctype html")
            if answer.status == 200 and has_scripts and is_whole:
                yield View(_name(one.pattern.pattern), asked)
                break
        of_a_file = path.endswith(_OF_FILES)
        answered = min(statuses) < 400
        assert answered or of_a_file or not takes_uuid(one), f"{path}: {statuses}"


def _name(pattern: str) -> str:
    path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"\1", pattern).removeprefix("/ui/").strip("/")
    return re.sub(r"\W+", "-", path) or "now"
