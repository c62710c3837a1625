"""Credentials: who is told the secret, and who is not."""

from __future__ import annotations

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import WITH_API, World
from tests.api.stored_logs import log_texts

BODY: Record = {
    "name": "bucket",
    "credential_class": "aws_access_key",
    "scopes": ["s3://bucket"],
    "external_id": "AKIA",
    "secret": "shh, do not tell",
    "expires_at": "2027-01-01T00:00:00Z",
}


async def running(it: World, token: str) -> str:
    """The token of a running container of a user."""
    made = await it.submit(token=token, runtime_constraints=WITH_API)
    supervisor = await it.lock(made["container_uuid"])
    await it.ok(
        "PUT", f"containers/{made['container_uuid']}", {"state": "Running"}, token=supervisor
    )
    return await it.container_token(made["container_uuid"])


async def test_a_running_container_is_told(it: World) -> None:
    user = await it.user("u")
    made = await it.ok("POST", "credentials", BODY, token=user)
    assert "secret" not in made
    container = await running(it, user)
    told = await it.ok("GET", f"credentials/{made['uuid']}/secret", token=container)
    assert told == {"external_id": "AKIA", "secret": "shh, do not tell"}
    rows = await it.ok("GET", "logs", params={"filters": [["event_type", "=", "secret_access"]]})
    assert [one["object_uuid"] for one in rows["items"]] == [made["uuid"]]


async def test_nobody_else_is_told(it: World) -> None:
    user = await it.user("u")
    made = await it.ok("POST", "credentials", BODY, token=user)
    path = f"credentials/{made['uuid']}/secret"
    for token in (user, it.admin):
        reply = await it.request("GET", path, token=token)
        assert (reply.status, "not associated with a running container" in reply.error) == (
            403,
            True,
        )
    stranger = await running(it, await it.user("other"))
    assert (await it.request("GET", path, token=stranger)).status == 404


async def test_an_expired_secret_is_not_told(it: World) -> None:
    user = await it.user("u")
    made = await it.ok(
        "POST", "credentials", {**BODY, "expires_at": "2026-01-02T03:04:06Z"}, token=user
    )
    container = await running(it, user)
    it.clock.advance(5)
    reply = await it.request("GET", f"credentials/{made['uuid']}/secret", token=container)
    assert (reply.status, "has expired" in reply.error) == (403, True)


async def test_the_secret_is_nowhere_in_clear(it: World) -> None:
    made = await it.ok("POST", "credentials", BODY)
    await it.ok("PUT", f"credentials/{made['uuid']}", {"secret": "another, do not tell"})
    await it.ok("DELETE", f"credentials/{made['uuid']}")
    logged = await log_texts(it, made["uuid"])
    assert len(logged) == 3
    assert "do not tell" not in str(logged)
    again = await it.ok("POST", "credentials", BODY)
    async with it.database.reading() as tx:
        ((stored,),) = await tx.fetch(
            "SELECT secret FROM credentials WHERE uuid = ?", (again["uuid"],)
        )
    assert str(stored).startswith("sealed1:")
    reply = await it.request("GET", "credentials", params={"filters": [["secret", "=", "x"]]})
    assert reply.status == 422


async def test_owner_and_names(it: World) -> None:
    user = await it.user("u")
    made = await it.ok("POST", "credentials", BODY, token=user)
    assert made["owner_uuid"].endswith("-tpzed-000000000000000")
    assert (await it.ok("GET", "credentials", token=user))["items_available"] == 1
    assert (
        await it.request("GET", f"credentials/{made['uuid']}", token=await it.user("other"))
    ).status == 404
    assert (await it.ok("PUT", f"credentials/{made['uuid']}", {"description": "d"}, token=user))[
        "description"
    ] == "d"
    reply = await it.request("POST", "credentials", BODY)
    assert (reply.status, "duplicate key value" in reply.error) == (422, True)
    other = await it.ok("POST", "credentials", BODY, params={"ensure_unique_name": True})
    assert other["name"] == f"bucket ({other['uuid'][-15:]})"
    by_system = await it.ok(
        "POST", "credentials", {**BODY, "name": "s"}, token=it.config.SystemRootToken
    )
    assert (await it.ok("GET", f"credentials/{by_system['uuid']}"))["name"] == "s"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "Name can't be blank"),
        ({"credential_class": None}, "Credential class can't be blank"),
        ({"external_id": ""}, "External id can't be blank"),
        ({"secret": ""}, "Secret can't be blank"),
        ({"secret": {"a": 1}}, "secret: must be a string"),
        ({"expires_at": None}, "Expires at can't be blank"),
        ({"expires_at": "soon"}, "is not a timestamp"),
        ({"scopes": [1]}, "scopes: must be an array of strings"),
    ],
)
async def test_faults(it: World, change: JSON, words: str) -> None:
    reply = await it.request("POST", "credentials", {**BODY, **change})
    assert (reply.status, words in reply.error) == (422, True), reply.error


async def test_who_changes_the_credential_of_another_sets_its_secret(it: World) -> None:
    mallory, alice = await it.user("mallory"), await it.user("alice")
    made = await it.ok("POST", "credentials", BODY, token=mallory)
    path = f"credentials/{made['uuid']}"
    for token in (alice, it.admin):
        link = {"link_class": "permission", "name": "can_write", "head_uuid": made["uuid"]}
        user = (await it.ok("GET", "users/current", token=token))["uuid"]
        await it.ok("POST", "links", {**link, "tail_uuid": user}, token=mallory)
        for change in ({"name": "mine"}, {"description": "x"}, {"scopes": ["s3://other"]}):
            reply = await it.request("PUT", path, change, token=token)
            assert (reply.status, "gives the secret again" in reply.error) == (403, True)
        # What changes nothing sets nothing.
        await it.ok("PUT", path, {"name": made["name"]}, token=token)
    seen = await it.ok("GET", path, token=mallory)
    assert seen["modified_by_user_uuid"] == made["modified_by_user_uuid"]
    await it.ok("PUT", path, {"name": "hers", "secret": "another"}, token=alice)
    await it.ok("PUT", path, {"description": "hers"}, token=alice)
    assert (await it.request("PUT", path, {"name": "his"}, token=mallory)).status == 403
