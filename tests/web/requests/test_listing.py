"""The list of requests."""

from __future__ import annotations

import re

from tests.web.browsing import Browser, PageSite


def _uuids(text: str) -> list[str]:
    return re.findall(r'<tr id="row-([^"]*)"', text)


async def test_filters_are_in_the_address(here: PageSite, browser: Browser) -> None:
    world = here.world
    failed = await world.submit("false", name="falls")
    await world.run(failed["container_uuid"], exit_code=2)
    waiting = await world.submit("waits", name="100%_sure")
    assert _uuids(await browser.text("/ui/requests")) == [waiting["uuid"], failed["uuid"]]
    assert _uuids(await browser.text("/ui/requests?state=Failed")) == [failed["uuid"]]
    assert _uuids(await browser.text("/ui/requests?state=Waiting&owner=me")) == [waiting["uuid"]]
    assert _uuids(await browser.text("/ui/requests?q=0%25_s")) == [waiting["uuid"]]
    assert _uuids(await browser.text("/ui/requests?q=%25")) == [waiting["uuid"]]
    assert "No request matches." in await browser.words("/ui/requests?state=Running")
    assert (await browser.get("/ui/requests?state=none")).status == 422


async def test_a_uuid_leads_to_its_request(here: PageSite, browser: Browser) -> None:
    uuid = (await here.world.submit("x"))["uuid"]
    answer = await browser.get(f"/ui/requests?q={uuid}")
    assert answer.headers["location"] == f"/ui/requests/{uuid}"


async def test_pages_show_each_request_once(here: PageSite, browser: Browser) -> None:
    made = [await here.world.submit("x", state="Uncommitted") for _ in range(53)]
    # More of one moment than a page holds.
    spec = await here.world.spec("x", state="Uncommitted")
    batch = await here.world.ok(
        "POST", "container_requests/batch", {"container_requests": [spec] * 60}
    )
    seen: list[str] = []
    path = "/ui/requests"
    while path:
        text = await browser.text(path)
        seen += _uuids(text)
        found = re.search(r'href="([^"]*)" rel="next"', text)
        path = found[1].replace("&amp;", "&") if found else ""
    together = {one["uuid"] for one in batch["items"]}
    assert len(together) == 60
    assert set(seen[:60]) == together
    assert seen[60:] == [one["uuid"] for one in reversed(made)]


async def test_rows_keep_their_order(here: PageSite, browser: Browser) -> None:
    uuids = [(await here.world.submit(str(number)))["uuid"] for number in range(3)]
    text = await browser.text(f"/ui/requests/rows?uuids={','.join([*uuids, 'x'])}")
    assert _uuids(text) == uuids


async def test_many_are_cancelled_at_once(here: PageSite, browser: Browser) -> None:
    uuid = (await here.world.submit("x"))["uuid"]
    answer = await browser.post("/ui/requests/cancel", {"uuid": uuid})
    assert answer.headers["location"] == "/ui/requests?cancelled=1"
    assert (await here.world.ok("GET", f"container_requests/{uuid}"))["priority"] == 0


async def test_what_has_ended_is_not_cancelled(here: PageSite, browser: Browser) -> None:
    ended = await here.world.submit("ended")
    await here.world.run(ended["container_uuid"])
    answer = await browser.post("/ui/requests/cancel", {"uuid": ended["uuid"]})
    assert answer.headers["location"] == "/ui/requests?cancelled=0"
    assert "0 cancelled." in await browser.words("/ui/requests?cancelled=0")


async def test_many_are_submitted_again(here: PageSite, browser: Browser) -> None:
    made = await here.world.submit("x", name="again and again")
    await here.world.run(made["container_uuid"], exit_code=3)
    answer = await browser.post("/ui/requests/again", {"uuid": made["uuid"]})
    place = answer.headers["location"]
    assert place == "/ui/requests?again=1"
    words = await browser.words(place)
    assert "1 submitted again." in words
    assert words.count("again and again") == 2
    jane = await here.logged_in(await here.world.user("jane"))
    answer = await jane.post("/ui/requests/again", {"uuid": made["uuid"]})
    assert answer.status == 207
    assert b"0 submitted again, 1 not" in answer.body


async def test_what_cannot_be_cancelled_is_named(here: PageSite) -> None:
    uuid = (await here.world.submit("x"))["uuid"]
    other = await here.logged_in(await here.world.user("jane"))
    answer = await other.post("/ui/requests/cancel", {"uuid": uuid})
    assert answer.status == 207
    assert uuid.encode() in answer.body
    assert (await other.post("/ui/requests/cancel", {"uuid": "../users"})).status == 207
    assert (await other.post("/ui/requests/cancel")).status == 422
