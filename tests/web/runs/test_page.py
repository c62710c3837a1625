"""The page of one run."""

from __future__ import annotations

import pytest

from lading.core.records.schema import Record
from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step

LOG = {"stderr.txt": b"2026-01-01T00:00:00.000000000Z no reads above <b>30</b>\n"}


async def _failed(here: PageSite) -> Record:
    run = await begin_run(here, "cohort", params={"k": 31}, source={"script": "run.sh"})
    for number in range(3):
        code = 3 if number == 1 else 0
        await submit_step(here, run, "align", str(number), exit_code=code, log=LOG, cost=0.25)
    await submit_step(here, run, "call", "1")
    return run


async def test_failures_come_first_with_their_last_lines(here: PageSite, browser: Browser) -> None:
    run = await _failed(here)
    words = await browser.words(f"/ui/runs/{run['uuid']}")
    failure = words.index("1 failed step align_1 exit code 3 no reads above <b>30</b>")
    assert failure < words.index("align × 3")
    assert "3 requests: 2 done, 1 failed" in words
    assert "4 steps: 2 done, 1 failed, 1 waiting" in words
    assert "Parameters k 31" in words
    assert "script run.sh" in words
    assert "cost $0.75" in words
    text = await browser.text(f"/ui/runs/{run['uuid']}/state")
    assert "above &lt;b&gt;30" in text


async def test_a_live_run_is_cancelled(here: PageSite, browser: Browser) -> None:
    run = await _failed(here)
    path = f"/ui/runs/{run['uuid']}"
    page = await browser.text(path)
    assert 'sse-connect="/ui/events?topics=runs"' in page or "sse-connect" not in page
    assert "Cancel the run" in page
    assert "Move the run to the trash" not in page
    answer = await browser.post(f"{path}/cancel")
    assert answer.headers["location"] == f"{path}?said=cancelled"
    words = await browser.words(f"{path}?said=cancelled")
    assert "Cancelled." in words
    assert "4 steps: 2 done, 1 failed, 1 cancelled" in words
    assert "Move the run to the trash" in words


async def test_the_runner_of_a_workflow_is_cancelled(here: PageSite, browser: Browser) -> None:
    runner = await here.world.submit(
        "arvados-cwl-runner", name="a workflow", scheduling_parameters={"supervisor": True}
    )
    path = f"/ui/runs/{runner['uuid']}"
    assert "Request of the runner" in await browser.words(path)
    token = await here.world.lock(runner["container_uuid"])
    container = f"containers/{runner['container_uuid']}"
    await here.world.ok("PUT", container, {"state": "Running"}, token=token)
    assert "Cancel the run" in await browser.words(path)
    await browser.post(f"{path}/cancel")
    shown = await here.world.ok("GET", f"container_requests/{runner['uuid']}")
    assert shown["priority"] == 0


async def test_attempts(here: PageSite, browser: Browser) -> None:
    first = await begin_run(here, "again", params={"k": 1})
    await submit_step(here, first, "align", "1", exit_code=0)
    here.world.clock.advance(60)
    second = await begin_run(here, "again", params={"k": 2})
    await submit_step(here, second, "align", "1", exit_code=0)
    await submit_step(here, second, "align", "2", exit_code=0)
    path = f"/ui/runs/{first['uuid']}"
    assert "Attempt 2 Attempt 1" in await browser.words(path)
    assert "2 steps: 2 done (1 reused)" in await browser.words(path)
    earlier = await browser.words(f"{path}?attempt=1")
    assert "1 step: 1 done" in earlier
    assert "Parameters k 1" in earlier
    assert "attempt=1" in await browser.text(f"{path}?attempt=1")


async def test_a_run_without_steps(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "empty")
    words = await browser.words(f"/ui/runs/{run['uuid']}")
    assert "No step yet" in words
    assert "None were given." in words


@pytest.mark.parametrize(
    "uuid", ["x", "zzzzz-j7d0g-000000000000000", "zzzzz-tpzed-000000000000000"]
)
async def test_no_such_run(browser: Browser, uuid: str) -> None:
    assert (await browser.get(f"/ui/runs/{uuid}")).status == 404


async def test_others_see_nothing(here: PageSite) -> None:
    run = await begin_run(here, "mine")
    other = await here.logged_in(await here.world.user("jane"))
    for path in ("", "/steps", "/outputs", "/graph", "/timeline", "/state"):
        assert (await other.get(f"/ui/runs/{run['uuid']}{path}")).status == 404
    assert (await other.post(f"/ui/runs/{run['uuid']}/cancel")).status == 404


async def test_inputs_have_their_names(here: PageSite, browser: Browser) -> None:
    reads = await here.files.collection({"a.fq": b"A"}, name="reads <b>")
    content = await here.files.pdh(reads)
    run = await begin_run(here, "named")
    mounts = {
        "/in": {"kind": "collection", "portable_data_hash": content},
        "/out": {"kind": "tmp", "capacity": 1 << 20},
    }
    await submit_step(here, run, "align", "1", exit_code=0, mounts=mounts, output_path="/out")
    path = f"/ui/runs/{run['uuid']}"
    assert "Inputs Input Read by reads <b> align" in await browser.words(path)
    text = await browser.text(path)
    assert f'href="/ui/collections/{content.replace("+", "%2B")}">reads &lt;b&gt;</a>' in text
    assert (await browser.get(f"/ui/collections/{content}")).headers["location"].endswith(reads)


async def test_how_it_runs_again(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "again")
    path = f"/ui/runs/{run['uuid']}"
    assert "Run again" not in await browser.words(path)
    await submit_step(here, run, "align", "1", exit_code=1)
    assert f"lading runs rerun {run['uuid']} --reuse" in await browser.words(path)
    await submit_step(here, run, "align", "2")
    assert "Run again" not in await browser.words(path)


async def test_the_expected_end_is_told(here: PageSite, browser: Browser) -> None:
    for attempt in range(2):
        run = await begin_run(here, "nightly")
        step = await submit_step(here, run, "align", str(attempt))
        token = await here.world.lock(step["container_uuid"])
        container = f"containers/{step['container_uuid']}"
        await here.world.ok("PUT", container, {"state": "Running"}, token=token)
        if not attempt:
            here.world.clock.advance(600)
            await here.world.finish(step["container_uuid"], token, exit_code=0)
        here.world.clock.advance(60)
    for path in (f"/ui/runs/{run['uuid']}", f"/ui/runs/{run['uuid']}/state", "/ui/"):
        assert "about 9 min left" in await browser.words(path)
