"""The graph and the timeline of a run."""

from __future__ import annotations

import re

from lading.core.records.schema import Record
from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step


async def _samples(here: PageSite, count: int, name: str = "many") -> Record:
    run = await begin_run(here, name)
    for number in range(count):
        before = await submit_step(here, run, "align", str(number), exit_code=int(number == 1))
        await submit_step(here, run, "call", str(number), depends_on=[before["uuid"]])
    return run


async def test_the_requests_of_a_step_are_one_node(here: PageSite, browser: Browser) -> None:
    run = await _samples(here, 3)
    path = f"/ui/runs/{run['uuid']}/graph"
    page = await browser.text(path)
    assert page.count("<rect") == 2
    assert page.count('class="edge"') == 1
    words = await browser.words(path)
    assert "align × 3 ✗ 1 of 3 failed" in words
    assert "call × 3" in words


async def test_a_reused_step_takes_no_time(here: PageSite, browser: Browser) -> None:
    first = await begin_run(here, "again")
    await submit_step(here, first, "align", "1", exit_code=0)
    here.world.clock.advance(7_200)
    second = await begin_run(here, "again")
    await submit_step(here, second, "align", "1")
    here.world.clock.advance(10)
    await submit_step(here, second, "call", "1", exit_code=0)
    words = await browser.words(f"/ui/runs/{second['uuid']}/timeline")
    assert "2 requests in 10" in words
    assert "1 reused: it takes no time" in words
    assert "↺ done, reused" in words


async def test_many_requests_are_a_row_for_each_step(here: PageSite, browser: Browser) -> None:
    run = await _samples(here, 31)
    page = await browser.text(f"/ui/runs/{run['uuid']}/timeline")
    assert len(re.findall(r'<span class="task">', page)) == 2
    assert "align × 31" in page


async def test_a_run_without_steps(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "empty")
    for drawing in ("graph", "timeline"):
        assert "No step yet." in await browser.words(f"/ui/runs/{run['uuid']}/{drawing}")
