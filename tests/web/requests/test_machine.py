"""Where a container ran."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite


async def test_the_log_names_it(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x")
    log = await here.files.collection({"node-info.txt": b"Host Information\nLinux <b>n7 6.1\n"})
    await here.world.run(request["container_uuid"], log=await here.files.pdh(log))
    assert "Machine: <b>n7" in await browser.words(f"/ui/requests/{request['uuid']}/usage")


async def test_before_that_the_dispatcher_tells_it(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x")
    path = f"/ui/requests/{request['uuid']}/usage"
    assert "started on" not in await browser.words(path)
    told = {"container_uuid": request["container_uuid"], "event_type": "dispatched", "age": 0}
    body = {"items": {}, "events": [{**told, "text": "Its supervisor was started on n8."}]}
    await here.world.ok("POST", "dispatch/statuses", body, token=here.world.dispatcher)
    assert "Its supervisor was started on n8." in await browser.words(path)
