"""The form that submits a request."""

from __future__ import annotations

import json

import pytest

from lading.client.api import Record
from tests.web.browsing import Browser, PageSite

EVIL = "<script>alert(1)</script>"
PLACE = "/ui/requests/submit"


async def _submitted(here: PageSite, browser: Browser, **fields: str) -> Record:
    """The request that the form makes."""
    image = await here.world.ensure_image()
    form = {"image": image, "command": "true", "vcpus": "1", "ram": "256 MiB", **fields}
    answer = await browser.post(PLACE, form)
    assert answer.status == 303, answer.body
    uuid = answer.headers["location"].removeprefix("/ui/requests/").partition("?")[0]
    found: Record = await here.world.ok("GET", f"container_requests/{uuid}")
    return found


async def test_all_fields(here: PageSite, browser: Browser) -> None:
    pdh = await here.files.pdh(await here.files.collection({"a/x": b"1"}))
    earlier = await here.world.submit("first")
    fields = {
        "name": "mine", "command": "sh -c 'sort /in | uniq'", "vcpus": "2", "ram": "1 GiB",
        "inputs": f"/in={pdh}/a/x\r\n\r\n/more = {earlier['uuid']}", "environment": "A=b=c\nD=",
        "reuse": "yes",
    }  # fmt: skip
    found = await _submitted(here, browser, **fields)
    assert (found["name"], found["command"]) == ("mine", ["sh", "-c", "sort /in | uniq"])
    assert found["environment"] == {"A": "b=c", "D": ""}
    assert found["runtime_constraints"]["ram"] == 1 << 30
    assert (found["state"], found["use_existing"], found["cwd"]) == ("Committed", True, "/out")
    inputs = {target: one["kind"] for target, one in found["mounts"].items()}
    assert inputs == {"/in": "collection", "/more": "output", "/out": "tmp"}
    assert found["mounts"]["/in"]["path"] == "a/x"
    page = await browser.words(f"/ui/requests/{found['uuid']}?said=submitted")
    assert "Submitted." in page


async def test_an_earlier_request_with_changes(here: PageSite, browser: Browser) -> None:
    pdh = await here.files.pdh(await here.files.collection({"x": b"1"}))
    reads = {"kind": "collection", "portable_data_hash": pdh, "path": "x"}
    first = await here.world.submit(
        "sort", "a b", name="old", mounts={"/data": {"kind": "tmp"}, "/in": reads},
        environment={"Q": "1"}, output_path="/data", cwd="/in", properties={"k": "v"},
        runtime_constraints={"vcpus": [1, 4], "ram": 1 << 28, "internet": True},
    )  # fmt: skip
    text = await browser.text(f"{PLACE}?from={first['uuid']}")
    assert "sort &#39;a b&#39;" in text
    assert f"/in={pdh}/x" in text
    fields = {"name": "new", "inputs": f"/in={pdh}", "vcpus": "4", "from": first["uuid"]}
    found = await _submitted(here, browser, **fields)
    assert (found["cwd"], found["output_path"], found["properties"]) == ("/in", "/data", {"k": "v"})
    assert found["mounts"]["/in"].get("path") in (None, "")
    assert found["runtime_constraints"]["internet"] is False
    assert not found["use_existing"]


async def test_gpus(here: PageSite, browser: Browser) -> None:
    fields = {"gpus": "2", "gpu_memory": "16 GiB", "gpu_type": "MI300X, amd", "gpu_version": "6.2"}
    first = await _submitted(here, browser, **fields)
    assert first["runtime_constraints"]["gpu"] == {
        "device_count": 2, "stack": "rocm", "vram": 16 << 30, "driver_version": "6.2",
        "hardware_target": ["MI300X"],
    }  # fmt: skip
    text = await browser.text(f"{PLACE}?from={first['uuid']}")
    for value in ('value="amd, MI300X"', 'value="16384 MiB"', 'value="6.2"'):
        assert value in text
    without = await _submitted(here, browser, **{"from": first["uuid"]})
    assert without["runtime_constraints"]["gpu"]["device_count"] == 0
    one = await _submitted(here, browser, gpu_type="ampere")
    assert one["runtime_constraints"]["gpu"]["device_count"] == 1


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("image", "", "is needed"),
        ("command", "echo 'x", "No closing quotation"),
        ("command", " ", "is needed"),
        ("vcpus", "0", "at least 1"),
        ("ram", "256", "needs a unit"),
        ("ram", "much", "size"),
        ("inputs", "/in", "is not PATH=SOURCE"),
        ("inputs", "/in=nothing", "is no hash"),
        ("inputs", "/out=" + "0" * 32 + "+0", "is taken"),
        ("inputs", "/a={0}\n/a={0}".format("0" * 32 + "+0"), "given twice"),
        ("environment", "A", "is not NAME=VALUE"),
        ("gpus", "two", "write a number of GPUs"),
        ("gpu_memory", "16", "write a unit"),
        ("gpu_version", "new", "write a version"),
    ],
)
async def test_faults_stand_beside_their_fields(
    here: PageSite, browser: Browser, field: str, text: str, said: str
) -> None:
    form = {"image": "tools:1", "command": EVIL, "vcpus": "1", "ram": "1 GiB", field: text}
    answer = await browser.post(PLACE, form)
    page = answer.body.decode()
    assert answer.status == 422
    assert f'aria-describedby="fault-{field}"' in page
    assert said in page
    assert "<script>alert" not in page
    assert (await here.world.ok("GET", "container_requests"))["items"] == []


async def test_what_the_api_refuses_is_told(here: PageSite, browser: Browser) -> None:
    image = await here.world.ensure_image()
    form = {"image": image, "command": "x", "vcpus": "1", "ram": "1 GiB"}
    for more in (
        {"inputs": "/in=zzzzz-xvhdp-000000000000000"},
        {"project": "zzzzz-j7d0g-" + "0" * 15},
    ):
        answer = await browser.post(PLACE, {**form, **more})
        assert 400 <= answer.status < 500
        assert "It was not accepted:" in answer.body.decode()
    assert (await browser.get(f"{PLACE}?from=x")).status == 422
    jane = await here.logged_in(await here.world.user("jane"))
    other = await here.world.submit("secret")
    assert (await jane.get(f"{PLACE}?from={other['uuid']}")).status == 404
    assert json.dumps(other["uuid"]) not in await jane.text(PLACE)


async def test_a_project_is_named(here: PageSite, browser: Browser) -> None:
    group = {"group_class": "project", "name": "thesis"}
    project = (await here.world.ok("POST", "groups", group))["uuid"]
    form = {"image": await here.world.ensure_image(), "command": "x", "vcpus": "1", "ram": "1 GiB"}
    made = await browser.post(PLACE, {**form, "project": "thesis"})
    uuid = made.headers["location"].partition("?")[0].rpartition("/")[2]
    assert (await here.world.ok("GET", f"container_requests/{uuid}"))["owner_uuid"] == project
    answer = await browser.post(PLACE, {**form, "project": "nowhere"})
    assert answer.status == 422
    assert "nowhere: there is no such project that you can see" in answer.body.decode()


async def test_secrets_are_asked_for_again(here: PageSite, browser: Browser) -> None:
    mounts = {"/run/secrets/DB": {"kind": "text", "content": "hunter2",
                                  "environment_variable": "DB"}}  # fmt: skip
    earlier = (await here.world.submit("x", secret_mounts=mounts))["uuid"]
    answer = await browser.post(f"/ui/requests/{earlier}/again")
    form = answer.headers["location"]
    assert form == f"/ui/requests/submit?from={earlier}"
    text = await browser.text(form)
    assert 'type="password"' in text
    assert "hunter2" not in text
    image = await here.world.ensure_image()
    fields = {"image": image, "command": "x", "vcpus": "1", "ram": "256 MiB", "from": earlier}
    refused = await browser.post("/ui/requests/submit", fields)
    assert (refused.status, b"DB: no record has it" in refused.body) == (422, True)
    sent = await browser.post("/ui/requests/submit", {**fields, "secret:DB": "hunter3"})
    uuid = sent.headers["location"].split("/")[3][:27]
    made = await here.world.ok("GET", f"container_requests/{uuid}")
    assert made["secrets_needed"] == [
        {"target": "/run/secrets/DB", "kind": "text", "environment_variable": "DB"}
    ]
