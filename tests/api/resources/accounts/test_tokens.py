"""Tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.api.events import timers
from lading.api.server.upkeep import UPKEEP
from lading.core.policy.device_logins import digest_of
from lading.core.records.schema import JSON
from lading.testing.world import WITH_API, World, world
from tests.api.stored_logs import log_texts

PATH = "api_client_authorizations"


async def test_the_secret_is_shown_once(it: World) -> None:
    made = await it.ok("POST", PATH, {"scopes": ["GET /arvados/v1/users/current"]})
    assert len(made["api_token"]) == 50
    again = await it.ok("GET", f"{PATH}/{made['uuid']}")
    assert "api_token" not in again
    assert "secret_hash" not in again
    listed = await it.ok("GET", PATH)
    assert made["api_token"] not in str(listed)
    logged = str(await log_texts(it))
    assert made["uuid"] in logged
    assert made["api_token"] not in logged


async def test_current(it: World) -> None:
    current = await it.ok("GET", f"{PATH}/current")
    assert it.admin.endswith(current["api_token"])
    root = await it.ok("GET", f"{PATH}/current", token="s" * 50)
    assert root["uuid"] == "zzzzz-gj3su-000000000000000"
    assert "api_token" not in await it.ok("GET", f"{PATH}/current", params={"remote": "x"})
    narrow = await it.ok("POST", PATH, {"scopes": []})
    assert (await it.ok("GET", f"{PATH}/current", token=narrow["api_token"]))["scopes"] == []


async def test_they_are_found_by_their_scopes(it: World) -> None:
    scopes = [
        f"GET /arvados/v1/{path}"
        for path in ("collections/x", "collections/x/", "keep_services/accessible")
    ]
    made = await it.ok("POST", PATH, {"scopes": scopes})
    await it.ok("POST", PATH, {"scopes": scopes[:2]})
    found = await it.ok("GET", PATH, params={"filters": [["scopes", "=", scopes]]})
    assert [one["uuid"] for one in found["items"]] == [made["uuid"]]


async def test_users_make_tokens_for_themselves(it: World) -> None:
    token = await it.user("u")
    mine = await it.ok("POST", PATH, {}, token=token)
    other = (await it.ok("GET", "users/current"))["uuid"]
    assert (await it.request("POST", PATH, {"owner_uuid": other}, token=token)).status == 403
    assert (await it.request("POST", f"{PATH}/create_system_auth", token=token)).status == 403
    assert len((await it.ok("GET", PATH, token=token))["items"]) == 2
    assert (
        await it.request("PUT", f"{PATH}/{mine['uuid']}", {"owner_uuid": other}, token=token)
    ).status == 422
    await it.ok("DELETE", f"{PATH}/{mine['uuid']}", token=token)
    assert (await it.request("GET", "users/current", token=mine["api_token"])).status == 401


async def test_a_caller_may_keep_the_secret_to_itself(it: World) -> None:
    secret = "s" * 60
    params: dict[str, JSON] = {"secret_digest": digest_of(secret)}
    token = await it.ok("POST", "api_client_authorizations", {}, params=params)
    assert "api_token" not in token
    for form in (secret, f"v2/{token['uuid']}/{secret}"):
        current = await it.ok("GET", "api_client_authorizations/current", token=form)
        assert current["uuid"] == token["uuid"]
    # Found by its digest, a secret of two users would be that of either.
    again = await it.request("POST", "api_client_authorizations", {}, params=params)
    assert again.status == 409
    for digest in ("x", "x" * 64, digest_of(secret).upper(), 7):
        params = {"secret_digest": digest}
        refused = await it.request("POST", "api_client_authorizations", {}, params=params)
        assert refused.status == 422, digest


async def test_system_tokens(it: World) -> None:
    made = await it.ok("POST", f"{PATH}/create_system_auth", {"scopes": ["GET /"]})
    assert (made["owner_uuid"], made["scopes"]) == ("zzzzz-tpzed-000000000000000", ["GET /"])
    scopes = ["GET /arvados/v1/users/current"]
    sent = {"api_client_authorization": {"scopes": scopes}}
    assert (await it.ok("POST", f"{PATH}/create_system_auth", sent))["scopes"] == scopes
    named = {"scopes": scopes}
    assert (await it.ok("POST", f"{PATH}/create_system_auth", params=named))["scopes"] == scopes
    assert (await it.ok("POST", f"{PATH}/create_system_auth"))["scopes"] == ["all"]


@pytest.mark.parametrize("scopes", ["all", [5], ["nonsense"], ["GET"], {"a": 1}])
async def test_bad_scopes(it: World, scopes: JSON) -> None:
    reply = await it.request("POST", PATH, {"scopes": scopes})
    assert (reply.status, "scopes" in reply.error) == (422, True)


async def test_no_token_makes_itself_stronger(it: World) -> None:
    scopes = [f"POST /arvados/v1/{PATH}", f"PUT /arvados/v1/{PATH}/"]
    weak = await it.ok("POST", PATH, {"scopes": scopes})
    for body in ({}, {"scopes": ["all"]}):
        assert (await it.request("POST", PATH, body, token=weak["api_token"])).status == 403
    path = f"{PATH}/{weak['uuid']}"
    assert (
        await it.request("PUT", path, {"scopes": ["all"]}, token=weak["api_token"])
    ).status == 403
    assert (await it.ok("POST", PATH, {"scopes": scopes[:1]}, token=weak["api_token"]))[
        "scopes"
    ] == scopes[:1]


async def test_the_longest_life(tmp_path: Path) -> None:
    async with world(tmp_path, API={"MaxTokenLifetime": 60}) as it:
        made = await it.ok("POST", PATH, {"expires_at": "2030-01-01"}, token=await it.user("u"))
        assert made["expires_at"].startswith("2026-01-02T03:05")
        assert (await it.ok("POST", PATH, {}))["expires_at"] is None
        path = f"{PATH}/{made['uuid']}"
        changed = await it.ok("PUT", path, {"expires_at": None}, token=await it.user("u"))
        assert made["expires_at"] < changed["expires_at"] < "2026-01-02T03:06"
        sooner = await it.ok(
            "PUT", path, {"expires_at": "2026-01-02T03:04:30"}, token=await it.user("u")
        )
        assert sooner["expires_at"].startswith("2026-01-02T03:04:30")


async def test_the_last_use_is_written_down_by_the_sweep(it: World) -> None:
    user = await it.user("u")
    uuid = user.split("/")[1]
    await it.ok("GET", "users/current", token=user)
    assert (await it.ok("GET", f"{PATH}/{uuid}"))["last_used_at"] is None
    await timers.sweep(it.app.services)
    seen = await it.ok("GET", f"{PATH}/{uuid}")
    assert seen["last_used_at"] > seen["created_at"]
    assert seen["last_used_by_ip_address"] == "127.0.0.1"
    assert it.app.services.features[UPKEEP].take().keys() == {it.admin.split("/")[1]}


async def test_reader_tokens_are_for_reading(it: World) -> None:
    user = await it.user("u")
    uuid = (await it.ok("GET", "users/current", token=user))["uuid"]
    read = {"reader_tokens": [user]}
    assert (await it.ok("GET", "users/current", token="", params=read))["uuid"] == uuid
    assert (await it.request("POST", "collections", {}, token="", params=read)).status == 401
    assert (
        await it.request("GET", "users/current", token="", params={"reader_tokens": [5]})
    ).status == 401
    assert (await it.ok("GET", "users/current", params=read))["is_admin"]


async def test_several_reader_tokens_read_what_any_of_them_may(it: World) -> None:
    one, two, three = [await it.user(name) for name in "abc"]
    hers = (await it.collection({"f": b"1"}, token=one, name="hers"))["uuid"]
    his = (await it.collection({"f": b"2"}, token=two, name="his"))["uuid"]

    async def seen(token: str, readers: JSON, **more: JSON) -> set[str]:
        params = {"reader_tokens": readers, "select": ["uuid"], **more}
        found = await it.ok("GET", "collections", token=token, params=params)
        return {row["uuid"] for row in found["items"]} & {hers, his}

    assert await seen(three, [one, two]) == {hers, his}
    assert await seen(three, [one, "unknown", 5, None]) == {hers}
    assert await seen("", [one, two]) == {hers, his}
    assert await seen(one, two) == {hers, his}
    assert await seen(three, [it.admin], include_trash=True) == {hers, his}
    assert await seen(three, []) == set()
    params = {"reader_tokens": [one]}
    assert (await it.request("GET", f"collections/{hers}", token=two, params=params)).status == 200
    assert (
        await it.request("GET", f"collections/{hers}", token=two, params={"reader_tokens": [three]})
    ).status == 404
    for method, body in (("PUT", {"name": "mine"}), ("DELETE", None)):
        reply = await it.request(method, f"collections/{hers}", body, token=two, params=params)
        assert reply.status == 404
    limited = await it.ok(
        "POST", "api_client_authorizations", {"scopes": ["GET /arvados/v1/users"]}, token=one
    )
    params = {"reader_tokens": [limited["api_token"]]}
    assert (await it.request("GET", f"collections/{hers}", token=two, params=params)).status == 404


async def test_a_containers_token_makes_and_changes_none(it: World) -> None:
    request = await it.submit(runtime_constraints=WITH_API)
    await it.lock(request["container_uuid"])
    own = await it.container_token(request["container_uuid"])
    made = await it.request("POST", PATH, {"scopes": ["all"]}, token=own)
    assert (made.status, "would outlive it" in made.error) == (403, True)
    current = await it.ok("GET", f"{PATH}/current", token=own)
    changed = await it.request(
        "PUT", f"{PATH}/{current['uuid']}", {"expires_at": "2099-01-01T00:00:00Z"}, token=own
    )
    assert changed.status == 403
