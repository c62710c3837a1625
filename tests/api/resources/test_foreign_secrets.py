"""Secrets that one user gave, and other users who can read or write the request."""

from __future__ import annotations

import pytest

from lading.core.records.container_types import REQUESTS
from lading.core.records.schema import JSON, Record
from lading.store import records
from lading.testing.world import World
from tests.api.sharing_world import group, share, uuid_of

PIN: JSON = {"/run/pin": {"kind": "text", "content": "4711"}}


async def _shared(it: World, level: str) -> tuple[str, str, str]:
    """Tokens of two users, and a project of the first that the second has access to."""
    ann, ben = await it.user("ann"), await it.user("ben")
    project = await group(it, "shared", token=ann)
    await share(it, await uuid_of(it, "ben"), project["uuid"], level, token=ann)
    return ann, ben, str(project["uuid"])


async def _stored(it: World, request: Record) -> Record:
    async with it.database.reading() as tx:
        row = await records.get(tx, REQUESTS, request["uuid"])
    assert row is not None
    return row


async def test_a_draft_that_another_user_changes_loses_its_secrets(it: World) -> None:
    ann, ben, project = await _shared(it, "can_write")
    spec = await it.spec("true", token=ann, owner_uuid=project, state="Uncommitted")
    draft = await it.ok(
        "POST",
        "container_requests",
        {"container_request": {**spec, "secret_mounts": PIN, "runtime_token": ann}},
        token=ann,
    )
    path = f"container_requests/{draft['uuid']}"
    await it.ok("PUT", path, {"name": "mine still"}, token=ann)
    assert (await _stored(it, draft))["secret_mounts"] == PIN
    # The image is readable for both.
    await it.ensure_image(ben)
    changes: JSON = {"command": ["cat", "/run/pin"], "state": "Committed", "priority": 1}
    request = await it.ok("PUT", path, changes, token=ben)
    stored = await _stored(it, draft)
    assert (stored["secret_mounts"], stored["runtime_token"]) == ({}, None)
    assert request["secrets_needed"] == []


@pytest.mark.parametrize("guess", ["4711", "4712"])
async def test_a_guess_of_a_secret_is_neither_confirmed_nor_refuted(it: World, guess: str) -> None:
    ann, ben, project = await _shared(it, "can_read")
    theirs = await it.submit("true", token=ann, owner_uuid=project, secret_mounts=PIN)
    await it.run(theirs["container_uuid"])
    mounts: JSON = {"/run/pin": {"kind": "text", "content": guess}}
    spec = await it.spec("true", token=ben, secret_mounts=mounts)
    preview = await it.ok("POST", "container_requests/preview", spec, token=ben)
    assert (preview["candidates"], preview["reason"]) == ([], "the same was never asked for before")
    request = await it.submit("true", token=ben, secret_mounts=mounts)
    await it.run(request["container_uuid"])
    for container in (request["container_uuid"], theirs["container_uuid"]):
        evidence = await it.ok("GET", f"containers/{container}/evidence", token=ben)
        assert evidence["replays"] == []
    reply = await it.request(
        "POST",
        "container_requests",
        {"container_request": {**spec, "container_uuid": theirs["container_uuid"]}},
        token=ben,
    )
    assert (reply.status, "secret_mounts" in reply.error) == (422, False)
