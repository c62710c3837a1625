"""Users merged into each other."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, status, uuid_of

ROOT = "zzzzz-tpzed-000000000000000"


async def people(it: World) -> dict[str, Any]:
    """Old and new with things of their own."""
    old, new = await it.user("old"), await it.user("new")
    project = await group(it, "work", token=old)
    await it.collection({"a": b"a"}, token=old, name="same")
    await it.collection({"b": b"b"}, token=old, name="inside", owner_uuid=project["uuid"])
    await it.collection({"c": b"c"}, token=new, name="same")
    request = await it.submit("mine", token=old)
    theirs = await group(it, "theirs")
    await share(it, await uuid_of(it, "old"), theirs["uuid"], "can_write")
    await share(it, await uuid_of(it, "new"), theirs["uuid"], "can_read")
    return {
        "old": await uuid_of(it, "old"), "new": await uuid_of(it, "new"), "old_token": old,
        "new_token": new, "project": project["uuid"], "request": request, "theirs": theirs["uuid"],
    }  # fmt: skip


async def names(it: World, owner: str, token: str) -> list[str]:
    found = await it.ok(
        "GET", "collections", params={"filters": [["owner_uuid", "=", owner]]}, token=token
    )
    return sorted(one["name"] for one in found["items"] if one["name"])


async def merge(it: World, both: Record, **more: JSON) -> Record:
    body = {
        "old_user_uuid": both["old"],
        "new_user_uuid": both["new"],
        "new_owner_uuid": both["new"],
        **more,
    }
    found: Record = await it.ok("POST", "users/merge", body)
    return found


async def test_an_admin_merges_with_all_that_the_old_user_may_do(it: World) -> None:
    both = await people(it)
    gone = await merge(it, both, redirect_to_new_user=True)
    assert (gone["uuid"], gone["is_active"], gone["username"]) == (both["old"], False, None)
    assert (gone["is_admin"], gone["email"]) == (False, None)
    for token in (both["old_token"], both["new_token"]):
        assert (await it.ok("GET", "users/current", token=token))["uuid"] == both["new"]
        same, other, *_ = await names(it, both["new"], token)
        assert other.startswith("same (")
        assert same == "same"
    assert (await it.ok("GET", f"groups/{both['project']}", token=both["new_token"]))[
        "owner_uuid"
    ] == both["new"]
    assert await names(it, both["project"], both["new_token"]) == ["inside"]
    assert (
        await status(
            it, "PUT", f"groups/{both['theirs']}", {"name": "ours"}, token=both["new_token"]
        )
        == 200
    )
    container = both["request"]["container_uuid"]
    supervisor = await it.lock(container)
    await it.ok("PUT", f"containers/{container}", {"state": "Running"}, token=supervisor)
    token = await it.container_token(container)
    assert (await it.ok("GET", "users/current", token=token))["uuid"] == both["new"]
    reply = await it.request("POST", "users/merge", {
        "old_user_uuid": both["old"], "new_user_uuid": both["new"], "new_owner_uuid": both["new"],
    })  # fmt: skip
    assert (reply.status, "was merged into" in reply.error) == (422, True)


async def test_without_redirection_tokens_and_permissions_end(it: World) -> None:
    both = await people(it)
    project = await group(it, "for old", token=both["new_token"])
    left = await merge(it, both, new_owner_uuid=project["uuid"])
    assert (left["is_active"], left["username"]) == (True, "old")
    assert await status(it, "GET", "users/current", token=both["old_token"]) == 401
    assert await names(it, project["uuid"], both["new_token"]) == ["same"]
    assert (
        await status(
            it, "PUT", f"groups/{both['theirs']}", {"name": "ours"}, token=both["new_token"]
        )
        == 403
    )


async def test_a_user_merges_into_the_holder_of_another_token(it: World) -> None:
    both = await people(it)
    body = {
        "new_user_token": both["new_token"],
        "new_owner_uuid": both["new"],
        "redirect_to_new_user": "true",
    }
    gone = await it.ok("POST", "users/merge", body, token=both["old_token"])
    assert (gone["uuid"], gone["is_active"]) == (both["old"], False)
    assert (await it.ok("GET", "users/current", token=both["old_token"]))["uuid"] == both["new"]


@pytest.mark.parametrize(
    ("changes", "expected", "words"),
    [
        ({"new_owner_uuid": None}, 422, "new_owner_uuid: must be"),
        ({"new_owner_uuid": "{old}"}, 422, "cannot be the user that is merged"),
        ({"new_owner_uuid": "{project}"}, 422, "not found"),
        ({"new_owner_uuid": "{theirs}"}, 403, "you may not write"),
        ({"new_owner_uuid": ROOT}, 422, "not found"),
        ({"old_user_uuid": None}, 422, "must be given both"),
        ({"old_user_uuid": "x"}, 422, "old_user_uuid: 'x' not found"),
        ({"new_user_uuid": "{old}"}, 422, "into itself"),
        ({"old_user_uuid": ROOT}, 422, "users of the system"),
        ({"old_user_uuid": "zzzzz-tpzed-aaaaaaaaaaaaaaa"}, 422, "into an admin only"),
    ],
)
async def test_what_cannot_be_merged(
    it: World, changes: dict[str, Any], expected: int, words: str
) -> None:
    both = await people(it)
    body = {
        "old_user_uuid": both["old"],
        "new_user_uuid": both["new"],
        "new_owner_uuid": both["new"],
    }
    body |= {name: value and value.format(**both) for name, value in changes.items()}
    reply = await it.request("POST", "users/merge", body)
    assert (reply.status, words in reply.error) == (expected, True), reply.error
    assert await names(it, both["old"], both["old_token"]) == ["same"]


async def test_below_what_the_old_user_shares_is_still_the_old_users(it: World) -> None:
    both = await people(it)
    await share(it, both["new"], both["project"], "can_write")
    body = {
        "old_user_uuid": both["old"],
        "new_user_uuid": both["new"],
        "new_owner_uuid": both["project"],
    }
    assert await status(it, "POST", "users/merge", body) == 422


async def test_whose_token_merges_whom(it: World) -> None:
    both = await people(it)
    limited = await it.ok(
        "POST", "api_client_authorizations", {"scopes": ["POST /"]}, token=both["new_token"]
    )
    body = {"new_owner_uuid": both["new"], "new_user_token": limited["api_token"]}
    assert await status(it, "POST", "users/merge", body, token=both["old_token"]) == 403
    assert await status(it, "POST", "users/merge", body, token=limited["api_token"]) == 403
    assert (
        await status(
            it, "POST", "users/merge", {**body, "new_user_token": "no"}, token=both["old_token"]
        )
        == 401
    )
    assert (
        await status(
            it, "POST", "users/merge", {**body, "new_user_token": None}, token=both["old_token"]
        )
        == 422
    )
    named = {
        "old_user_uuid": both["old"],
        "new_user_uuid": both["new"],
        "new_owner_uuid": both["new"],
    }
    assert await status(it, "POST", "users/merge", named, token=both["old_token"]) == 403
