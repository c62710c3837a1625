"""Other runs as evidence, and results that are withdrawn."""

from __future__ import annotations

from lading.core.records.schema import JSON, Record
from lading.testing.world import World


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


async def test_runs_of_others_are_counted_without_their_uuids(it: World) -> None:
    await _run(it)
    token = await it.user("u")
    one = await _run(it, token=token, container_image=await it.ensure_image(token))
    found = await it.ok("GET", f"containers/{one['container_uuid']}/evidence", token=token)
    assert [each["container_uuid"] for each in found["replays"]] == [None]


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


async def test_who_may_withdraw(it: World) -> None:
    token = await it.user("u")
    one = await _run(it, token=token, container_image=await it.ensure_image(token))
    path = f"containers/{one['container_uuid']}/withdraw"
    assert (await it.request("POST", path, {"reason": "x"}, token=await it.user("v"))).status == 404
    assert (await it.request("POST", path, {}, token=token)).status == 422
    assert (await it.request("POST", path, {"reason": "x"}, token=token)).status == 200


async def test_who_reads_may_not_withdraw(it: World) -> None:
    reader = await it.user("v")
    me = (await it.ok("GET", "users/current", token=reader))["uuid"]
    project = await it.ok("POST", "groups", {"name": "p", "group_class": "project"})
    link = {
        "link_class": "permission", "name": "can_read", "tail_uuid": me,
        "head_uuid": project["uuid"],
    }  # fmt: skip
    await it.ok("POST", "links", link)
    one = await _run(it, owner_uuid=project["uuid"])
    path = f"containers/{one['container_uuid']}"
    reply = await it.request("POST", f"{path}/withdraw", {"reason": "x"}, token=reader)
    assert (reply.status, "may not change" in reply.error) == (403, True)
    assert (await it.ok("GET", path, token=reader))["withdrawn_at"] is None


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
