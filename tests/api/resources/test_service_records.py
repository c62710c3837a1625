"""Virtual machines, who logs in to them, and keys."""

from __future__ import annotations

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.sharing_world import uuid_of

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE0 me@here"


async def machine(it: World, hostname: str = "shell") -> Record:
    made: Record = await it.ok("POST", "virtual_machines", {"hostname": hostname})
    return made


async def allow(it: World, uuid: str, head: str, **properties: JSON) -> None:
    body = {"link_class": "permission", "name": "can_login", "tail_uuid": uuid, "head_uuid": head}
    await it.ok("POST", "links", {**body, "properties": properties})


async def test_admins_write_machines(it: World) -> None:
    made, user = await machine(it), await it.user("u")
    path = f"virtual_machines/{made['uuid']}"
    assert made["kind"] == "arvados#virtualMachine"
    assert (await it.ok("PUT", path, {"hostname": "other"}))["hostname"] == "other"
    assert (await it.request("GET", path, token=user)).status == 404
    for method, at, body in (
        ("POST", "virtual_machines", {"hostname": "x"}),
        ("PUT", path, {}),
        ("DELETE", path, None),
    ):
        assert (await it.request(method, at, body, token=user)).status == 403
    for name in ("", "a b", None, "other"):
        assert (await it.request("POST", "virtual_machines", {"hostname": name})).status in (
            409,
            422,
        )
    await it.ok("DELETE", path)
    assert (await it.ok("GET", "virtual_machines"))["items"] == []


async def test_users_see_the_machines_that_they_log_in_to(it: World) -> None:
    made, user = await machine(it), await it.user("u")
    await machine(it, "hidden")
    await allow(it, await uuid_of(it, "u"), made["uuid"], username="u")
    found = await it.ok("GET", "virtual_machines", token=user)
    assert [one["hostname"] for one in found["items"]] == ["shell"]
    assert (
        await it.request("PUT", f"virtual_machines/{made['uuid']}", {}, token=user)
    ).status == 403


async def test_logins(it: World) -> None:
    made, user = await machine(it), await it.user("u")
    uuid = await uuid_of(it, "u")
    await allow(it, uuid, made["uuid"], username="u", groups=["docker"])
    await it.user("keyless")
    await allow(it, await uuid_of(it, "keyless"), made["uuid"], username="k")
    # Without a name nobody can log in.
    await allow(it, await uuid_of(it, "nameless"), made["uuid"])
    key = await it.ok("POST", "authorized_keys", {"public_key": KEY}, token=user)
    old = {"public_key": f"{KEY}2", "expires_at": "2020-01-01T00:00:00Z"}
    await it.ok("POST", "authorized_keys", old, token=user)
    told = await it.ok("GET", f"virtual_machines/{made['uuid']}/logins")
    assert told["kind"] == "arvados#HashList"
    assert [(one["username"], one["public_key"], one["groups"]) for one in told["items"]] == [
        ("u", KEY, ["docker"]),
        ("k", None, []),
    ]
    assert told["items"][0]["authorized_key_uuid"] == key["uuid"]
    assert (await it.ok("GET", "virtual_machines/get_all_logins")) == told
    for path in (f"virtual_machines/{made['uuid']}/logins", "virtual_machines/get_all_logins"):
        assert (await it.request("GET", path, token=user)).status == 403
    await it.ok("PUT", f"users/{uuid}", {"is_active": False})
    assert [
        one["username"] for one in (await it.ok("GET", "virtual_machines/get_all_logins"))["items"]
    ] == ["k"]


async def test_keys_are_of_those_who_store_them(it: World) -> None:
    user, other = await it.user("u"), await uuid_of(it, "other")
    made = await it.ok("POST", "authorized_keys", {"public_key": KEY, "name": "laptop"}, token=user)
    path = f"authorized_keys/{made['uuid']}"
    assert made["authorized_user_uuid"] == await uuid_of(it, "u")
    assert (await it.ok("GET", path, token=user))["public_key"] == KEY
    assert (await it.ok("PUT", path, {"name": "desk"}, token=user))["name"] == "desk"
    stolen = {"public_key": f"{KEY}3", "authorized_user_uuid": other}
    assert (await it.request("POST", "authorized_keys", stolen, token=user)).status == 403
    assert (
        await it.request("PUT", path, {"authorized_user_uuid": other}, token=user)
    ).status == 403
    assert (await it.ok("POST", "authorized_keys", stolen))["authorized_user_uuid"] == other
    assert (await it.request("GET", path, token=await it.user("other"))).status == 404
    project = await it.ok("POST", "groups", {"name": "p", "group_class": "project"}, token=user)
    moved = await it.ok("PUT", path, {"owner_uuid": project["uuid"]}, token=user)
    assert moved["owner_uuid"] == project["uuid"]
    await it.ok("DELETE", path, token=user)
    assert (await it.ok("GET", "authorized_keys", token=user))["items"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"public_key": "ssh-ed25519"},
        {"public_key": f"{KEY}\nssh-rsa AAAA root"},
        {"public_key": "taken AAAA"},
        {"public_key": KEY, "authorized_user_uuid": "zzzzz-tpzed-999999999999999"},
        {"public_key": KEY, "authorized_user_uuid": "nonsense"},
    ],
)
async def test_keys_that_are_refused(it: World, body: Record) -> None:
    await it.ok("POST", "authorized_keys", {"public_key": "taken AAAA"})
    reply = await it.request("POST", "authorized_keys", body)
    assert reply.status == 422, reply.body
    assert len((await it.ok("GET", "authorized_keys"))["items"]) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("authorized_keys", {"public_key": KEY, "name": "left behind"}),
        (
            "credentials",
            {
                "name": "n",
                "credential_class": "s3",
                "external_id": "e",
                "secret": "s",
                "expires_at": "2099-01-01T00:00:00Z",
            },
        ),
    ],
)
async def test_a_container_leaves_nothing_that_lets_it_in_again(
    it: World, path: str, body: Record
) -> None:
    request = await it.submit(runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": True})
    await it.lock(request["container_uuid"])
    own = await it.container_token(request["container_uuid"])
    made = await it.ok("POST", path, body)
    for method, place in (("POST", path), ("PUT", f"{path}/{made['uuid']}")):
        reply = await it.request(method, place, {**body, "name": "other"}, token=own)
        assert (reply.status, "would outlive it" in reply.error) == (403, True)
