"""The trash."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite


async def test_a_collection_goes_to_the_trash_and_comes_back(
    here: PageSite, browser: Browser
) -> None:
    uuid = await here.files.collection({"a": b"1"}, name="<b>kept")
    assert (await browser.post(f"/ui/trash/{uuid}")).headers["location"] == "/ui/trash"
    assert (await browser.get(f"/ui/collections/{uuid}")).status == 404
    text = await browser.text("/ui/trash")
    assert f"/ui/trash/{uuid}/restore" in text
    assert "<b>kept" not in text
    assert "None matches." in await browser.words("/ui/trash?kind=collections&q=other")
    answer = await browser.post(f"/ui/trash/{uuid}/restore")
    assert answer.headers["location"] == f"/ui/collections/{uuid}"
    assert (await browser.get(f"/ui/collections/{uuid}")).status == 200


async def test_a_project_goes_to_the_trash_and_comes_back(here: PageSite, browser: Browser) -> None:
    group = {"group_class": "project", "name": "old"}
    uuid = (await here.world.ok("POST", "groups", {"group": group}))["uuid"]
    await browser.post(f"/ui/trash/{uuid}")
    assert (await browser.get(f"/ui/projects/{uuid}")).status == 404
    assert "old" in await browser.words("/ui/trash")
    answer = await browser.post(f"/ui/trash/{uuid}/restore")
    assert answer.headers["location"] == f"/ui/projects/{uuid}"
    assert (await browser.get(f"/ui/projects/{uuid}")).status == 200


async def test_only_who_may_moves_things(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"a": b"1"})
    jane = await here.logged_in(await here.world.user("jane"))
    assert (await jane.post(f"/ui/trash/{uuid}")).status == 404
    assert (await browser.post(f"/ui/trash/{uuid}", {"form_token": "x"})).status == 403
    assert (await browser.post(f"/ui/trash/{uuid}", sec_fetch_site="cross-site")).status == 403
    assert (await browser.post("/ui/trash/none")).status == 404
    assert (await browser.get(f"/ui/collections/{uuid}")).status == 200


async def test_results_of_containers_are_left_out(here: PageSite, browser: Browser) -> None:
    container = {"container_uuid": "zzzzz-dz642-000000000000000"}
    for name, properties in (("log of one", container), ("thrown away", {})):
        uuid = await here.files.collection({"a": b"1"}, name=name, properties=properties)
        await here.world.ok("POST", f"collections/{uuid}/trash")
    text = await browser.words("/ui/trash")
    assert "thrown away" in text
    assert "log of one" not in text
    assert "/ui/trash?results=1" in await browser.text("/ui/trash")
    assert "log of one" in await browser.words("/ui/trash?results=1&q=one")
