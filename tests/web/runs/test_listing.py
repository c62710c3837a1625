"""The list of runs, the first screen."""

from __future__ import annotations

import re
from typing import Any

from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step

EVIL = "<script>alert(1)<|script>\u202e"


def _names(page: str) -> list[str]:
    return re.findall(r'<a href="/ui/runs/[^"]*">([^<]*)</a>', page)


async def test_no_run_says_how_to_make_one(browser: Browser) -> None:
    words = await browser.words("/ui/")
    assert "No run yet." in words
    assert "lading map --run NAME" in words
    assert "belong to no run are under Requests" in words


async def test_a_run_is_a_row_with_its_steps(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "cohort-7", params={"k": 31, "reads": "a.fq"})
    await submit_step(here, run, "align", "1", exit_code=0, cost=0.5)
    await submit_step(here, run, "align", "2", exit_code=3)
    await submit_step(here, run, "align", "3")
    page = await browser.text("/ui/")
    words = await browser.words("/ui/")
    assert "▶ running cohort-7 k=31, reads=a.fq" in words
    assert "3 steps: 1 done, 1 failed, 1 waiting" in words
    assert "$0.50" in words
    assert all(
        share in page for share in ('<rect class="good" x="0.0"', '<rect class="bad" x="66.7"')
    )
    assert f'href="/ui/runs/{run["uuid"]}"' in page


async def test_the_second_attempt_of_a_run_shows_what_is_reused(
    here: PageSite, browser: Browser
) -> None:
    for _ in range(2):
        run = await begin_run(here, "again")
        await submit_step(here, run, "align", "1", exit_code=0)
        here.world.clock.advance(60)
    words = await browser.words("/ui/runs")
    assert "done, reused again attempt 2" in words
    assert "1 step: 1 done (1 reused)" in words


async def test_filters(here: PageSite, browser: Browser) -> None:
    project = await here.world.ok("POST", "groups", {"name": "lab", "group_class": "project"})
    bad = await begin_run(here, "bad run", project=project["uuid"])
    await submit_step(here, bad, "align", "1", exit_code=1)
    jane = await here.world.user("jane")
    await begin_run(here, "of jane", token=jane)
    expected = {
        "state=failed": ["bad run"],
        "state=done": [],
        "q=RUN": ["bad run"],
        "user=me": ["bad run"],
        "user=jane": ["of jane"],
        "project=lab": ["bad run"],
        "since=2020-01-01": ["of jane", "bad run"],
        "since=2999-01-01": [],
    }
    for query, names in expected.items():
        page = await browser.text(f"/ui/runs?{query}")
        assert _names(page) == names, query
    assert "No run matches" in await browser.words("/ui/runs?state=done")
    for query in ("state=odd", "user=nobody", "project=none", "since=yesterday"):
        assert (await browser.get(f"/ui/runs?{query}")).status in (404, 422), query


async def test_pages_of_fifty(here: PageSite, browser: Browser) -> None:
    for number in range(51):
        await begin_run(here, f"run-{number}")
        here.world.clock.advance(1)
    first = await browser.text("/ui/runs?q=run")
    assert _names(first)[0] == "run-50"
    older = re.search(r'href="([^"]*)" rel="next"', first)
    assert older is not None
    second = await browser.text(older[1].replace("&amp;", "&"))
    assert _names(second) == ["run-0"]
    assert "The newest" in second


def _parts(page: str) -> dict[str, Any]:
    return {
        name: address.replace("&amp;", "&")
        for name, address in re.findall(r'id="(rows|new)"[^>]*hx-get="([^"]*)"', page)
    }


async def test_the_list_changes_in_place(here: PageSite, browser: Browser) -> None:
    first = await begin_run(here, "first")
    parts = _parts(await browser.text("/ui/runs?state=waiting"))
    assert "newer runs" not in await browser.words(parts["new"])
    here.world.clock.advance(1)
    await begin_run(here, "second")
    await submit_step(here, first, "align", "1", exit_code=1)
    # The first one has left the filter, and the second one is above: the row stays where it is.
    words = await browser.words(parts["rows"])
    assert "failed first" in words
    assert "second" not in words
    assert "newer runs" in await browser.words(parts["new"])


async def test_an_empty_list_gets_the_first_run(here: PageSite, browser: Browser) -> None:
    parts = _parts(await browser.text("/ui/"))
    await begin_run(here, "first")
    assert "waiting first" in await browser.words(parts["rows"])


async def test_a_run_in_the_trash_leaves_the_list(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "gone")
    parts = _parts(await browser.text("/ui/"))
    await here.world.ok("POST", f"groups/{run['uuid']}/trash")
    assert "gone" not in await browser.words(parts["rows"])


async def test_nothing_of_a_stranger_is_markup(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "<b>bold<i>", params={EVIL: EVIL})
    await here.world.ok(
        "POST", f"groups/{run['uuid']}/end_run", {"outcome": "failed", "note": EVIL}
    )
    page = await browser.text("/ui/")
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "\u202e" not in page


async def test_others_see_their_own(here: PageSite) -> None:
    await begin_run(here, "of-the-admin")
    other = await here.logged_in(await here.world.user("jane"))
    assert "of-the-admin" not in await other.words("/ui/")


async def test_a_run_of_a_workflow_runner(here: PageSite, browser: Browser) -> None:
    runner = await here.world.submit(
        "arvados-cwl-runner", name="a workflow", scheduling_parameters={"supervisor": True}
    )
    assert f'href="/ui/runs/{runner["uuid"]}">a workflow' in await browser.text("/ui/")
