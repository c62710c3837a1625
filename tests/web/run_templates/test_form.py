"""The form of a template."""

from __future__ import annotations

import pytest

from tests.web.browsing import Browser, PageSite
from tests.web.run_templates.making import save


async def test_the_form_is_made_from_the_schema(here: PageSite, browser: Browser) -> None:
    uuid = await save(here, count=2)
    text = await browser.text(f"/ui/templates/{uuid}")
    assert 'type="number" id="value-1" name="value:k" value="25" step="1" min="11" max="63"' in text
    assert '<option value="fast" selected>' in text
    assert 'list="template-collections"' in text
    assert "Version 1" in text
    older = await browser.text(f"/ui/templates/{uuid}?version=1")
    assert "This is an older version" in older
    assert (await browser.get(f"/ui/templates/{uuid}?version=3")).status == 404
    assert (await browser.get("/ui/templates/zzzzz-j7d0g-012345678901234")).status == 404


async def test_own_collections_are_suggested_for_inputs(here: PageSite, browser: Browser) -> None:
    uuid = await save(here)
    await here.files.collection({"a": b"1"}, name="my reads")
    twice = await here.files.collection({"a": b"1"}, name="twice")
    project = await here.world.ok("POST", "groups", {"group_class": "project", "name": "p"})
    await here.files.collection({"a": b"2"}, name="twice", owner_uuid=project["uuid"])
    text = await browser.text(f"/ui/templates/{uuid}")
    assert '<option value="my reads"></option>' in text
    assert '<option value="twice"></option>' in text
    assert twice not in text


async def test_it_is_run_with_the_values_of_the_form(here: PageSite, browser: Browser) -> None:
    uuid = await save(here)
    data = await here.files.collection({"a": b"1"}, name="my reads")
    form = {
        "version": "1", "value:k": "31", "value:mode": "slow", "value:reads": "my reads",
        "value:dry": "true", "value:text": "a; b", "value:need": "2.5", "run": "cohort-8",
    }  # fmt: skip
    answer = await browser.post(f"/ui/templates/{uuid}/run", form)
    address = answer.headers["location"]
    run = address.rpartition("/")[2]
    (step,) = (await here.world.ok("GET", f"groups/{run}/run_steps"))["items"]
    request = await here.world.ok("GET", f"container_requests/{step['uuid']}")
    assert request["command"] == ["align", "31", "slow", "2.5"]
    assert request["environment"] == {"DRY": "true", "TEXT": "a; b"}
    assert request["mounts"]["/in"]["uuid"] == data
    record = await here.world.ok("GET", f"groups/{run}/run")
    assert (record["name"], record["params"]["k"], record["params"]["list"]) == (
        "cohort-8",
        31,
        [1],
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("k", "3", "below 11"), ("k", "x", "type integer"), ("mode", "other", "none of fast, slow"),
        ("reads", "nothing", "no such collection"), ("need", "", "is needed"),
        ("list", "{", "type array"),
    ],
)  # fmt: skip
async def test_a_wrong_value_is_shown_at_its_field(
    here: PageSite, browser: Browser, field: str, value: str, message: str
) -> None:
    uuid = await save(here)
    form = {"version": "1", "value:need": "1", f"value:{field}": value, "run": "kept"}
    answer = await browser.post(f"/ui/templates/{uuid}/run", form)
    text = answer.body.decode()
    assert (answer.status, message in text, 'value="kept"' in text) == (422, True, True)
    assert not (await here.world.ok("GET", "groups/runs"))["items"]


async def test_a_refusal_of_the_server_is_shown(here: PageSite, browser: Browser) -> None:
    uuid = await save(here)
    missing = {"version": "1", "value:need": "1", "value:reads": f"{'1' * 32}+5"}
    answer = await browser.post(f"/ui/templates/{uuid}/run", missing)
    assert (answer.status, b"It was not run" in answer.body) == (422, True)
    assert not (await here.world.ok("GET", "groups/runs"))["items"]
    wrong = await browser.post(f"/ui/templates/{uuid}/run", {**missing, "version": "9"})
    assert wrong.status == 404


async def test_access_to_the_api_needs_consent(here: PageSite, browser: Browser) -> None:
    uuid = await save(here, runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": True})
    assert 'name="consent"' in await browser.text(f"/ui/templates/{uuid}")
    form = {"version": "1", "value:need": "1"}
    refused = await browser.post(f"/ui/templates/{uuid}/run", form)
    assert (refused.status, b"act in your name" in refused.body) == (403, True)
    done = await browser.post(f"/ui/templates/{uuid}/run", {**form, "consent": "yes"})
    assert done.status == 303


async def test_a_secret_is_asked_for(here: PageSite, browser: Browser) -> None:
    needed = [{"target": "/run/secrets/KEY", "kind": "text", "environment_variable": "KEY"}]
    uuid = await save(here, secrets_needed=needed)
    assert 'name="secret:KEY"' in await browser.text(f"/ui/templates/{uuid}")
    form = {"version": "1", "value:need": "1", "secret:KEY": "abc"}
    assert (await browser.post(f"/ui/templates/{uuid}/run", form)).status == 303


async def test_a_damaged_template_says_so(here: PageSite, browser: Browser) -> None:
    definition = '{"class":"LadingTemplate","versions":[]}'
    body = {"name": "bad", "definition": definition}
    uuid = (await here.world.ok("POST", "workflows", body))["uuid"]
    assert "It cannot be run here" in await browser.text(f"/ui/templates/{uuid}")
    assert (await browser.post(f"/ui/templates/{uuid}/run", {})).status == 422


async def test_others_see_nothing(here: PageSite) -> None:
    uuid = await save(here)
    other = await here.logged_in(await here.world.user("jane"))
    assert (await other.get(f"/ui/templates/{uuid}")).status == 404
    assert "No template is here" in await other.text("/ui/templates")
