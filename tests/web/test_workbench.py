"""Addresses that clients of Arvados print."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite


async def test_a_process_is_a_request_or_its_container(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("true")
    place = f"/ui/requests/{request['uuid']}"
    for path in (
        f"processes/{request['uuid']}",
        f"processes/{request['container_uuid']}",
        f"container_requests/{request['uuid']}",
        f"containers/{request['container_uuid']}",
    ):
        answer = await browser.get(f"/ui/{path}")
        assert (answer.status, answer.headers["location"]) == (303, place)


async def test_what_is_no_process(here: PageSite, browser: Browser) -> None:
    other = await here.world.ok("POST", "collections", {})
    unknown = "zzzzz-dz642-000000000000000"
    for uuid in (other["uuid"], unknown, "x"):
        assert (await browser.get(f"/ui/processes/{uuid}")).status == 404
