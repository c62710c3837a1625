"""Compressed pages and files."""

from __future__ import annotations

import gzip
import re

import pytest

from lading.web.compression import accepts_gzip
from tests.web.browsing import Browser, PageSite

TOKEN = rb'name="form_token" value="(\w+)"'


@pytest.mark.parametrize(
    ("header", "does"),
    [
        ("", False),
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip; q=0", False),
        ("gzip;q=0.000, br", False),
        ("xgzip", False),
    ],
)
def test_what_a_browser_reads(header: str, does: bool) -> None:
    assert accepts_gzip({"accept-encoding": header}) is does


async def test_pages_are_compressed(browser: Browser) -> None:
    plain = await browser.get("/ui/requests")
    packed = await browser.get("/ui/requests", accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(packed.body) < len(plain.body) / 2
    assert re.sub(TOKEN, b"", gzip.decompress(packed.body)) == re.sub(TOKEN, b"", plain.body)


@pytest.mark.parametrize("site", ["cross-site", "same-site", ""])
async def test_what_another_site_asks_for_has_a_size_that_tells_nothing(
    browser: Browser, site: str
) -> None:
    answer = await browser.get("/ui/search?q=x", accept_encoding="gzip", sec_fetch_site=site)
    assert "content-encoding" not in answer.headers
    assert answer.headers["vary"] == "Accept-Encoding, Sec-Fetch-Site"


async def test_each_page_has_another_token(browser: Browser) -> None:
    first, second = [re.findall(TOKEN, (await browser.get("/ui/")).body)[0] for _ in range(2)]
    assert first != second


async def test_files_are_compressed(here: PageSite) -> None:
    browser = here.browser()
    plain = await browser.get("/ui/static/page.css")
    packed = await browser.get("/ui/static/page.css", accept_encoding="gzip")
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["etag"] != plain.headers["etag"]
    tag = packed.headers["etag"]
    again = await browser.get("/ui/static/page.css", accept_encoding="gzip", if_none_match=tag)
    assert again.status == 304
    assert (await browser.get("/ui/static/page.css", if_none_match=tag)).status == 200
