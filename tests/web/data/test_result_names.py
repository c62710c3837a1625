"""Outputs in lists of projects are named by step and run."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step


async def test_an_output_is_named_by_its_step_and_run(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "cohort-7")
    step = await submit_step(here, run, "align", "1", exit_code=0, files={"a": b"a"})
    path = f"/ui/projects/{run['uuid']}"
    words = await browser.words(path)
    assert "Output of align_1 step align, run cohort-7" in words
    assert "Container output for request" not in words
    assert "see the page of the run" in words
    assert "lading_attempts" not in words
    assert "Log of align_1" in await browser.words(f"{path}?logs=1")
    collection = await browser.words(f"/ui/collections/{step['output_uuid']}")
    assert "Output of align_1" in collection


async def test_a_request_of_no_run(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("sort", "x.txt")
    await here.world.run(request["container_uuid"])
    page = await browser.words(f"/ui/projects/{request['owner_uuid']}")
    assert "Output of sort x.txt" in page


async def test_the_request_of_another_user_is_not_named(here: PageSite) -> None:
    request = await here.world.submit("secret command")
    await here.world.run(request["container_uuid"])
    shown = await here.world.ok("GET", f"container_requests/{request['uuid']}")
    jane = await here.world.user("jane")
    user = await here.world.ok("GET", "users/current", token=jane)
    link = {"link_class": "permission", "name": "can_read", "tail_uuid": user["uuid"]}
    await here.world.ok("POST", "links", {**link, "head_uuid": shown["output_uuid"]})
    other = await here.logged_in(jane)
    words = await other.words(f"/ui/collections/{shown['output_uuid']}")
    assert f"Container output for request {request['uuid']}" in words
    assert "secret command" not in words
