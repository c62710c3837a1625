"""Files that are uploaded in the form become a collection."""

from __future__ import annotations

import msgspec
import pytest

from lading.client.transport import Response
from lading.testing.asgi import AsgiTransport
from tests.web.browsing import Browser, PageSite

PLACE = "/ui/requests/submit/collection"


async def _upload(browser: Browser, uuid: str, data: bytes) -> Response:
    sent = {
        "cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items()),
        "x-form-token": await browser.form_token(),
        "sec-fetch-site": "same-origin",
        "content-length": str(len(data)),
    }
    path = f"/ui/collections/{uuid}/upload?path=a.fq"
    return await AsgiTransport(browser.app).request("POST", path, headers=sent, body=data)


async def test_files_become_a_collection_that_a_request_reads(
    here: PageSite, browser: Browser
) -> None:
    answer = await browser.post(PLACE, {"name": "reads/a.fq", "project": ""}, hx_request="true")
    assert answer.status == 201
    made = msgspec.json.decode(answer.body)
    assert made["name"] == "reads_a.fq"
    assert (await _upload(browser, made["uuid"], b"ACG")).status == 201
    image = await here.world.ensure_image()
    form = {"image": image, "command": "true", "vcpus": "1", "ram": "256 MiB",
            "inputs": f"/in/a.fq={made['uuid']}/a.fq"}  # fmt: skip
    submitted = await browser.post("/ui/requests/submit", form)
    request = submitted.headers["location"].split("/")[-1].partition("?")[0]
    mounts = (await here.world.ok("GET", f"container_requests/{request}"))["mounts"]
    assert mounts["/in/a.fq"]["path"] == "a.fq"


async def test_two_of_one_name(browser: Browser) -> None:
    made = [msgspec.json.decode((await browser.post(PLACE, {"name": "a"})).body) for _ in range(2)]
    assert made[0]["uuid"] != made[1]["uuid"]
    assert made[0]["name"] != made[1]["name"]


async def test_it_is_in_the_project_of_the_form(here: PageSite, browser: Browser) -> None:
    group = {"group_class": "project", "name": "lab"}
    project = (await here.world.ok("POST", "groups", {"group": group}))["uuid"]
    answer = await browser.post(PLACE, {"name": "a", "project": "lab"})
    uuid = msgspec.json.decode(answer.body)["uuid"]
    assert (await here.world.ok("GET", f"collections/{uuid}"))["owner_uuid"] == project


@pytest.mark.parametrize("project", ["none", "zzzzz-j7d0g-000000000000000"])
async def test_a_refusal_makes_nothing(here: PageSite, browser: Browser, project: str) -> None:
    before = (await here.world.ok("GET", "collections"))["items"]
    answer = await browser.post(PLACE, {"name": "a", "project": project}, hx_request="true")
    assert answer.status in (403, 404, 422)
    assert (await here.world.ok("GET", "collections"))["items"] == before


async def test_quotas_hold(here: PageSite) -> None:
    token = await here.world.user("ada")
    ada = await here.world.ok("GET", "users/current", token=token)
    limit = {"subject_uuid": ada["uuid"], "bytes_stored": 10}
    await here.world.ok("POST", "quotas", {"quota": limit})
    browser = await here.logged_in(token)
    uuid = msgspec.json.decode((await browser.post(PLACE, {"name": "a"})).body)["uuid"]
    refused = await _upload(browser, uuid, b"x" * 11)
    assert refused.status >= 400
    assert b"quota" in refused.body
    assert await here.files.tree(uuid) == []
    assert (await _upload(browser, uuid, b"x" * 9)).status == 201
