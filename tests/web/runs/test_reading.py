"""Which run and which attempt an address names."""

from __future__ import annotations

import pytest

from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run


@pytest.mark.parametrize(("query", "status"), [("", 200), ("1", 200), ("2", 404), ("x", 422)])
async def test_an_attempt(here: PageSite, browser: Browser, query: str, status: int) -> None:
    run = await begin_run(here, "mine")
    assert (await browser.get(f"/ui/runs/{run['uuid']}?attempt={query}")).status == status


async def test_a_plain_project_is_no_run(here: PageSite, browser: Browser) -> None:
    project = await here.world.ok("POST", "groups", {"name": "lab", "group_class": "project"})
    assert (await browser.get(f"/ui/runs/{project['uuid']}")).status == 404
