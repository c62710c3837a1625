"""`If-Match`: a change of a record that somebody else has changed meanwhile is refused, for every
type of records.
"""

from __future__ import annotations

import asyncio

import pytest

from lading.api.routes import actions
from lading.core.records.schema import JSON, Record, Scope
from lading.testing.world import World

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl a@b"
MADE: dict[str, Record] = {
    "api_client_authorizations": {},
    "authorized_keys": {"public_key": KEY, "key_type": "SSH"},
    "collections": {"name": "a"},
    "container_requests": {},
    "containers": {},
    "credentials": {
        "name": "a",
        "credential_class": "basic",
        "external_id": "b",
        "secret": "c",
        "expires_at": "2099-01-01T00:00:00Z",
    },
    "groups": {"name": "a", "group_class": "project"},
    "links": {"link_class": "tag", "name": "a"},
    "quotas": {"containers": 5},
    "repositories": {"name": "admin/a", "fetch_url": "https://example.org/a.git"},
    "users": {"username": "ann"},
    "virtual_machines": {"hostname": "a.example.org"},
    "webhooks": {"url": "https://example.org/a"},
    "workflows": {"name": "a", "definition": ""},
}
CHANGES: dict[str, Record] = {
    "api_client_authorizations": {"scopes": ["GET /"]},
    "authorized_keys": {"name": "b"},
    "containers": {"priority": 5},
    "credentials": {"description": "b"},
    "links": {"name": "b"},
    "quotas": {"containers": 6},
    "repositories": {"fetch_url": "https://example.org/b.git"},
    "users": {"first_name": "b"},
    "virtual_machines": {"hostname": "b.example.org"},
    "webhooks": {"url": "https://example.org/b"},
}
REPORTS = {"finish", "live", "progress"}
"""Actions of a container by which its supervisor alone reports, whatever the record is."""
UPDATED = sorted({kind.plural for kind, action in actions() if action.name == "update"})
DELETED = {kind.plural for kind, action in actions() if action.name == "delete"}


async def made(it: World, plural: str) -> Record:
    """A record of this type."""
    body = dict(MADE[plural])
    if plural == "containers":
        found: Record = await it.ok("GET", f"containers/{(await it.submit())['container_uuid']}")
        return found
    if plural == "container_requests":
        body = await it.spec(state="Uncommitted")
    if plural in ("links", "quotas", "webhooks"):
        user = (await it.ok("GET", "users/current"))["uuid"]
        name = {"links": "head_uuid", "quotas": "subject_uuid", "webhooks": "owner_uuid"}[plural]
        body[name] = user
    record: Record = await it.ok("POST", plural, body)
    return record


async def ask(it: World, method: str, path: str, etag: str, body: JSON = None) -> int:
    """The status of a call with `If-Match`."""
    return (await it.request(method, path, body, headers={"if-match": etag})).status


@pytest.mark.parametrize("plural", UPDATED)
async def test_a_stale_etag_is_refused(it: World, plural: str) -> None:
    first = await made(it, plural)
    path, change = f"{plural}/{first['uuid']}", CHANGES.get(plural, {"name": "b"})
    assert await ask(it, "PUT", path, '"another"', change) == 412
    assert (await it.ok("GET", path))["etag"] == first["etag"]
    assert await ask(it, "PUT", path, f'"x", "{first["etag"]}"', change) == 200
    second = await it.ok("GET", path)
    assert second["etag"] != first["etag"]
    # Also a change of nothing.
    assert await ask(it, "PUT", path, first["etag"], change) == 412
    assert await ask(it, "PATCH", path, first["etag"], change) == 412
    if plural in DELETED:
        assert await ask(it, "DELETE", path, first["etag"]) == 412
        assert (await it.ok("GET", path))["etag"] == second["etag"]
        expected = 422 if plural == "containers" else 200
        assert await ask(it, "DELETE", path, second["etag"]) == expected
    assert await ask(it, "PUT", f"{path[:-1]}x", first["etag"], change) == 404


async def test_of_writers_with_one_etag_one_succeeds(it: World) -> None:
    """Processes with one token, each with the intent to lock what it has read."""
    uuid = (await it.submit())["container_uuid"]
    path = f"containers/{uuid}"
    etag = (await it.ok("GET", path))["etag"]
    replies = await asyncio.gather(
        *(
            it.request(
                "PUT",
                path,
                {"state": "Locked"},
                token=it.dispatcher,
                headers={"if-match": etag},
            )
            for _ in range(6)
        )
    )
    statuses = sorted(one.status for one in replies)
    assert statuses[0] == 200
    assert set(statuses[1:]) <= {409, 412}
    assert (await it.ok("GET", path))["lock_count"] == 1


@pytest.mark.parametrize("action", ["lock", "unlock"])
async def test_a_stale_etag_locks_nothing(it: World, action: str) -> None:
    uuid = (await it.submit())["container_uuid"]
    path, state = f"containers/{uuid}", "Queued"
    if action == "unlock":
        await it.lock(uuid)
        state = "Locked"
    reply = await it.request(
        "POST", f"{path}/{action}", token=it.dispatcher, headers={"if-match": '"another"'}
    )
    assert (reply.status, (await it.ok("GET", path))["state"]) == (412, state)


async def test_a_stale_etag_cancels_no_request(it: World) -> None:
    request = await it.submit()
    path = f"container_requests/{request['uuid']}"
    await it.ok("PUT", path, {"name": "b"})
    assert await ask(it, "POST", f"{path}/cancel", request["etag"]) == 412
    assert (await it.ok("GET", path))["priority"] == 1


ACTIONS = sorted(
    (kind.plural, action.path)
    for kind, action in actions()
    if action.scope is Scope.MEMBER and action.method == "POST" and action.path not in REPORTS
)


@pytest.mark.parametrize(("plural", "action"), ACTIONS)
async def test_a_stale_etag_is_refused_by_every_action(it: World, plural: str, action: str) -> None:
    record = await made(it, plural)
    path = f"{plural}/{record['uuid']}"
    assert await ask(it, "POST", f"{path}/{action}", '"another"', {}) == 412
    assert (await it.ok("GET", path))["etag"] == record["etag"]


async def test_a_stale_etag_sets_no_user_up(it: World) -> None:
    user = await made(it, "users")
    assert await ask(it, "POST", "users/setup", '"another"', {"uuid": user["uuid"]}) == 412
    assert await ask(it, "POST", "users/setup", user["etag"], {"uuid": user["uuid"]}) == 200
