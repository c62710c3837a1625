"""Access of people and groups."""

from __future__ import annotations

import re

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


async def test_an_address_is_shown_once_and_ended(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"a.txt": b"1"})
    path = f"/ui/access/{uuid}"
    answer = await browser.post(f"{path}/address", {"days": "7"})
    found = re.search(rb'value="(https://[^"]+)"', answer.body)
    assert found
    assert answer.headers["cache-control"] == "no-store"
    place = found[1].decode().partition(":9440")[2]
    assert (await here.files.call("GET", f"{place}a.txt", token="")).body == b"1"
    text = await browser.text(path)
    assert place.split("/")[-3] not in text
    token = text.partition('name="token" value="')[2][:27]
    for status in (303, 404):
        assert (await browser.post(f"{path}/end", {"token": token})).status == status
    assert (await here.files.call("GET", f"{place}a.txt", token="")).status == 401


async def test_other_tokens_are_no_addresses(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"a.txt": b"1"})
    own = here.world.admin.split("/")[1]
    assert (await browser.post(f"/ui/access/{uuid}/end", {"token": own})).status == 404
    assert (await here.world.request("GET", "users/current")).status == 200


async def test_projects_have_no_address(here: PageSite, browser: Browser) -> None:
    group = {"group_class": "project", "name": "p"}
    uuid = (await here.world.ok("POST", "groups", {"group": group}))["uuid"]
    assert "Share by address" not in await browser.words(f"/ui/access/{uuid}")
    assert (await browser.post(f"/ui/access/{uuid}/address")).status == 404


async def test_a_form_that_was_refused_leads_back(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"a": b"a"})
    place = f"/ui/access/{uuid}"
    answer = await browser.post(
        place, {"who": "nobody", "can": "read"}, referer=f"http://localhost{place}"
    )
    assert answer.status == 404
    assert b"<h1>This did not work</h1>" in answer.body
    assert f'href="{place}">Back to the form'.encode() in answer.body


async def test_a_request_is_shared_with_its_records_and_its_containers(
    here: PageSite, browser: Browser
) -> None:
    request = await here.world.submit("x", name="to be shared")
    await here.world.run(request["container_uuid"])
    ended = await here.world.ok("GET", f"container_requests/{request['uuid']}")
    token = await here.world.user("jane")
    path = f"/ui/access/{request['uuid']}"
    await browser.post(path, {"who": "jane", "can": "read", "enter": "on"})
    records = (
        f"container_requests/{request['uuid']}", f"containers/{request['container_uuid']}",
        f"collections/{ended['log_uuid']}", f"collections/{ended['output_uuid']}",
    )  # fmt: skip
    words = await browser.words(path)
    for record in records:
        assert record.split("/")[1] in words
        assert (await here.world.request("GET", record, token=token)).status == 200
    assert "jane enter container" in words
    party = (await here.world.ok("GET", "users/current", token=token))["uuid"]
    assert (await browser.post(f"{path}/remove", {"who": party})).status == 303
    for record in records:
        assert (await here.world.request("GET", record, token=token)).status == 404
    assert "Nobody" in await browser.words(path)
