"""Uploads."""

from __future__ import annotations

import pytest

from lading.client.transport import Response
from lading.testing.asgi import AsgiTransport
from tests.web.browsing import Browser, PageSite

DATA = b"<script>alert(1)</script>" * 9000


async def _upload(
    browser: Browser, uuid: str, name: str, data: bytes = DATA, **more: str
) -> Response:
    token = await browser.form_token()
    sent = {
        "cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items()),
        "x-form-token": token,
        "sec-fetch-site": "same-origin",
        "hx-request": "true",
        "content-length": str(len(data)),
        **{key.replace("_", "-"): value for key, value in more.items()},
    }
    path = f"/ui/collections/{uuid}/upload?path={name}"
    return await AsgiTransport(browser.app).request("POST", path, headers=sent, body=data)


async def test_a_new_collection_takes_files(here: PageSite, browser: Browser) -> None:
    group = {"group_class": "project", "name": "p"}
    project = (await here.world.ok("POST", "groups", {"group": group}))["uuid"]
    made = await browser.post(f"/ui/projects/{project}/collections", {"name": "new"})
    uuid = made.headers["location"].rpartition("/")[2]
    assert (await _upload(browser, uuid, "%3Cb%3E.html")).status == 201
    assert (await _upload(browser, uuid, "t%3Dx", b"")).status == 201
    assert await here.files.tree(uuid) == ["<b>.html", "t=x"]
    saved = await browser.get(f"/ui/collections/{uuid}/download?path=%3Cb%3E.html")
    assert saved.body == DATA
    assert (await browser.post(f"/ui/projects/{project}/collections", {"name": ""})).status == 422


async def test_no_file_is_replaced(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"a": b"1"})
    before = await here.files.pdh(uuid)
    answer = await _upload(browser, uuid, "a")
    assert answer.status == 409
    assert b"is there already" in answer.body
    assert await here.files.pdh(uuid) == before


@pytest.mark.parametrize(
    ("name", "more", "status"),
    [
        ("b", {"x_form_token": "x"}, 403),
        ("b", {"x_form_token": ""}, 403),
        ("b", {"sec_fetch_site": "cross-site"}, 403),
        ("b", {"content_length": ""}, 411),
        # It breaks off.
        ("b", {"content_length": str(len(DATA) + 1)}, 400),
        ("", {}, 400),
        ("..%2Fx", {}, 400),
    ],
)
async def test_a_refused_upload_changes_nothing(
    here: PageSite, browser: Browser, name: str, more: dict[str, str], status: int
) -> None:
    uuid = await here.files.collection({"a": b"1"})
    before = await here.files.pdh(uuid)
    assert (await _upload(browser, uuid, name, DATA, **more)).status == status
    assert await here.files.pdh(uuid) == before


async def test_others_put_nothing(here: PageSite) -> None:
    uuid = await here.files.collection({"a": b"1"})
    jane = await here.logged_in(await here.world.user("jane"))
    assert (await _upload(jane, uuid, "b")).status == 404
    assert (await _upload(here.browser(), uuid, "b")).status == 204
    assert await here.files.tree(uuid) == ["a"]
