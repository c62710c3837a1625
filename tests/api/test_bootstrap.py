"""The first records."""

from __future__ import annotations

from lading.api.bootstrap import FirstTokens
from lading.core.records.record_types import USERS
from lading.store import records
from lading.testing.world import World


async def test_it_can_be_repeated(it: World) -> None:
    changed = FirstTokens(
        admin_uuid="zzzzz-tpzed-aaaaaaaaaaaaaaa",
        admin_token_uuid="zzzzz-gj3su-aaaaaaaaaaaaaaa",
        admin_secret="other",
        dispatch_token_uuid="zzzzz-gj3su-ddddddddddddddd",
        dispatch_secret="other",
    )
    assert "other" not in repr(changed)
    await it.app.bootstrap(changed)
    assert (await it.ok("GET", "users/current"))["username"] == "admin"
    current = await it.ok("GET", "api_client_authorizations/current", token=it.dispatcher)
    assert current["owner_uuid"] == "zzzzz-tpzed-000000000000000"
    assert (await it.ok("GET", "users"))["items_available"] == 3


async def test_the_dispatcher_may_dispatch_and_nothing_else(it: World) -> None:
    made = await it.submit("true")
    path = f"containers/{made['container_uuid']}"
    allowed = [
        ("GET", "containers"),
        ("GET", path),
        ("POST", f"{path}/lock"),
        ("POST", f"{path}/unlock"),
        ("PUT", path),
        ("GET", "api_client_authorizations/current"),
    ]
    for method, one in allowed:
        await it.ok(method, one, token=it.dispatcher)
    await it.ok("POST", "dispatch/statuses", {"items": {}}, token=it.dispatcher)
    # Rows of a run are taken from who holds the container.
    await it.ok("POST", f"{path}/lock", token=it.dispatcher)
    await it.ok(
        "POST",
        "logs",
        {"object_uuid": made["container_uuid"], "event_type": "stderr"},
        token=it.dispatcher,
    )
    for plural in (
        "collections",
        "users",
        "container_requests",
        "links",
        "logs",
        "api_client_authorizations",
    ):
        assert (await it.request("GET", plural, token=it.dispatcher)).status == 403
        assert (
            await it.request("GET", f"{plural}/{made['uuid']}", token=it.dispatcher)
        ).status == 403
    for plural in (
        "collections",
        "users",
        "container_requests",
        "api_client_authorizations",
        "containers",
    ):
        assert (await it.request("POST", plural, {}, token=it.dispatcher)).status == 403
    assert (await it.request("DELETE", path, token=it.dispatcher)).status == 403


async def test_the_dispatchers_token_of_an_earlier_release_is_restricted(it: World) -> None:
    uuid = it.dispatcher.split("/")[1]
    await it.ok("PUT", f"api_client_authorizations/{uuid}", {"scopes": ["all"]})
    assert (await it.request("GET", "users", token=it.dispatcher)).status == 200
    first = FirstTokens(
        admin_uuid="zzzzz-tpzed-aaaaaaaaaaaaaaa",
        admin_token_uuid="zzzzz-gj3su-aaaaaaaaaaaaaaa",
        admin_secret="a" * 50,
        dispatch_token_uuid=uuid,
        dispatch_secret="d" * 50,
    )
    await it.app.bootstrap(first)
    assert (await it.request("GET", "users", token=it.dispatcher)).status == 403
    rows = (await it.ok("GET", "logs", params={"filters": [["object_uuid", "=", uuid]]}))["items"]
    await it.app.bootstrap(first)
    again = (await it.ok("GET", "logs", params={"filters": [["object_uuid", "=", uuid]]}))["items"]
    assert len(again) == len(rows)


FIRST = FirstTokens(
    admin_uuid="zzzzz-tpzed-aaaaaaaaaaaaaaa",
    admin_token_uuid="zzzzz-gj3su-aaaaaaaaaaaaaaa",
    admin_secret="a" * 50,
    dispatch_token_uuid="zzzzz-gj3su-ddddddddddddddd",
    dispatch_secret="d" * 50,
)


async def test_users_from_before_there_were_permissions(it: World) -> None:
    token = await it.user("u")
    async with it.database.writing() as tx:
        for table in ("memberships", "grants", "links", "groups", "collections"):
            await tx.execute(f"DELETE FROM {table}")
        await records.insert(
            tx,
            USERS,
            {
                "uuid": "zzzzz-tpzed-00000000000idle",
                "is_active": False,
                "owner_uuid": "x",
                "modified_at": "m",
            },
        )
    await it.app.bootstrap(FIRST)
    made = await it.ok("POST", "groups", {"group_class": "project"}, token=token)
    assert made["can_manage"]
    assert (await it.ok("GET", f"users/{made['owner_uuid']}", token=await it.user("v")))[
        "username"
    ] == "u"
    assert not (await it.ok("GET", "users/zzzzz-tpzed-00000000000idle"))["is_invited"]


async def test_the_empty_collection_is_for_everybody(it: World) -> None:
    found = await it.ok(
        "GET", "collections/d41d8cd98f00b204e9800998ecf8427e+0", token=await it.user("u")
    )
    assert found["manifest_text"] == ""


async def test_what_an_admin_took_away_stays_away(it: World) -> None:
    params = {"filters": [["tail_uuid", "=", "zzzzz-j7d0g-fffffffffffffff"]]}
    for link in (await it.ok("GET", "links", params=params))["items"]:
        await it.ok("DELETE", f"links/{link['uuid']}")
    await it.app.bootstrap(FIRST)
    assert (await it.ok("GET", "links", params=params))["items"] == []


async def test_the_first_admin_is_seen_as_any_active_user_is(it: World) -> None:
    token = await it.user("u")
    shown = await it.ok("GET", f"users/{it.cluster}-tpzed-aaaaaaaaaaaaaaa", token=token)
    assert (shown["username"], shown["is_active"]) == ("admin", True)
    assert (
        await it.request("GET", f"users/{it.cluster}-tpzed-000000000000000", token=token)
    ).status == 404


async def test_what_an_admin_takes_away_stays_away(it: World) -> None:
    everybody = f"{it.cluster}-j7d0g-fffffffffffffff"
    filters = [["tail_uuid", "=", everybody], ["head_uuid", "like", "%-tpzed-%"]]
    found = await it.ok("GET", "links", params={"filters": filters})
    for link in found["items"]:
        await it.ok("DELETE", f"links/{link['uuid']}")
    await it.app.bootstrap(
        FirstTokens(
            admin_uuid="zzzzz-tpzed-aaaaaaaaaaaaaaa",
            admin_token_uuid="zzzzz-gj3su-aaaaaaaaaaaaaaa",
            admin_secret="a",
            dispatch_token_uuid="zzzzz-gj3su-ddddddddddddddd",
            dispatch_secret="d",
        )
    )
    assert len(found["items"]) == 1
    assert (await it.ok("GET", "links", params={"filters": filters}))["items"] == []
