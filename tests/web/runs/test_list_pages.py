"""Pages of a list of a run."""

from __future__ import annotations

import re

from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step


async def test_pages_keep_filters_and_attempt(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "many")
    for number in range(101):
        await submit_step(here, run, "align", f"{number:03}")
    await begin_run(here, "many")
    path = f"/ui/runs/{run['uuid']}/steps?attempt=1&step=align&from=50"
    page = await browser.text(path)
    place = f"/ui/runs/{run['uuid']}/steps?attempt=1&amp;step=align"
    assert re.findall(r'href="([^"]*)" rel="(\w+)"', page) == [
        (place, "prev"),
        (f"{place}&amp;from=100", "next"),
    ]
    assert "51 to 100 of 101" in page
    for wrong in ("from=-1", "from=x", "from=12345678", "from=%C2%B2"):
        assert (await browser.get(f"/ui/runs/{run['uuid']}/outputs?{wrong}")).status == 422
