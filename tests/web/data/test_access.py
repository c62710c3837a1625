"""Access of people and groups."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite


async def test_access_is_given_changed_and_removed(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"a": b"1"}, name="<b>mine")
    jane = await here.logged_in(await here.world.user("jane"))
    path = f"/ui/access/{uuid}"
    assert (await jane.get(path)).status == 404
    assert "Nobody" in await browser.words(path)
    for level in ("read", "write"):
        answer = await browser.post(path, {"who": "jane", "can": level})
        assert answer.headers["location"] == path
        assert f"jane {level} Remove" in await browser.words(path)
    text = await browser.text(path)
    assert "<b>mine" not in text
    assert (await jane.get(f"/ui/collections/{uuid}")).status == 200
    assert (await jane.post(path, {"who": "everyone", "can": "read"})).status in (403, 404)
    party = text.partition('name="who" value="')[2][:27]
    assert (await browser.post(f"{path}/remove", {"who": party})).status == 303
    assert (await browser.post(f"{path}/remove", {"who": party})).status == 404
    assert (await jane.get(f"/ui/collections/{uuid}")).status == 404


async def test_wrong_forms_change_nothing(here: PageSite, browser: Browser) -> None:
    group = {"group_class": "project", "name": "p"}
    uuid = (await here.world.ok("POST", "groups", {"group": group}))["uuid"]
    await here.world.user("jane")
    path = f"/ui/access/{uuid}"
    for form, status in (
        ({"who": "jane", "can": "login"}, 422),
        ({"who": "", "can": "read"}, 422),
        ({"who": "nobody", "can": "read"}, 404),
        ({"who": "jane", "can": "read", "form_token": "x"}, 403),
    ):
        assert (await browser.post(path, form)).status == status
    assert "Nobody" in await browser.words(path)


async def test_a_request_is_shared(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x", name="to be shared")
    jane = await here.logged_in(await here.world.user("jane"))
    page = f"/ui/requests/{request['uuid']}"
    assert (await jane.get(page)).status == 404
    assert f'href="/ui/access/{request["uuid"]}"' in await browser.text(page)
    await browser.post(f"/ui/access/{request['uuid']}", {"who": "jane", "can": "read"})
    assert "to be shared" in await jane.words(page)
    assert f'href="{page}"' in await browser.text(f"/ui/access/{request['uuid']}")
