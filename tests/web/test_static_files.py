"""Style and scripts."""

from __future__ import annotations

import pytest

from tests.web.browsing import PageSite


async def test_files_are_kept_until_they_change(here: PageSite) -> None:
    browser = here.browser()
    first = await browser.get("/ui/static/page.css")
    assert first.headers["content-type"] == "text/css; charset=utf-8"
    again = await browser.get("/ui/static/page.css", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["none.js", "../app.py", "..%2Fapp.py", "../page.js", "vendor/prepared", "%2e%2e/x.js"]
)
async def test_nothing_else_is_served(here: PageSite, path: str) -> None:
    assert (await here.browser().get(f"/ui/static/{path}")).status == 404
