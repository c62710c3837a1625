"""Agreements that users sign."""

from __future__ import annotations

from lading.testing.world import World
from tests.api.sharing_world import share, uuid_of


async def required(it: World) -> str:
    """A collection that everybody can read and has to sign."""
    made = await it.collection({"terms.html": b"be nice"}, name="terms")
    system = (await it.ok("GET", "users/system"))["uuid"]
    body = {
        "link_class": "signature",
        "name": "require",
        "tail_uuid": system,
        "head_uuid": made["uuid"],
    }
    await it.ok("POST", "links", {**body, "owner_uuid": system})
    return str(made["uuid"])


async def test_without_agreements_there_is_nothing_to_sign(it: World) -> None:
    token = await it.user("u")
    assert (await it.ok("GET", "user_agreements", token=token))["items"] == []
    assert (await it.ok("GET", "user_agreements/signatures", token=token))["items"] == []
    assert (await it.request("GET", "user_agreements", token="")).status == 401
    for uuid, status in (("zzzzz-4zz18-000000000000009", 404), ("nonsense", 422), (None, 422)):
        reply = await it.request("POST", "user_agreements/sign", {"uuid": uuid}, token=token)
        assert reply.status == status


async def test_who_signs_has_signed(it: World) -> None:
    token, agreement = await it.user("u"), await required(it)
    found = await it.ok("GET", "user_agreements", token=token)
    assert [one["uuid"] for one in found["items"]] == [agreement]
    assert "manifest_text" not in found["items"][0]
    first = await it.ok("POST", "user_agreements/sign", {"uuid": agreement}, token=token)
    assert (first["name"], first["tail_uuid"]) == ("click", await uuid_of(it, "u"))
    assert await it.ok("POST", "user_agreements/sign", {"uuid": agreement}, token=token) == first
    for params, asking in (({}, token), ({"uuid": await uuid_of(it, "u")}, it.admin)):
        signed = await it.ok("GET", "user_agreements/signatures", token=asking, params=params)
        assert [one["head_uuid"] for one in signed["items"]] == [agreement]
    other = await it.user("other")
    asked = {"uuid": await uuid_of(it, "u")}
    assert (await it.ok("GET", "user_agreements/signatures", token=other, params=asked))[
        "items"
    ] == []


async def test_nobody_forges_an_agreement_or_a_signature(it: World) -> None:
    token = await it.user("u")
    mine = await it.collection({"x": b"x"}, token=token)
    me = await uuid_of(it, "u")
    for name in ("require", "click"):
        body = {"link_class": "signature", "name": name, "tail_uuid": me, "head_uuid": mine["uuid"]}
        await it.ok("POST", "links", body, token=token)
        system = (await it.ok("GET", "users/system"))["uuid"]
        assert (
            await it.request("POST", "links", {**body, "owner_uuid": system}, token=token)
        ).status in (403, 422)
    assert (await it.ok("GET", "user_agreements", token=token))["items"] == []
    assert (await it.ok("GET", "user_agreements/signatures", token=token))["items"] == []


async def test_an_agreement_in_the_trash_binds_nobody(it: World) -> None:
    agreement, token = await required(it), await it.user("u")
    await share(it, await uuid_of(it, "u"), agreement, "can_read")
    await it.ok("DELETE", f"collections/{agreement}")
    assert (await it.ok("GET", "user_agreements", token=token))["items"] == []
