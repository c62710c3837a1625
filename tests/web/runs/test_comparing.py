"""A run compared with another one."""

from __future__ import annotations

from lading.core.records.schema import Record
from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step

EVIL = "<script>alert(1)<|script>\u202e"


async def _attempts(here: PageSite) -> Record:
    """A good attempt, a failed one, and a third one with another parameter and command."""
    run = await begin_run(here, "cohort", params={"k": 25}, source={"commit": "aaa"})
    await submit_step(here, run, "align", "1", exit_code=0, files={"a": b"1"})
    await submit_step(here, run, "old", "1", exit_code=0)
    here.world.clock.advance(60)
    run = await begin_run(here, "cohort", params={"k": 31}, source={"commit": "bbb"})
    await submit_step(here, run, "align", "2", exit_code=3)
    here.world.clock.advance(60)
    run = await begin_run(here, "cohort", params={"k": 31}, source={"commit": "bbb"})
    properties = {"lading_attempt": run["attempt"], "lading_step": "align"}
    request = await here.world.submit(
        "align", "-k", "31", name="align_1", owner_uuid=run["uuid"], properties=properties
    )
    output = await here.files.pdh(await here.files.collection({"a": b"2"}))
    await here.world.run(request["container_uuid"], exit_code=0, output=output)
    await submit_step(here, run, "new", "1", exit_code=0)
    return run


async def test_it_is_compared_with_the_last_good_attempt(here: PageSite, browser: Browser) -> None:
    run = await _attempts(here)
    place = f"/ui/runs/{run['uuid']}"
    assert f'href="{place}/compare"' in await browser.text(place)
    words = await browser.words(f"{place}/compare")
    assert "Before cohort attempt 1 ✓ done" in words
    assert "First cause align_1 : command" in words
    assert "command before align 1 command now align -k 31" in words
    assert "Name Before Now k 25 31" in words
    assert "commit aaa bbb" in words
    assert "align_1 ✓ done command another" in words
    assert "Steps of the earlier one alone Step State old_1" in words
    assert "Steps of this one alone Step State new_1" in words


async def test_an_attempt_is_named(here: PageSite, browser: Browser) -> None:
    run = await _attempts(here)
    place = f"/ui/runs/{run['uuid']}/compare"
    words = await browser.words(f"{place}?with=cohort%232")
    assert "Before cohort attempt 2 ✗ failed" in words
    earlier = await browser.words(f"{place}?attempt=2")
    assert "Now cohort attempt 2" in earlier
    assert f"{run['uuid']}#1" in await browser.text(place)


async def test_equal_attempts(here: PageSite, browser: Browser) -> None:
    for _ in range(2):
        run = await begin_run(here, "again")
        await submit_step(here, run, "align", "1", exit_code=0)
        here.world.clock.advance(60)
    words = await browser.words(f"/ui/runs/{run['uuid']}/compare")
    assert "none: the steps are equal" in words
    assert "1 step is equal" in words


async def test_only_failed_attempts_before(here: PageSite, browser: Browser) -> None:
    for code in (1, 0):
        run = await begin_run(here, "bad")
        await submit_step(here, run, "align", str(code), exit_code=code)
        here.world.clock.advance(60)
    words = await browser.words(f"/ui/runs/{run['uuid']}/compare")
    assert "Before bad attempt 1 ✗ failed" in words


async def test_nothing_to_compare_with(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "single")
    words = await browser.words(f"/ui/runs/{run['uuid']}/compare")
    assert "There is no earlier attempt" in words


async def test_a_workflow_is_compared_with_the_earlier_one(
    here: PageSite, browser: Browser
) -> None:
    uuids = []
    for number in ("1", "2"):
        runner = await here.world.submit(
            "arvados-cwl-runner", number, name="flow", scheduling_parameters={"supervisor": True}
        )
        await here.world.run(runner["container_uuid"])
        uuids.append(runner["uuid"])
        here.world.clock.advance(60)
    text = await browser.text(f"/ui/runs/{uuids[1]}/compare")
    assert f'Before</dt><dd><a href="/ui/runs/{uuids[0]}">flow' in text


async def test_a_name_that_no_run_has(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "cohort")
    answer = await browser.get(f"/ui/runs/{run['uuid']}/compare?with=nothing")
    assert answer.status == 404
    assert b"no run is called so" in answer.body
    for uuid in ("zzzzz-j7d0g-000000000000000", "zzzzz-4zz18-000000000000000"):
        assert (await browser.get(f"/ui/runs/{run['uuid']}/compare?with={uuid}")).status == 404


async def test_nothing_of_a_stranger_is_markup(here: PageSite, browser: Browser) -> None:
    for value in (EVIL, f"{EVIL}2"):
        run = await begin_run(here, "<b>bold<i>", params={EVIL: value}, source={EVIL: value})
        here.world.clock.advance(60)
    page = await browser.text(f"/ui/runs/{run['uuid']}/compare")
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "\u202e" not in page


async def test_a_run_of_others_is_not_there(here: PageSite) -> None:
    mine = await begin_run(here, "mine")
    jane = await here.world.user("jane")
    own = await begin_run(here, "own", token=jane)
    other = await here.logged_in(jane)
    assert (await other.get(f"/ui/runs/{mine['uuid']}/compare")).status == 404
    answer = await other.get(f"/ui/runs/{own['uuid']}/compare?with={mine['uuid']}")
    assert answer.status == 404
    assert "mine" not in answer.body.decode()
