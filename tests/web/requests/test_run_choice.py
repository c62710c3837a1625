"""A request of the form becomes a step of a run."""

from __future__ import annotations

from lading.core.records.schema import Record
from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run


async def _form(here: PageSite, run: str) -> dict[str, str]:
    image = (await here.world.spec("x"))["container_image"]
    return {
        "name": "align_1", "image": image, "command": "sort x", "inputs": "", "environment": "",
        "vcpus": "1", "ram": "256 MiB", "reuse": "yes", "run": run,
    }  # fmt: skip


async def _submitted(here: PageSite, browser: Browser, run: str) -> Record:
    answer = await browser.post("/ui/requests/submit", await _form(here, run))
    assert answer.status == 303, answer.body.decode()
    uuid = answer.headers["location"].split("/")[-1].partition("?")[0]
    request: Record = await here.world.ok("GET", f"container_requests/{uuid}")
    return request


async def test_it_joins_the_latest_attempt(here: PageSite, browser: Browser) -> None:
    for _ in range(2):
        run = await begin_run(here, "cohort-7")
    assert '<option value="cohort-7">' in await browser.text("/ui/requests/submit")
    request = await _submitted(here, browser, "cohort-7")
    assert request["owner_uuid"] == run["uuid"]
    assert request["properties"]["lading_attempt"] == 2
    assert "align_1" in await browser.words(f"/ui/runs/{run['uuid']}/steps")


async def test_a_run_that_is_not_there_begins(here: PageSite, browser: Browser) -> None:
    request = await _submitted(here, browser, "fresh")
    assert "1 step: 1 waiting" in await browser.words(f"/ui/runs/{request['owner_uuid']}")


async def test_a_name_that_no_run_can_have_is_refused(here: PageSite, browser: Browser) -> None:
    answer = await browser.post("/ui/requests/submit", await _form(here, "a/b"))
    assert answer.status == 422
    assert "a run's name has no slash" in answer.body.decode().replace("&#39;", "'")


async def test_an_image_of_the_list_is_filled_in(browser: Browser) -> None:
    page = await browser.text("/ui/requests/submit?image=tools:1&run=cohort")
    assert 'value="tools:1"' in page
    assert 'value="cohort"' in page
