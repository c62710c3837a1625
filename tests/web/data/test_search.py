"""Search over all."""

from __future__ import annotations

import re

from tests.web.browsing import Browser, PageSite

EVIL = "<img src=x onerror=alert(1)>"


async def test_all_kinds_are_found_by_name(here: PageSite, browser: Browser) -> None:
    kept = await here.files.collection({"a": b"1"}, name=f"Find {EVIL}")
    group = {"group_class": "project", "name": "find p"}
    project = (await here.world.ok("POST", "groups", {"group": group}))["uuid"]
    request = (await here.world.submit("x", name="find r"))["uuid"]
    text = await browser.text("/ui/search?q=find")
    for uuid in (kept, project, request):
        assert f"/{uuid}" in text
    assert EVIL not in text
    assert EVIL not in await browser.text(f"/ui/search?q={EVIL}")
    assert "None matches." in await browser.words("/ui/search?q=nothing")
    assert "Type a part" in await browser.words("/ui/search")
    jane = await here.logged_in(await here.world.user("jane"))
    assert kept not in await jane.text("/ui/search?q=find")


async def test_uuids_and_hashes_are_found(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"a": b"1"})
    answer = await browser.get(f"/ui/search?q={uuid}")
    assert answer.headers["location"] == f"/ui/collections/{uuid}"
    pdh = (await here.files.pdh(uuid)).replace("+", "%2B")
    text = await browser.text(f"/ui/search?q={pdh}")
    assert f"/ui/collections/{uuid}" in text
    group = {"group_class": "project", "name": "p"}
    project = (await here.world.ok("POST", "groups", {"group": group}))["uuid"]
    answer = await browser.get(f"/ui/search?q={project}")
    assert answer.headers["location"] == f"/ui/projects/{project}"


async def test_pages_show_each_match_once(here: PageSite, browser: Browser) -> None:
    for number in range(52):
        await here.world.collection({}, name=f"many {number}")
    path = "/ui/search?q=many&kind=collections"
    assert path.replace("&", "&amp;") in await browser.text("/ui/search?q=many")
    seen: list[str] = []
    while path:
        text = await browser.text(path)
        seen += re.findall(r'<tr id="row-([^"]*)"', text)
        found = re.search(r'href="([^"]*)" rel="next"', text)
        path = found[1].replace("&amp;", "&") if found else ""
    assert len(seen) == len(set(seen)) == 52
    assert (await browser.get("/ui/search?q=x&kind=none")).status == 422


async def test_a_container_leads_to_its_request(here: PageSite, browser: Browser) -> None:
    made = await here.world.submit("x")
    path = f"/ui/search?q={made['container_uuid']}"
    answer = await browser.get(path)
    assert answer.headers["location"] == f"/ui/requests/{made['uuid']}"
    jane = await here.logged_in(await here.world.user("jane"))
    assert "None matches." in await jane.words(path)
