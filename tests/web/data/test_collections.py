"""One collection."""

from __future__ import annotations

from urllib.parse import quote

from tests.web.browsing import Browser, PageSite

EVIL = "<img src=x onerror=alert(1)>"
NAMES = ("a.txt", "sub/<img src=x>.svg", "t=x")


async def _made(here: PageSite) -> str:
    return await here.files.collection(
        {name: name.encode() for name in NAMES}, name=EVIL, properties={EVIL: [EVIL]}
    )


async def test_a_collection_shows_files_and_facts(here: PageSite, browser: Browser) -> None:
    uuid = await _made(here)
    text = await browser.text(f"/ui/collections/{uuid}")
    assert text.index(">sub/<") < text.index(">a.txt<")
    assert EVIL not in text
    assert "no request that you can read" in text
    inner = await browser.text(f"/ui/collections/{uuid}?path=sub")
    assert "&lt;img" in inner
    assert "<img" not in inner
    assert (await browser.get(f"/ui/collections/{uuid}?path=none")).status == 404


async def test_files_are_saved_and_never_shown(here: PageSite, browser: Browser) -> None:
    uuid = await _made(here)
    for name in NAMES:
        path = f"/ui/collections/{uuid}/download?path={quote(name, safe='')}"
        answer = await browser.get(path)
        assert (answer.status, answer.body) == (200, name.encode())
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert (await browser.get(f"/ui/collections/{uuid}/download")).status == 404


async def test_a_hash_leads_to_a_collection(here: PageSite, browser: Browser) -> None:
    uuid = await _made(here)
    answer = await browser.get(f"/ui/collections/{await here.files.pdh(uuid)}")
    assert answer.headers["location"] == f"/ui/collections/{uuid}"
    assert (await browser.get(f"/ui/collections/{'0' * 32}+9")).status == 404
    assert (await browser.get("/ui/collections/none")).status == 404


async def test_the_maker_and_versions_are_linked(here: PageSite, browser: Browser) -> None:
    world = here.world
    request = await world.submit("x", name="made it")
    pdh = await here.files.pdh(await _made(here))
    await world.run(request["container_uuid"], output=pdh)
    output = (await world.ok("GET", f"container_requests/{request['uuid']}"))["output_uuid"]
    text = await browser.text(f"/ui/collections/{output}")
    assert f'output of <a href="/ui/requests/{request["uuid"]}">made it</a>' in text
    assert f"/ui/requests/{request['uuid']}/graph" in text
    change = {"collection": {"name": "other", "preserve_version": True}}
    await world.ok("PUT", f"collections/{output}", change)
    await world.ok("PUT", f"collections/{output}", {"collection": {"name": "newer"}})
    text = await browser.text(f"/ui/collections/{output}")
    old = text.rpartition("/ui/collections/")[2][:27]
    assert old != output
    assert "that has changed since" in await browser.words(f"/ui/collections/{old}")


async def test_a_collection_is_renamed(here: PageSite, browser: Browser) -> None:
    uuid = await _made(here)
    path = f"/ui/collections/{uuid}/name"
    assert (await browser.post(path, {"name": "new"})).status == 303
    assert (await here.world.ok("GET", f"collections/{uuid}"))["name"] == "new"
    assert (await browser.post(path, {"name": " "})).status == 422
    assert (await browser.post(path, {"name": "x", "form_token": "x"})).status == 403
    jane = await here.logged_in(await here.world.user("jane"))
    assert (await jane.post(path, {"name": "x"})).status == 404
    assert (await here.world.ok("GET", f"collections/{uuid}"))["name"] == "new"


async def test_others_find_nothing(here: PageSite) -> None:
    uuid = await _made(here)
    jane = await here.logged_in(await here.world.user("jane"))
    assert (await jane.get(f"/ui/collections/{uuid}")).status == 404
    assert (await jane.get(f"/ui/collections/{uuid}/download?path=a.txt")).status == 404
