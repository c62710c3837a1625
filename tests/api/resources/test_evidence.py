"""Other runs as evidence, and results that are withdrawn."""

from __future__ import annotations

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import World
from tests.api.sharing_world import group, share, uuid_of


async def _run(it: World, *, token: str | None = None, **more: JSON) -> Record:
    request = await it.submit("echo", use_existing=False, token=token, **more)
    await it.run(request["container_uuid"])
    return request


async def test_runs_of_one_recipe_are_counted(it: World) -> None:
    one = await _run(it)
    path = f"containers/{one['container_uuid']}/evidence"
    assert await it.ok("GET", path) == {
        "reproduced": 0, "of": 0, "replays": [], "elsewhere": [], "made_from_withdrawn": [],
    }  # fmt: skip
    two = await _run(it, runtime_constraints={"vcpus": 2, "ram": 1 << 30})
    found = await it.ok("GET", path)
    assert (found["reproduced"], found["of"]) == (1, 1)
    (replay,) = found["replays"]
    assert (replay["container_uuid"], replay["equal"]) == (two["container_uuid"], True)
    why = await it.ok("GET", f"container_requests/{one['uuid']}/why")
    assert why["evidence"] == found


async def test_a_container_that_waits_has_no_evidence(it: World) -> None:
    await _run(it)
    waiting = await it.submit("echo", use_existing=False)
    found = await it.ok("GET", f"containers/{waiting['container_uuid']}/evidence")
    assert (found["reproduced"], found["of"], found["replays"]) == (0, 0, [])


async def test_runs_of_others_do_not_count(it: World) -> None:
    theirs = await _run(it)
    token = await it.user("u")
    one = await _run(it, token=token, container_image=await it.ensure_image(token))
    path = f"containers/{one['container_uuid']}/evidence"
    found = await it.ok("GET", path, token=token)
    assert (found["reproduced"], found["of"], found["replays"]) == (0, 0, [])
    await share(it, await uuid_of(it, "u"), theirs["uuid"], "can_read")
    found = await it.ok("GET", path, token=token)
    assert [each["container_uuid"] for each in found["replays"]] == [theirs["container_uuid"]]


async def test_links_tell_of_replays_on_other_servers(it: World) -> None:
    one = await _run(it)
    link = {
        "link_class": "replay", "name": "reproduced", "head_uuid": one["container_uuid"],
        "properties": {"instance": "other.example"},
    }  # fmt: skip
    await it.ok("POST", "links", link)
    found = await it.ok("GET", f"containers/{one['container_uuid']}/evidence")
    (told,) = found["elsewhere"]
    assert (told["equal"], told["properties"]) == (True, {"instance": "other.example"})
    assert (found["reproduced"], found["of"]) == (0, 0)


async def test_reuse_may_ask_for_evidence(it: World) -> None:
    one = await _run(it)
    asked = await it.submit("echo", only_reproduced=True)
    assert asked["container_uuid"] != one["container_uuid"]
    await it.run(asked["container_uuid"])
    again = await it.submit("echo", only_reproduced=True)
    assert again["container_uuid"] == one["container_uuid"]


async def test_a_withdrawn_result_is_not_reused_until_it_is_restored(it: World) -> None:
    one = await _run(it)
    path = f"containers/{one['container_uuid']}"
    gone = await it.ok("POST", f"{path}/withdraw", {"reason": "bad lot"})
    assert gone["withdrawn_reason"] == "bad lot"
    other = await it.submit("echo")
    assert other["container_uuid"] != one["container_uuid"]
    decision = (await it.ok("GET", f"container_requests/{other['uuid']}/why"))["decision"]
    assert decision["candidates"][0]["reason"] == "its result was withdrawn: bad lot"
    by_hand = await it.spec("echo", container_uuid=one["container_uuid"])
    reply = await it.request("POST", "container_requests", by_hand)
    assert (reply.status, "bad lot" in reply.error) == (422, True)
    await it.ok("POST", f"{path}/restore")
    back = await it.submit("echo")
    assert back["container_uuid"] == one["container_uuid"]
    logged = await it.ok("GET", "logs", params={"filters": [["event_type", "=", "withdraw"]]})
    assert logged["items"][0]["properties"]["text"] == "bad lot"


async def test_who_may_withdraw_for_all(it: World) -> None:
    token = await it.user("u")
    one = await _run(it, token=token, container_image=await it.ensure_image(token))
    path = f"containers/{one['container_uuid']}/withdraw"
    assert (await it.request("POST", path, {"reason": "x"}, token=await it.user("v"))).status == 404
    assert (await it.request("POST", path, {}, token=token)).status == 422
    assert (await it.request("POST", path, {"reason": "x"}, token=token)).status == 200


async def _in_a_project(it: World, level: str) -> tuple[Record, str]:
    """A result of the user `u` in a project of that user, on which the user `v` has a level; the
    request, and the path of its container.
    """
    token = await it.user("u")
    project = await group(it, "p", token=token)
    await share(it, await uuid_of(it, "v"), project["uuid"], level, token=token)
    one = await _run(it, token=token, owner_uuid=project["uuid"])
    return one, f"containers/{one['container_uuid']}"


@pytest.mark.parametrize("level", ["can_read", "can_write"])
async def test_who_reads_or_reuses_a_result_does_not_withdraw_it_for_all(
    it: World, level: str
) -> None:
    # A draft that is older than the request for which the container was made.
    draft = await it.submit("echo", token=await it.user("v"), state="Uncommitted")
    one, path = await _in_a_project(it, level)
    reader = await it.user("v")
    again = await it.ok(
        "PUT", f"container_requests/{draft['uuid']}", {"state": "Committed"}, token=reader
    )
    assert again["container_uuid"] == one["container_uuid"]
    reply = await it.request("POST", f"{path}/withdraw", {"reason": "x"}, token=reader)
    assert (reply.status, "for all" in reply.error) == (403, True)
    assert (await it.ok("GET", path, token=reader))["withdrawn_at"] is None
    # Nor once the user for whom it ran has deleted the request.
    await it.ok("DELETE", f"container_requests/{one['uuid']}", token=await it.user("u"))
    reply = await it.request("POST", f"{path}/withdraw", {"reason": "x"}, token=reader)
    assert reply.status == 403


async def test_who_manages_the_first_request_withdraws_for_all(it: World) -> None:
    _, path = await _in_a_project(it, "can_manage")
    manager = await it.user("v")
    await it.ok("POST", f"{path}/withdraw", {"reason": "x"}, token=manager)


async def test_who_withdrew_restores(it: World) -> None:
    _, path = await _in_a_project(it, "can_manage")
    user, manager = await it.user("u"), await it.user("v")
    assert (await it.ok("POST", f"{path}/restore", token=manager))["withdrawn_at"] is None
    await it.ok("POST", f"{path}/withdraw", {"reason": "by the user"}, token=user)
    for method in ("restore", "withdraw"):
        reply = await it.request("POST", f"{path}/{method}", {"reason": "x"}, token=manager)
        assert reply.status == (403 if method == "restore" else 409)
    assert (await it.ok("GET", path, token=user))["withdrawn_reason"] == "by the user"
    await it.ok("POST", f"{path}/restore", token=user)
    await it.ok("POST", f"{path}/withdraw", {"reason": "by an admin"})
    assert (await it.request("POST", f"{path}/restore", token=user)).status == 403
    assert (await it.ok("POST", f"{path}/restore"))["withdrawn_at"] is None


async def test_a_result_that_is_withdrawn_for_oneself_is_used_by_others(it: World) -> None:
    one, path = await _in_a_project(it, "can_read")
    user, reader = await it.user("u"), await it.user("v")
    own: Record = {"reason": "not for me", "own": True}
    withdraw = f"{path}/withdraw"
    stranger = await it.user("w")
    assert (await it.request("POST", withdraw, {"own": True}, token=reader)).status == 422
    assert (await it.request("POST", withdraw, own, token=stranger)).status == 404
    for reason in ("first", "not for me"):
        body = {**own, "reason": reason}
        shown = await it.ok("POST", withdraw, body, token=reader)
        assert shown["withdrawn_at"] is None
    links = await it.ok("GET", "links", params={"filters": [["link_class", "=", "withdrawal"]]})
    assert [each["properties"] for each in links["items"]] == [{"reason": "not for me"}]
    fresh = await it.submit("echo", token=reader)
    assert fresh["container_uuid"] != one["container_uuid"]
    why = await it.ok("GET", f"container_requests/{fresh['uuid']}/why", token=reader)
    assert "withdrawn its result for their own" in why["decision"]["candidates"][0]["reason"]
    by_hand = await it.spec("echo", token=reader, container_uuid=one["container_uuid"])
    assert (await it.request("POST", "container_requests", by_hand, token=reader)).status == 422
    assert (await it.submit("echo", token=user))["container_uuid"] == one["container_uuid"]
    assert (await it.submit("echo"))["container_uuid"] == one["container_uuid"]
    await it.ok("POST", f"{path}/restore", {"own": True}, token=reader)
    back = await it.submit("echo", token=reader)
    assert back["container_uuid"] == one["container_uuid"]


async def test_what_was_made_from_a_withdrawn_result_is_marked(it: World) -> None:
    one = await _run(it)
    output = (await it.ok("GET", f"containers/{one['container_uuid']}"))["output"]
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        "/in": {"kind": "collection", "portable_data_hash": output},
    }
    other = await it.submit("next", mounts=mounts)
    path = f"containers/{other['container_uuid']}/evidence"
    assert (await it.ok("GET", path))["made_from_withdrawn"] == []
    await it.ok("POST", f"containers/{one['container_uuid']}/withdraw", {"reason": "bad lot"})
    assert (await it.ok("GET", path))["made_from_withdrawn"] == [
        {"container_uuid": one["container_uuid"], "reason": "bad lot"}
    ]
    # Another run has made the same, and stands.
    await _run(it)
    assert (await it.ok("GET", path))["made_from_withdrawn"] == []
