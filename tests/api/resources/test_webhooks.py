"""Webhooks: who may make, see and change them, and where their secrets are."""

from __future__ import annotations

import json

import pytest

from lading.core.records.schema import JSON, Record
from lading.core.records.service_records import WEBHOOKS
from lading.store import records
from lading.testing.world import WITH_API, World
from tests.api.stored_logs import log_texts
from tests.api.webhooks.fake_sender import hook, project


async def share(it: World, name: str, level: str, head: str) -> str:
    """The token of a user who has this level on a project."""
    token = await it.user(name)
    user = await it.ok("GET", "users/current", token=token)
    link = {"link_class": "permission", "name": level, "tail_uuid": user["uuid"], "head_uuid": head}
    await it.ok("POST", "links", link)
    return token


async def test_the_secret_is_shown_once_and_sealed(it: World) -> None:
    made = await hook(it)
    assert made["secret"].startswith("whsec_")
    assert (made["state"], made["format"]) == ("Active", "cloudevents")
    assert "secret" not in await it.ok("GET", f"webhooks/{made['uuid']}")
    assert "secret" not in (await it.ok("GET", "webhooks"))["items"][0]
    await it.ok("PUT", f"webhooks/{made['uuid']}", {"url": "https://hidden.example/T0/B0/key"})
    async with it.database.reading() as tx:
        ((stored,),) = await tx.fetch("SELECT secret FROM webhooks")
    assert str(stored).startswith("sealed1:")
    logged = await log_texts(it, made["uuid"])
    assert len(logged) == 2
    # Readers of the project can read its log rows, but not its webhooks.
    for word in (made["secret"], "hidden.example", "a.example"):
        assert word not in str(logged)


async def test_managers_see_those_of_a_project_and_readers_do_not(it: World) -> None:
    place = (await project(it, "p"))["uuid"]
    manager, writer, reader = [
        await share(it, level, f"can_{level}", place) for level in ("manage", "write", "read")
    ]
    made = await hook(it, token=manager, owner_uuid=place)
    path = f"webhooks/{made['uuid']}"
    for token in (writer, reader, await it.user("stranger")):
        assert (await it.ok("GET", "webhooks", token=token))["items"] == []
        for method, end in (("GET", ""), ("GET", "/deliveries"), ("PUT", ""), ("DELETE", ""),
                            ("POST", "/test"), ("POST", "/pause"), ("POST", "/resume"),
                            ("POST", "/redeliver"), ("POST", "/rotate")):  # fmt: skip
            assert (await it.request(method, path + end, {}, token=token)).status == 404
        refused = await it.request(
            "POST", "webhooks", {"url": "https://b.example/", "owner_uuid": place}, token=token
        )
        assert refused.status in (403, 422)
    for token in (manager, it.admin):
        assert len((await it.ok("GET", "webhooks", token=token))["items"]) == 1
        await it.ok("POST", f"{path}/pause", {"reason": "quiet"}, token=token)
        assert (await it.ok("GET", path, token=token))["paused_reason"] == "quiet"
        await it.ok("POST", f"{path}/resume", token=token)
    await it.ok("DELETE", path, token=manager)


async def test_users_make_them_for_themselves(it: World) -> None:
    ada, bob = await it.user("ada"), await it.user("bob")
    other = (await it.ok("GET", "users/current", token=bob))["uuid"]
    body: Record = {"url": "https://a.example/", "owner_uuid": other}
    assert (await it.request("POST", "webhooks", body, token=ada)).status == 403
    made = await it.ok("POST", "webhooks", body)
    assert made["subscriber_uuid"] == other
    await it.ok("GET", f"webhooks/{made['uuid']}", token=bob)
    reply = await it.request("PUT", f"webhooks/{made['uuid']}", {"state": "Paused"}, token=bob)
    assert reply.status == 422


async def test_tokens_that_end_make_none(it: World) -> None:
    ada = await it.user("ada")
    body: Record = {"url": "https://a.example/"}
    made = await it.submit(token=ada, runtime_constraints=WITH_API)
    await it.lock(made["container_uuid"])
    container = await it.container_token(made["container_uuid"])
    narrow = await it.ok(
        "POST", "api_client_authorizations", {"scopes": ["POST /arvados/v1/webhooks"]}, token=ada
    )
    for token in (container, f"v2/{narrow['uuid']}/{narrow['api_token']}"):
        reply = await it.request("POST", "webhooks", body, token=token)
        assert (reply.status, "outlive" in reply.error) == (403, True)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"url": "https://a.example/", "format": "fax"}, "format"),
        ({"url": "mailto:a@b.example"}, "is no URL"),
        ({"url": "https://a.example/", "secret": "mine"}, "unknown attribute"),
        ({"url": "https://a.example/\r\nX: y"}, "control character"),
        ({}, "url"),
    ],
)
async def test_a_bad_one_is_refused(it: World, body: JSON, fault: str) -> None:
    reply = await it.request("POST", "webhooks", body)
    assert (reply.status, fault in reply.error) == (422, True), reply.error


async def test_email_goes_to_the_caller_alone(it: World) -> None:
    ada = await it.user("ada")
    body: Record = {"url": "mailto:ADA@example.org", "format": "email"}
    made = await it.ok("POST", "webhooks", body, token=ada)
    for method, path in (("POST", "webhooks"), ("PUT", f"webhooks/{made['uuid']}")):
        bad = {**body, "url": "mailto:bob@example.org"}
        reply = await it.request(method, path, bad, token=ada)
        assert (reply.status, "your own address" in reply.error) == (403, True)
    await it.ok("POST", "webhooks", {**body, "url": "mailto:bob@example.org"})


async def test_their_number_has_a_bound(it: World) -> None:
    ada = await it.user("ada")
    for _ in range(20):
        await hook(it, token=ada)
    reply = await it.request("POST", "webhooks", {"url": "https://a.example/"}, token=ada)
    assert (reply.status, "20 webhooks" in reply.error) == (422, True)


async def test_redeliver_takes_numbers(it: World) -> None:
    path = f"webhooks/{(await hook(it))['uuid']}/redeliver"
    for bad in ("all", ["1"], [-1], [True], [1] * 1001, [10**30]):
        assert (await it.request("POST", path, {"log_ids": bad})).status == 422
    assert await it.ok("POST", path, {"log_ids": [1, 2]}) == {"queued": 0}
    await it.ok("POST", path.replace("redeliver", "pause"))
    assert "resume it first" in (await it.request("POST", path)).error


async def test_a_new_secret_leaves_the_former_one_valid_for_a_while(it: World) -> None:
    made = await hook(it)
    path = f"webhooks/{made['uuid']}"
    new = await it.ok("POST", f"{path}/rotate", {"keep": 3600})
    assert new["secret"].startswith("whsec_")
    assert new["secret"] != made["secret"]
    shown = await it.ok("GET", path)
    assert shown["former_secret_until"] == new["former_secret_until"] > it.app.services.clock.now()
    async with it.database.reading() as tx:
        stored = await records.get(tx, WEBHOOKS, made["uuid"])
    assert stored is not None
    logged = await log_texts(it, made["uuid"])
    assert (stored["secret"], stored["former_secret"]) == (new["secret"], made["secret"])
    # Neither is in an answer, but the new one in this one, nor in a log row.
    assert made["secret"] not in str(new)
    for secret in (made["secret"], new["secret"]):
        assert secret not in str((shown, logged))
    last = await it.ok("POST", f"{path}/rotate", {"keep": 0})
    assert last["former_secret_until"] is None


@pytest.mark.parametrize("keep", [-1, "x", 2592001, True])
async def test_a_former_secret_is_kept_for_a_bounded_time(it: World, keep: JSON) -> None:
    made = await hook(it)
    reply = await it.request("POST", f"webhooks/{made['uuid']}/rotate", {"keep": keep})
    assert reply.status == 422


async def test_what_has_no_secret_gets_no_new_one(it: World) -> None:
    made = await it.ok("POST", "webhooks", {"url": "mailto:a@example.org", "format": "email"})
    reply = await it.request("POST", f"webhooks/{made['uuid']}/rotate")
    assert (reply.status, "not signed" in reply.error) == (422, True)


async def test_the_progress_of_several(it: World) -> None:
    ada = await it.user("ada")
    own, other = await hook(it, token=ada), await hook(it)
    asked = {"uuids": [own["uuid"], other["uuid"], "x"]}
    path = "webhooks/progress"
    found = await it.ok("GET", path, params={"uuids": json.dumps(asked["uuids"])}, token=ada)
    [item] = found["items"]
    assert (item["uuid"], item["failures"], item["dead_count"]) == (own["uuid"], 0, 0)
    both = await it.ok("GET", path, params={"uuids": json.dumps(asked["uuids"])})
    assert len(both["items"]) == 2
    for bad in ('"x"', None):
        reply = await it.request("GET", path, params={"uuids": bad} if bad else {})
        assert reply.status == 422
