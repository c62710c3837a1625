"""The use cases of the Containers API, its life cycle in twelve steps and its state-dependent
validations, one by one.

The sentences are those of the design draft; each test does what its sentence says, over HTTP, on
both databases.
"""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import World

LATER = "2030-01-01T00:00:00.000000000Z"


async def update(
    it: World, request: Record, *, token: str | None = None, **changes: JSON
) -> Record:
    found: Record = await it.ok(
        "PUT", f"container_requests/{request['uuid']}", changes, token=token
    )
    return found


async def refusal(it: World, request: Record, *, token: str | None = None, **changes: JSON) -> str:
    reply = await it.request("PUT", f"container_requests/{request['uuid']}", changes, token=token)
    assert reply.status == 422, reply.body
    return reply.error


async def container(it: World, request: Record, *, token: str | None = None) -> Record:
    found: Record = await it.ok("GET", f"containers/{request['container_uuid']}", token=token)
    return found


async def start(it: World, uuid: str) -> str:
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    return supervisor


# Use cases


async def test_preview(it: World) -> None:
    """Tell me how you would satisfy container request X. Which pdh would be used? Is it already
    started? finished?
    """
    data = await it.collection({"a.txt": b"1"})
    mounts = {"/out": {"kind": "tmp"}, "/in": {"kind": "collection", "uuid": data["uuid"]}}
    wanted = await it.spec("wc", mounts=mounts)
    new = await it.ok("POST", "container_requests/preview", wanted)
    assert (new["decision"], new["container_uuid"]) == ("new", None)
    assert new["recipe"]["mounts"]["/in"]["portable_data_hash"] == data["portable_data_hash"]
    running = await it.submit("wc", mounts=mounts)
    assert (await it.ok("POST", "container_requests/preview", wanted))[
        "container_state"
    ] == "Queued"
    await it.run(running["container_uuid"])
    finished = await it.ok("POST", "container_requests/preview", wanted)
    assert (finished["decision"], finished["container_state"]) == ("reuse", "Complete")
    # The draft's own way: priority 0 shows the container and runs nothing.
    shown = await it.submit("other", priority=0)
    assert (await container(it, shown))["priority"] == 0


async def test_submit_a_previewed_existing_container(it: World) -> None:
    """I'm happy with the running container. Give me access to it, its logs and, when it finishes,
    its output.
    """
    alice, bob = await it.user("alice"), await it.user("bob")
    theirs = await it.submit("wc", token=bob)
    shown = await it.ok(
        "POST", "container_requests/preview", await it.spec("wc", token=alice), token=alice
    )
    # Alice cannot read it yet: the preview tells its state, and a request that has it names it.
    unreadable = await it.request("GET", f"containers/{theirs['container_uuid']}", token=alice)
    assert (shown["decision"], unreadable.status) == ("reuse", 404)
    assert (shown["container_state"], shown["container_uuid"]) == ("Queued", None)
    mine = await it.submit("wc", token=alice)
    assert mine["container_uuid"] == theirs["container_uuid"]
    assert (await container(it, mine, token=alice))["state"] == "Queued"
    await it.run(mine["container_uuid"])
    done = await it.ok("GET", f"container_requests/{mine['uuid']}", token=alice)
    for collection in (done["output_uuid"], done["log_uuid"]):
        await it.ok("GET", f"collections/{collection}", token=alice)


async def test_submit_a_previewed_new_container(it: World) -> None:
    """I'm happy with the new container the preview response proposed to run. Run that container."""
    proposed = await it.submit("wc", priority=0)
    agreed = await update(it, proposed, priority=1)
    assert agreed["container_uuid"] == proposed["container_uuid"]
    await it.run(agreed["container_uuid"])
    assert (await it.ok("GET", f"container_requests/{agreed['uuid']}"))["state"] == "Final"


async def test_a_draft_shows_its_container_and_commits_to_it(it: World) -> None:
    """The same with a draft: `satisfy` gives it a container, the commit runs that one."""
    draft = await it.submit("wc", state="Uncommitted")
    shown = await it.ok("POST", f"container_requests/{draft['uuid']}/satisfy")
    assert (shown["state"], (await container(it, shown))["priority"]) == ("Uncommitted", 0)
    agreed = await update(it, shown, state="Committed")
    assert agreed["container_uuid"] == shown["container_uuid"]
    assert (await container(it, agreed))["priority"] > 0


async def test_submit_a_new_container_disabling_reuse(it: World) -> None:
    """I don't want to use an already running or finished container. Run a new one that satisfies my
    request.
    """
    first = await it.submit("wc")
    await it.run(first["container_uuid"])
    second = await it.submit("wc", use_existing=False)
    assert second["state"] == "Committed"
    assert second["container_uuid"] != first["container_uuid"]


async def test_submit_a_new_duplicate_container_disabling_reuse(it: World) -> None:
    """I'm happy with the container you showed me in preview. Run a new container exactly like that
    one.
    """
    first = await it.submit("wc", environment={"A": "1"})
    made = await container(it, first)
    copied = (
        "command",
        "container_image",
        "cwd",
        "environment",
        "mounts",
        "output_path",
        "runtime_constraints",
    )
    exactly = {name: made[name] for name in copied}
    anew = {**exactly, "use_existing": False, "state": "Committed", "priority": 1}
    again = await it.ok("POST", "container_requests", anew)
    duplicate = await container(it, again)
    assert duplicate["uuid"] != made["uuid"]
    assert {name: duplicate[name] for name in copied} == exactly


async def test_select_a_container_and_associate_it_with_my_request(it: World) -> None:
    """I know of another container that satisfies my request. If I'm right, attach my request to
    it.
    """
    first = await it.submit("wc")
    other = await it.submit("wc", use_existing=False)
    mine = await it.submit("wc", use_existing=False)
    chosen = await update(it, mine, container_uuid=other["container_uuid"])
    assert chosen["container_uuid"] == other["container_uuid"] != first["container_uuid"]
    assert chosen["attempted_container_uuids"] == [mine["container_uuid"]]
    wrong = await it.submit("ls")
    assert 'command[0] differs ("wc" is asked for, it has "ls")' in await refusal(
        it, mine, container_uuid=wrong["container_uuid"]
    )
    alice = await it.user("alice")
    hers = await it.submit("wc", use_existing=False, token=alice)
    assert "not found" in await refusal(
        it, hers, token=alice, container_uuid=first["container_uuid"]
    )


async def test_just_do_the_right_thing_without_a_preview(it: World) -> None:
    """Satisfy container request X one way or another, and tell me the resulting container's
    UUID.
    """
    new = await it.request(
        "POST", "container_requests", await it.spec("wc"), params={"satisfy": True}
    )
    assert (new.status, bool(new.json["container_uuid"])) == (200, True)
    await it.run(new.json["container_uuid"])
    again = await it.request(
        "POST", "container_requests", await it.spec("wc"), params={"satisfy": True}
    )
    assert (again.json["state"], again.json["container_uuid"]) == (
        "Final",
        new.json["container_uuid"],
    )


# Life cycle


async def test_the_life_cycle_with_reuse_and_preview(it: World) -> None:
    a, b = await it.user("clienta"), await it.user("clientb")
    # 1. Client ClientA creates a ContainerRequest CRA with priority=0.
    cra = await it.submit("wc", priority=0, token=a)
    # 2. Server creates container CX and assigns CX to CRA, but does not try to run CX yet because
    #    max(priority)=0.
    cx = cra["container_uuid"]
    assert (await it.request("POST", f"containers/{cx}/lock", token=it.dispatcher)).status == 422
    # 3. ClientA presents CX to the user: "We haven't computed this result yet, so we'll have to run
    #    a new container."
    assert (await container(it, cra, token=a))["state"] == "Queued"
    # 4. Client ClientB creates a ContainerRequest CRB with priority=1.
    crb = await it.submit("wc", priority=1, token=b)
    # 5. Server assigns CX to CRB and puts CX in the execution queue with priority=1.
    assert crb["container_uuid"] == cx
    with_one = (await container(it, crb))["priority"]
    assert 0 < with_one < 1 << 50
    # 6. Client ClientA updates CRA with priority=2.
    await update(it, cra, priority=2, token=a)
    # 7. Server updates CX with priority=2.
    assert (await container(it, crb))["priority"] > 1 << 50
    # 8. Container CX starts.
    supervisor = await start(it, cx)
    # 9. Client ClientA updates CRA with priority=0. (This is as close as we get to a "cancel"
    #    operation.)
    await update(it, cra, priority=0, token=a)
    # 10. Server updates CX with priority=1. (CRB still wants this container to complete.)
    assert (await container(it, crb))["priority"] == with_one
    # 11. Container CX finishes.
    own = await it.container_token(cx)
    log = await it.collection({"crunch-run.txt": b"log"}, token=own, is_trashed=True)
    output = await it.collection({"out.txt": b"result"}, token=own, is_trashed=True)
    end = {"log": log["portable_data_hash"], "output": output["portable_data_hash"]}
    await it.ok(
        "PUT", f"containers/{cx}", {"state": "Complete", "exit_code": 0, **end}, token=supervisor
    )
    # 12. ClientA and ClientB have permission to read CX, its progress indicators, output and log.
    for request, token in ((cra, a), (crb, b)):
        seen = await container(it, request, token=token)
        assert (seen["state"], seen["output"]) == ("Complete", output["portable_data_hash"])
        done = await it.ok("GET", f"container_requests/{request['uuid']}", token=token)
        await it.ok("GET", f"collections/{done['output_uuid']}", token=token)
        await it.ok("GET", f"collections/{done['log_uuid']}", token=token)


# State-dependent validations


async def test_uncommitted_has_null_priority(it: World) -> None:
    draft = await it.submit(state="Uncommitted", priority=None)
    assert draft["priority"] is None


async def test_uncommitted_can_have_its_container_uuid_reset_to_null_by_a_client(it: World) -> None:
    draft = await it.submit(state="Uncommitted")
    given = await it.ok("POST", f"container_requests/{draft['uuid']}/satisfy")
    assert given["container_uuid"] is not None
    assert (await update(it, given, container_uuid=None))["container_uuid"] is None
    assert (await container(it, given))["state"] == "Cancelled"


async def test_uncommitted_can_have_its_container_uuid_set_by_the_system_only(it: World) -> None:
    draft, other = await it.submit("wc", state="Uncommitted"), await it.submit("wc")
    assert "can only be updated to nil" in await refusal(
        it, draft, container_uuid=other["container_uuid"]
    )


async def test_committed_has_non_null_priority(it: World) -> None:
    draft = await it.submit(state="Uncommitted", priority=None)
    assert "Priority cannot be nil" in await refusal(it, draft, state="Committed")


async def test_committed_can_have_its_priority_changed_but_not_to_null(it: World) -> None:
    request = await it.submit()
    assert (await update(it, request, priority=7))["priority"] == 7
    assert "Priority cannot be nil" in await refusal(it, request, priority=None)


async def test_committed_can_have_its_container_count_max_changed(it: World) -> None:
    assert (await update(it, await it.submit(), container_count_max=9))["container_count_max"] == 9


async def test_committed_can_have_its_container_uuid_changed_by_the_system(it: World) -> None:
    """(This allows the system to re-attempt a failed container.)"""
    request = await it.submit()
    supervisor = await start(it, request["container_uuid"])
    await it.ok(
        "PUT", f"containers/{request['container_uuid']}", {"state": "Cancelled"}, token=supervisor
    )
    again = await it.ok("GET", f"container_requests/{request['uuid']}")
    assert again["container_uuid"] != request["container_uuid"]
    assert again["attempted_container_uuids"] == [request["container_uuid"]]


DESCRIPTIVE: dict[str, Any] = {"name": "n", "description": "d", "properties": {"p": 1}}


async def test_committed_can_have_its_name_description_and_properties_changed(it: World) -> None:
    changed = await update(it, await it.submit(), **DESCRIPTIVE)
    assert {name: changed[name] for name in DESCRIPTIVE} == DESCRIPTIVE


OTHER: dict[str, Any] = {
    "command": ["other"],
    "container_image": "other",
    "cwd": "/tmp",
    "environment": {"A": "1"},
    "mounts": {"/other": {"kind": "tmp"}},
    "runtime_constraints": {"vcpus": 9, "ram": 9},
    "scheduling_parameters": {"max_run_time": 9},
    "output_path": "/other",
    "output_name": "other",
    "output_ttl": 9,
    "use_existing": False,
    "filters": [["state", "=", "Complete"]],
    "depends_on": ["zzzzz-xvhdp-000000000000000"],
    "start_after": LATER,
    "requesting_container_uuid": "zzzzz-dz642-000000000000000",
}


@pytest.mark.parametrize("name", sorted(OTHER))
async def test_committed_and_final_cannot_be_modified_in_other_ways(it: World, name: str) -> None:
    request = await it.submit()
    assert "cannot be modified in state 'Committed'" in await refusal(
        it, request, **{name: OTHER[name]}
    )
    await it.run(request["container_uuid"])
    assert "cannot be modified in state 'Final'" in await refusal(
        it, request, **{name: OTHER[name]}
    )


async def test_final_can_have_its_name_description_and_properties_changed(it: World) -> None:
    request = await it.submit()
    await it.run(request["container_uuid"])
    changed = await update(it, request, **DESCRIPTIVE)
    assert ({name: changed[name] for name in DESCRIPTIVE}, changed["state"]) == (
        DESCRIPTIVE,
        "Final",
    )


@pytest.mark.parametrize(
    "changes", [{"priority": 5}, {"container_count_max": 9}, {"expires_at": LATER}]
)
async def test_final_cannot_have_its_priority_attempts_or_end_changed(
    it: World, changes: dict[str, Any]
) -> None:
    request = await it.submit()
    await it.run(request["container_uuid"])
    assert "cannot be modified in state 'Final'" in await refusal(it, request, **changes)
