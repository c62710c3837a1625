"""The report on a run."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step

EVIL = "<script>alert(1)<|script>\u202e"
LOG = {"stderr.txt": f"2026-01-01T00:00:00.000000000Z {EVIL}\n".encode()}


async def test_it_is_a_page_without_rights(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "<b>cohort 7", params={EVIL: EVIL})
    await submit_step(here, run, "align", "1", exit_code=3, log=LOG)
    path = f"/ui/runs/{run['uuid']}/report"
    assert f'href="{path}"' in await browser.text(f"/ui/runs/{run['uuid']}")
    answer = await browser.get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("inline")
    page = answer.body.decode()
    assert "&lt;b&gt;cohort 7, attempt 1: failed" in page
    assert "align_1: exit code 3" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert "\u202e" not in page


async def test_it_is_saved_by_the_name_of_the_run(here: PageSite, browser: Browser) -> None:
    for _ in range(2):
        run = await begin_run(here, "Ü 7")
        here.world.clock.advance(60)
    path = f"/ui/runs/{run['uuid']}/report"
    answer = await browser.get(f"{path}?save=1")
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"__7-2.html\"; filename*=UTF-8''%C3%9C%207-2.html"
    )
    assert b"attempt 1" in (await browser.get(f"{path}?attempt=1")).body
    place = f"/ui/runs/{run['uuid']}?attempt=1"
    assert "/report?attempt=1&amp;save=1" in await browser.text(place)


async def test_others_see_nothing(here: PageSite) -> None:
    run = await begin_run(here, "mine")
    other = await here.logged_in(await here.world.user("jane"))
    assert (await other.get(f"/ui/runs/{run['uuid']}/report")).status == 404
