"""Whose containers stand for a request, and which of them are described to whom."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import WITH_API, World
from tests.api.sharing_world import group, share, uuid_of

CANARY = "hunter2-of-somebody-else"


async def _shared(it: World, *readers: str) -> str:
    """A project of the user `owner` that others can read."""
    token = await it.user("owner")
    project = await group(it, "shared", token=token)
    for name in readers:
        await share(it, await uuid_of(it, name), project["uuid"], "can_read", token=token)
    return str(project["uuid"])


async def _share_content(it: World, pdh: str, reader: str) -> None:
    """Let a user read the collections of the user `owner` with a content."""
    token = await it.user("owner")
    params: Record = {"filters": [["portable_data_hash", "=", pdh]]}
    for one in (await it.ok("GET", "collections", params=params, token=token))["items"]:
        await share(it, await uuid_of(it, reader), one["uuid"], "can_read", token=token)


async def _why(it: World, request: Record, token: str) -> Record:
    path = f"container_requests/{request['uuid']}/why"
    return dict((await it.ok("GET", path, token=token))["decision"])


async def _preview(it: World, token: str, **more: Any) -> Record:
    spec = await it.spec("work", token=token, **more)
    return dict(await it.ok("POST", "container_requests/preview", spec, token=token))


async def test_a_private_result_of_another_user_is_neither_used_nor_described(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    first = await it.submit("work", token=owner)
    await it.run(first["container_uuid"])
    output = (await it.ok("GET", f"containers/{first['container_uuid']}"))["output"]
    shown = await _preview(it, other)
    second = await it.submit("work", token=other)
    assert second["container_uuid"] != first["container_uuid"]
    decision = await _why(it, second, other)
    for said in (shown, decision):
        assert (said["decision"], said["candidates"]) == ("new", [])
        assert said["reason"] == "the same was never asked for before"
        assert "A container of another user is used only if" in said["rule"]
        assert first["container_uuid"] not in str(said)
        assert output not in str(said)
    # The user itself uses it, and so does an administrator.
    assert (await it.submit("work", token=owner))["container_uuid"] == first["container_uuid"]
    assert (await it.submit("work"))["container_uuid"] == first["container_uuid"]


async def test_the_result_of_a_shared_project_is_used(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    project = await _shared(it, "other")
    first = await it.submit("work", token=owner, owner_uuid=project)
    await it.run(first["container_uuid"])
    shown = await _preview(it, other)
    assert (shown["decision"], shown["container_uuid"]) == ("reuse", first["container_uuid"])
    assert [one["usable"] for one in shown["candidates"]] == [True]
    second = await it.submit("work", token=other)
    assert (second["container_uuid"], second["state"]) == (first["container_uuid"], "Final")


async def test_a_result_whose_log_cannot_be_read_is_not_used(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    first = await it.submit("work", token=owner)
    await it.run(first["container_uuid"])
    container = await it.ok("GET", f"containers/{first['container_uuid']}", token=owner)
    await _share_content(it, container["output"], "other")
    assert (await _preview(it, other))["decision"] == "new"
    await _share_content(it, container["log"], "other")
    shown = await _preview(it, other)
    assert (shown["decision"], shown["container_uuid"]) == ("reuse", None)
    assert (shown["candidates"], first["container_uuid"] in str(shown)) == ([], False)
    second = await it.submit("work", token=other)
    assert second["container_uuid"] == first["container_uuid"]
    assert (await _why(it, second, other))["container_uuid"] == first["container_uuid"]


_SECRET = {"/s": {"kind": "text", "content": "x"}}
PERSONAL: list[Record] = [
    {"runtime_constraints": WITH_API},
    {"runtime_constraints": {"vcpus": 1, "ram": 1 << 28, "internet": True}},
    {"secret_mounts": _SECRET},
    {
        "runtime_constraints": WITH_API,
        "mounts": {"/out": {"kind": "tmp", "capacity": 1000}, "/keep": {"kind": "keep"}},
    },
]


@pytest.mark.parametrize("more", PERSONAL, ids=["api", "internet", "secrets", "keep"])
async def test_a_result_that_depends_on_its_user_is_the_users_alone(
    it: World, more: Record
) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    project = await _shared(it, "other")
    first = await it.submit("work", token=owner, owner_uuid=project, **more)
    # In progress, and once it has ended.
    joining = await it.submit("work", token=other, **more)
    assert joining["container_uuid"] != first["container_uuid"]
    assert (await it.submit("work", token=owner, **more))["container_uuid"] == first[
        "container_uuid"
    ]
    await it.run(first["container_uuid"])
    candidates = (await _why(it, joining, other))["candidates"]
    # A candidate with secrets would tell that those of the request are the same.
    described = [] if "secret_mounts" in more else [first["container_uuid"]]
    assert [one["container_uuid"] for one in candidates] == described
    reason = "only requests of the user for whom it ran use it"
    assert all(reason in one["reason"] for one in candidates)
    await it.run(joining["container_uuid"])
    third = await it.submit("work", token=other, **more)
    assert third["container_uuid"] == joining["container_uuid"]
    again = await it.submit("work", token=owner, **more)
    assert again["container_uuid"] == first["container_uuid"]


async def test_a_service_is_not_joined_by_others(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    ports: JSON = {"80": {"access": "private", "label": "page", "initial_path": ""}}
    first = await it.submit(
        "work", token=owner, service=True, published_ports=ports, use_existing=False
    )
    second = await it.submit("work", token=other)
    assert second["container_uuid"] != first["container_uuid"]


async def test_a_container_with_a_token_of_its_request_is_not_joined(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    first = await it.submit("work", token=owner, runtime_token=owner)
    second = await it.submit("work", token=other)
    assert second["container_uuid"] != first["container_uuid"]
    assert (await it.submit("work", token=owner))["container_uuid"] == first["container_uuid"]


async def test_work_in_progress_is_joined_by_who_can_read_its_inputs(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    # The same file lies in two collections; the command sees the same.
    theirs = await it.collection({"a.txt": b"same", CANARY: b"beside"}, token=owner)
    ours = await it.collection({"a.txt": b"same"}, token=other)

    def mounted(collection: Record) -> JSON:
        pdh = collection["portable_data_hash"]
        file = {"kind": "collection", "portable_data_hash": pdh, "path": "a.txt"}
        return {"/in": file, "/out": {"kind": "tmp", "capacity": 1000}}

    first = await it.submit("work", token=owner, mounts=mounted(theirs))
    apart = await it.submit("work", token=other, mounts=mounted(ours))
    assert apart["container_uuid"] != first["container_uuid"]
    await share(it, await uuid_of(it, "other"), theirs["uuid"], "can_read", token=owner)
    await it.ok("PUT", f"container_requests/{apart['uuid']}", {"priority": 0}, token=other)
    joined = await it.submit("work", token=other, mounts=mounted(ours))
    assert joined["container_uuid"] == first["container_uuid"]


async def test_what_a_record_says_is_quoted_to_its_readers_alone(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    project = await _shared(it, "third")
    first = await it.submit("work", token=owner, owner_uuid=project)
    await it.run(first["container_uuid"])
    path = f"containers/{first['container_uuid']}/withdraw"
    await it.ok("POST", path, {"reason": CANARY}, token=owner)
    second = await it.submit("work", token=other)
    supervisor = await it.lock(second["container_uuid"])
    running = {"state": "Running", "runtime_status": {"error": f"{CANARY}-error"}}
    await it.ok("PUT", f"containers/{second['container_uuid']}", running, token=supervisor)
    # The third user can read the first container only, the second user the second one only.
    third = await it.submit("work", token=await it.user("third"))
    decision = await _why(it, third, await it.user("third"))
    assert [one["reason"] for one in decision["candidates"]] == [
        f"its result was withdrawn: {CANARY}"
    ]
    fourth = await it.submit("work", token=other)
    said = (await _why(it, fourth, other))["candidates"]
    reasons = {one["container_uuid"]: one["reason"] for one in said}
    assert reasons[second["container_uuid"]] == (
        f"it is running but reports an error: {CANARY}-error"
    )
    assert first["container_uuid"] not in reasons
    rows = await it.ok(
        "GET", "logs", params={"filters": [["event_type", "=", "resolve"]], "limit": 100}
    )
    assert len(rows["items"]) == 4
    assert CANARY not in str(rows)


async def test_candidates_are_told_to_those_who_can_read_them(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    failed = await it.submit("work", token=owner)
    await it.run(failed["container_uuid"], exit_code=3)
    project = await _shared(it, "other")
    request = await it.submit("work", token=owner, owner_uuid=project)
    assert len((await _why(it, request, owner))["candidates"]) == 1
    # Who can read the request, but not the candidate, is not told of it.
    assert (await _why(it, request, other))["candidates"] == []


async def test_filters_are_not_answered_for_containers_that_cannot_be_read(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    first = await it.submit("work", token=owner)
    owner_uuid = await uuid_of(it, "owner")
    answers = [
        await _preview(it, other, filters=[["runtime_user_uuid", operator, owner_uuid]])
        for operator in ("=", "!=")
    ]
    assert [one["candidates"] for one in answers] == [[], []]
    # Each is answered as if there were no container of others.
    assert [one["decision"] for one in answers] == ["none", "new"]
    project = await _shared(it, "other")
    await it.ok("PUT", f"container_requests/{first['uuid']}", {"owner_uuid": project}, token=owner)
    shown = await _preview(it, other, filters=[["runtime_user_uuid", "=", owner_uuid]])
    assert (shown["decision"], shown["container_uuid"]) == ("reuse", first["container_uuid"])


async def test_a_container_chosen_by_hand_follows_the_same_rule(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    project = await _shared(it, "other")
    personal = await it.submit(
        "work", token=owner, owner_uuid=project, runtime_constraints=WITH_API
    )
    spec = await it.spec(
        "work",
        token=other,
        runtime_constraints=WITH_API,
        container_uuid=personal["container_uuid"],
    )
    reply = await it.request("POST", "container_requests", spec, token=other)
    assert (reply.status, "may call the API as its user" in reply.error) == (422, True)
    plain = await it.submit("work", token=owner, owner_uuid=project)
    await it.run(plain["container_uuid"])
    spec = await it.spec("work", token=other, container_uuid=plain["container_uuid"])
    made = await it.ok("POST", "container_requests", spec, token=other)
    assert made["container_uuid"] == plain["container_uuid"]
    # A shared request shows its container, but neither its log nor its output.
    alone = await it.submit("alone", token=owner)
    await it.run(alone["container_uuid"])
    await share(it, await uuid_of(it, "other"), alone["uuid"], "can_read", token=owner)
    spec = await it.spec("alone", token=other, container_uuid=alone["container_uuid"])
    reply = await it.request("POST", "container_requests", spec, token=other)
    assert (reply.status, "cannot be read" in reply.error) == (422, True)


async def test_results_of_others_do_not_count_as_evidence(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    first = await it.submit("work", token=other)
    await it.run(first["container_uuid"])
    repeat = await it.submit("work", token=owner, use_existing=False)
    await it.run(repeat["container_uuid"])
    shown = await _preview(it, other, only_reproduced=True)
    assert [one["reason"] for one in shown["candidates"]] == [
        "it was not run again, so that nothing shows that it can be reproduced"
    ]


async def test_a_strict_request_neither_uses_nor_joins_what_may_lack_entries(it: World) -> None:
    loose = await it.submit("work")
    strict = await it.submit("work", strict_output=True)
    assert strict["strict_output"] is True
    assert strict["container_uuid"] != loose["container_uuid"]
    joined = await it.submit("work", strict_output=True)
    assert joined["container_uuid"] == strict["container_uuid"]
    await it.run(loose["container_uuid"], runtime_status={"omitted": 2})
    assert (await it.submit("work"))["container_uuid"] == loose["container_uuid"]
    again = await it.submit("work", strict_output=True)
    assert again["container_uuid"] == strict["container_uuid"]
    why = await it.ok("GET", f"container_requests/{again['uuid']}/why")
    reasons = {one["container_uuid"]: one["reason"] for one in why["decision"]["candidates"]}
    assert "its output lacks 2 entries" in reasons[loose["container_uuid"]]
    await it.run(strict["container_uuid"])
    for flag in (True, False):
        whole = await it.submit("work", strict_output=flag)
        assert whole["container_uuid"] in (strict["container_uuid"], loose["container_uuid"])
        assert not (flag and whole["container_uuid"] == loose["container_uuid"])


async def test_many_containers_of_others_do_not_hide_ones_own(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    for _ in range(51):
        await it.submit("work", token=owner, use_existing=False, runtime_constraints=WITH_API)
    mine = await it.submit("work", token=other, runtime_constraints=WITH_API)
    again = await it.submit("work", token=other, runtime_constraints=WITH_API)
    assert again["container_uuid"] == mine["container_uuid"]


async def test_a_container_passes_to_a_user_who_still_wants_it(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    first = await it.submit("work", token=owner)
    second = await it.submit("work", token=other)
    uuid = second["container_uuid"]
    assert uuid == first["container_uuid"]
    assert (await it.ok("GET", f"containers/{uuid}"))["runtime_user_uuid"] == await uuid_of(
        it, "owner"
    )
    await it.ok("POST", f"container_requests/{first['uuid']}/cancel", token=owner)
    container = await it.ok("GET", f"containers/{uuid}")
    assert (container["state"], container["runtime_user_uuid"]) == (
        "Queued",
        await uuid_of(it, "other"),
    )
    await it.run(uuid)
    assert (await it.ok("GET", f"container_requests/{second['uuid']}"))["state"] == "Final"


async def test_a_retry_runs_for_a_user_who_still_wants_it(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    first = await it.submit("work", token=owner)
    second = await it.submit("work", token=other)
    uuid = second["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("POST", f"container_requests/{first['uuid']}/cancel", token=owner)
    # Its token is that of the first user: only a new container acts for the other one.
    assert (await it.ok("GET", f"containers/{uuid}"))["runtime_user_uuid"] == await uuid_of(
        it, "owner"
    )
    await it.ok("PUT", f"containers/{uuid}", {"state": "Cancelled"}, token=supervisor)
    again = await it.ok("GET", f"container_requests/{second['uuid']}")
    assert again["container_uuid"] != uuid
    container = await it.ok("GET", f"containers/{again['container_uuid']}")
    assert container["runtime_user_uuid"] == await uuid_of(it, "other")
