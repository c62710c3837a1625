"""The steps of a run as a table."""

from __future__ import annotations

import re

from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step


def _names(page: str) -> list[str]:
    return re.findall(r'<a href="/ui/requests/[^"/]*">([^<]*)</a>', page)


async def test_filters_and_pages(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "many")
    for number in range(52):
        await submit_step(here, run, "align", f"{number:02}")
    await submit_step(here, run, "call", "1", exit_code=2)
    path = f"/ui/runs/{run['uuid']}/steps"
    first = await browser.text(path)
    assert len(_names(first)) == 50
    assert "1 to 50 of 53" in first
    following = re.search(r'href="([^"]*)" rel="next"', first)
    assert following is not None
    second = await browser.text(following[1])
    assert _names(second) == ["align_50", "align_51", "call_1"]
    assert 'rel="prev"' in second
    failed = await browser.words(f"{path}?state=failed")
    assert "failed 2 call_1 exit code 2" in failed
    assert "1 to 1 of 1" in failed
    assert len(_names(await browser.text(f"{path}?step=call"))) == 1
    assert "No step matches." in await browser.words(f"{path}?state=running")
    for query in ("state=odd", "from=-1", "from=x", "attempt=x"):
        assert (await browser.get(f"{path}?{query}")).status == 422


async def test_a_reused_step_took_nothing(here: PageSite, browser: Browser) -> None:
    for _ in range(2):
        run = await begin_run(here, "again")
        await submit_step(here, run, "align", "1", exit_code=0)
        here.world.clock.advance(60)
    words = await browser.words(f"/ui/runs/{run['uuid']}/steps")
    assert "done, reused align_1 align" in words
    assert "ago reused" in words
