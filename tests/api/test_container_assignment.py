"""From names to content, from content to a container."""

from __future__ import annotations

from typing import Any

import pytest

from lading.api.container_assignment import AssignmentChoice, look_ahead
from lading.api.resources import container_requests
from lading.api.services import ApiServices
from lading.testing.world import WITH_API, World


async def test_inputs_by_uuid_are_the_same_work(it: World) -> None:
    made = await it.collection({"a": b"x"})
    pdh, uuid = made["portable_data_hash"], made["uuid"]
    out = {"/out": {"kind": "tmp", "capacity": 1000}}
    spellings = (
        {"portable_data_hash": pdh},
        {"uuid": uuid},
        {"uuid": uuid, "portable_data_hash": pdh},
        {"uuid": "zzzzz-4zz18-000000000000009", "portable_data_hash": pdh},
    )
    found = [
        await it.submit(mounts={**out, "/in": {"kind": "collection", **one}}) for one in spellings
    ]
    assert len({one["container_uuid"] for one in found}) == 1


@pytest.mark.parametrize(
    "mount", [{"uuid": "zzzzz-4zz18-000000000000009"}, {"portable_data_hash": f"{'0' * 32}+5"}]
)
async def test_inputs_must_be_readable(it: World, mount: dict[str, str]) -> None:
    mounts = {"/out": {"kind": "tmp", "capacity": 1}, "/in": {"kind": "collection", **mount}}
    reply = await it.request("POST", "container_requests", await it.spec(mounts=mounts))
    assert (reply.status, "not found" in reply.error) == (422, True)


async def test_inputs_of_others(it: World) -> None:
    secret = await it.collection({"a": b"x"})
    token = await it.user("u")
    for mount in ({"uuid": secret["uuid"]}, {"portable_data_hash": secret["portable_data_hash"]}):
        mounts = {"/out": {"kind": "tmp", "capacity": 1}, "/in": {"kind": "collection", **mount}}
        spec = await it.spec(token=token, mounts=mounts)
        assert (await it.request("POST", "container_requests", spec, token=token)).status == 422


async def test_a_container_chosen_by_hand(it: World) -> None:
    done = await it.submit("same")
    await it.run(done["container_uuid"], exit_code=1)
    chosen = await it.submit("same", container_uuid=done["container_uuid"])
    assert (chosen["state"], chosen["container_uuid"]) == ("Final", done["container_uuid"])
    waiting = await it.submit("waiting")
    assert (await it.submit("waiting", container_uuid=waiting["container_uuid"]))[
        "state"
    ] == "Committed"
    reply = await it.request(
        "POST", "container_requests", await it.spec("other", container_uuid=done["container_uuid"])
    )
    assert (
        reply.status,
        'command[0] differs ("other" is asked for, it has "same")' in reply.error,
    ) == (422, True)
    token = await it.user("u")
    spec = await it.spec("same", token=token, container_uuid=done["container_uuid"])
    assert (await it.request("POST", "container_requests", spec, token=token)).status == 422


async def test_results_that_are_gone_are_not_used(it: World) -> None:
    first = await it.submit()
    await it.run(first["container_uuid"])
    outputs = await it.ok(
        "GET", "collections", params={"filters": [["name", "like", "Container output%"]]}
    )
    await it.ok("DELETE", f"collections/{outputs['items'][0]['uuid']}")
    assert (await it.submit())["container_uuid"] != first["container_uuid"]


async def test_nothing_waits_for_itself(it: World) -> None:
    top = await it.submit("same", runtime_constraints=WITH_API)
    uuid = top["container_uuid"]
    supervisor = await it.lock(uuid)
    own = await it.container_token(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    child = await it.submit("same", token=own, runtime_constraints=WITH_API)
    assert child["container_uuid"] != uuid


async def test_filters_choose_among_existing_containers(it: World) -> None:
    old = await it.submit()
    await it.run(old["container_uuid"])
    middle = (await it.ok("GET", f"containers/{old['container_uuid']}"))["finished_at"]
    assert (await it.submit(filters=[["created_at", "<", middle]]))["container_uuid"] == old[
        "container_uuid"
    ]
    assert (await it.submit(filters=["state", "=", "Complete"]))["filters"] == [
        ["state", "=", "Complete"]
    ]
    other = await it.submit(filters=[["created_at", ">", middle]])
    assert other["container_uuid"] != old["container_uuid"]
    why = await it.ok("GET", f"container_requests/{other['uuid']}/why")
    assert (
        why["decision"]["candidates"][0]["reason"] == "it does not meet the filters of the request"
    )


@pytest.mark.parametrize(
    "condition",
    [
        ["created_at", "<", "2015-07-01T00:00:01Z"],
        ["state", "=", "Complete"],
        ["exit_code", "=", 0],
    ],
)
async def test_a_request_that_only_an_existing_container_can_satisfy(
    it: World, condition: list[object]
) -> None:
    """A ContainerRequest may indicate that it cannot be satisfied by a new container."""
    spec = await it.spec(filters=[condition])
    refused = await it.request("POST", "container_requests", spec)
    assert (refused.status, "a new one could not meet its filters" in refused.error) == (422, True)
    shown = await it.ok("POST", "container_requests/preview", spec)
    assert (shown["decision"], shown["container_uuid"]) == ("none", None)
    assert (await it.ok("GET", "containers"))["items"] == []


@pytest.mark.parametrize(
    "filters", [[["nope", "=", 1]], [["state", "?", 1]], "state", [["created_at", "<", "soon"]]]
)
async def test_filters_are_checked_when_they_are_written(it: World, filters: object) -> None:
    refused = await it.request(
        "POST", "container_requests", await it.spec(state="Uncommitted", filters=filters)
    )
    assert (refused.status, "Filters" in refused.error) == (422, True)


async def test_any_container_within_the_range_will_do(it: World) -> None:
    big = await it.submit(runtime_constraints={"ram": 1 << 30, "vcpus": 2})
    await it.run(big["container_uuid"])
    wanted = {"ram": [1 << 28, 1 << 31], "vcpus": [1, 2], "keep_cache_disk": [0, 1 << 40]}
    assert (await it.submit(runtime_constraints=wanted))["container_uuid"] == big["container_uuid"]
    small = await it.submit(runtime_constraints={**wanted, "vcpus": [3, 8]})
    assert small["container_uuid"] != big["container_uuid"]
    why = await it.ok("GET", f"container_requests/{small['uuid']}/why")
    assert why["decision"]["candidates"][0]["reason"] == "it has another vcpus"
    assert why["decision"]["near"][0]["first_difference"]["field"].startswith(
        "runtime_constraints."
    )


async def test_requests_that_wait_together_narrow_the_range(it: World) -> None:
    first = await it.submit(runtime_constraints={"ram": [1 << 28, 1 << 30], "vcpus": 1})
    second = await it.submit(runtime_constraints={"ram": [1 << 29, 1 << 31], "vcpus": 1})
    assert second["container_uuid"] == first["container_uuid"]
    shared = await it.ok("GET", f"containers/{first['container_uuid']}")
    assert shared["constraint_ranges"] == {"ram": [1 << 29, 1 << 30]}
    assert shared["runtime_constraints"]["ram"] == 1 << 29


async def test_the_internet_must_or_must_not_be_there(it: World) -> None:
    plain = {"vcpus": 1, "ram": 1 << 28}
    with_net = await it.submit(runtime_constraints={**plain, "internet": True})
    without = await it.submit(runtime_constraints={**plain, "internet": False})
    assert with_net["container_uuid"] != without["container_uuid"]
    assert (await it.submit(runtime_constraints={**plain, "internet": True}))[
        "container_uuid"
    ] == with_net["container_uuid"]
    either = await it.submit(runtime_constraints=plain)
    assert either["container_uuid"] in (with_net["container_uuid"], without["container_uuid"])
    spec = await it.spec(runtime_constraints={**plain, "internet": False, "API": True})
    assert (
        "cannot be false with API" in (await it.request("POST", "container_requests", spec)).error
    )


async def test_keep_needs_the_api(it: World) -> None:
    mounts = {"/out": {"kind": "tmp"}, "/keep": {"kind": "keep"}}
    refused = await it.request("POST", "container_requests", await it.spec(mounts=mounts))
    assert (refused.status, "keep needs runtime_constraints.API" in refused.error) == (422, True)
    made = await it.submit(
        mounts=mounts, runtime_constraints={"vcpus": 1, "ram": 1 << 28, "API": True}
    )
    assert (await it.ok("GET", f"containers/{made['container_uuid']}"))["mounts"]["/keep"] == {
        "kind": "keep"
    }


async def test_a_draft_whose_container_went_is_given_another(it: World) -> None:
    draft = await it.submit(state="Uncommitted")
    shown = await it.ok("POST", f"container_requests/{draft['uuid']}/satisfy")
    assert await it.ok("POST", f"container_requests/{draft['uuid']}/satisfy") == shown
    await it.ok("PUT", f"containers/{shown['container_uuid']}", {"state": "Cancelled"})
    done = await it.ok("PUT", f"container_requests/{draft['uuid']}", {"state": "Committed"})
    assert done["container_uuid"] not in (None, shown["container_uuid"])
    path = f"container_requests/{done['uuid']}"
    refused = await it.request("PUT", path, {"container_uuid": None})
    assert (refused.status, "in drafts only" in refused.error) == (422, True)
    assert await it.ok("GET", path) == done


async def test_satisfy_as_a_parameter_of_drafts(it: World) -> None:
    spec = await it.spec(state="Uncommitted")
    made = await it.request("POST", "container_requests", spec, params={"satisfy": True})
    assert (made.status, made.json["state"], made.json["container_uuid"] is not None) == (
        200,
        "Uncommitted",
        True,
    )
    path = f"container_requests/{made.json['uuid']}"
    other = await it.request("PUT", path, {"command": ["other"], "satisfy": True})
    assert (
        other.status,
        other.json["container_uuid"] not in (None, made.json["container_uuid"]),
    ) == (200, True)
    assert (await it.ok("GET", f"containers/{made.json['container_uuid']}"))["state"] == "Cancelled"
    unready = await it.request("PUT", path, {"runtime_constraints": {}, "satisfy": True})
    assert (unready.status, "must be a positive integer" in unready.error) == (422, True)


async def test_what_is_deleted_after_the_look_and_before_the_turn_is_not_reused(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await it.submit("echo", "1")
    await it.run(done["container_uuid"])
    old = await it.ok("GET", f"containers/{done['container_uuid']}")
    assert (await it.submit("echo", "1"))["container_uuid"] == old["uuid"]

    async def look_and_lose(services: ApiServices, *others: Any) -> AssignmentChoice | None:
        found = await look_ahead(services, *others)
        async with services.database.writing() as tx:
            await tx.execute(
                "DELETE FROM collections WHERE portable_data_hash = ?", (old["output"],)
            )
        return found

    monkeypatch.setattr(container_requests, "look_ahead", look_and_lose)
    made = await it.submit("echo", "1")
    assert made["state"] == "Committed"
    assert made["container_uuid"] != old["uuid"]


async def test_what_was_asked_for_since_the_look_is_joined(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    async def look_and_wait(services: ApiServices, *others: Any) -> AssignmentChoice | None:
        found = await look_ahead(services, *others)
        if not made:
            made.append("")
            made[0] = (await it.submit("echo", "1"))["container_uuid"]
        return found

    monkeypatch.setattr(container_requests, "look_ahead", look_and_wait)
    assert (await it.submit("echo", "1"))["container_uuid"] == made[0]
