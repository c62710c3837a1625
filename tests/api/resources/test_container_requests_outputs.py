"""Requests whose inputs are the outputs of other requests."""

from __future__ import annotations

import pytest

from lading.api.events import timers
from lading.core.ids import EMPTY_PDH
from lading.core.records.schema import Record
from lading.testing.world import World


def taking(*sources: Record, path: str = "") -> dict[str, object]:
    """Mounts with the outputs of the requests."""
    inputs = {
        f"/in/{number}": {"kind": "output", "container_request": source["uuid"], "path": path}
        for number, source in enumerate(sources)
    }
    return {"/out": {"kind": "tmp", "capacity": 1 << 20}, **inputs}


async def read(it: World, request: Record) -> Record:
    found: Record = await it.ok("GET", f"container_requests/{request['uuid']}")
    return found


async def container(it: World, request: Record) -> Record:
    found: Record = await it.ok("GET", f"containers/{(await read(it, request))['container_uuid']}")
    return found


async def end(it: World, request: Record, content: bytes = b"made") -> str:
    """Run a request's container; the portable data hash of its output."""
    output = await it.collection({"result.txt": content})
    uuid = (await read(it, request))["container_uuid"]
    await it.run(uuid, output=output["portable_data_hash"])
    await timers.seek(it.app.services)
    return str(output["portable_data_hash"])


async def test_it_gets_a_container_when_its_input_was_made(it: World) -> None:
    one = await it.submit("one")
    two = await it.submit("two", mounts=taking(one, path="result.txt"))
    assert (two["state"], two["container_uuid"]) == ("Committed", None)
    assert two["depends_on"] == [one["uuid"]]
    waits = (await it.ok("GET", f"container_requests/{two['uuid']}/why"))["waits"]
    assert [wait["reason"] for wait in waits] == ["inputs", "dependency"]
    made = await end(it, one)
    assert (await container(it, two))["mounts"]["/in/0"] == {
        "kind": "collection",
        "portable_data_hash": made,
        "path": "result.txt",
    }
    assert (await container(it, two))["priority"] > 0


async def test_an_output_that_is_there_is_used_at_once(it: World) -> None:
    one = await it.submit("one")
    made = await end(it, one)
    two = await it.submit("two", mounts=taking(one))
    assert (await container(it, two))["mounts"]["/in/0"]["portable_data_hash"] == made


async def test_equal_inputs_are_computed_once_however_they_were_named(it: World) -> None:
    one = await it.submit("one")
    made = await end(it, one)
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1 << 20},
        "/in/0": {"kind": "collection", "portable_data_hash": made},
    }
    first = await it.submit("two", mounts=mounts)
    await it.run(first["container_uuid"])
    again = await it.submit("two", mounts=taking(one))
    assert (again["state"], again["container_uuid"]) == ("Final", first["container_uuid"])


async def test_reuse_is_decided_step_by_step(it: World) -> None:
    one = await it.submit("one")
    two = await it.submit("two", mounts=taking(one))
    await end(it, one)
    await end(it, two, b"two")
    other = await it.submit("other")
    again = await it.submit("two", mounts=taking(other))
    assert again["state"] == "Committed"
    # Another command, the same output: what follows was computed before.
    await end(it, other)
    final = await read(it, again)
    assert (final["state"], final["container_uuid"]) == (
        "Final",
        (await read(it, two))["container_uuid"],
    )


async def test_it_waits_for_all_of_its_inputs(it: World) -> None:
    one, two = await it.submit("one"), await it.submit("two")
    three = await it.submit("three", mounts=taking(one, two))
    await end(it, one, b"1")
    assert (await read(it, three))["container_uuid"] is None
    await end(it, two, b"2")
    assert (await read(it, three))["container_uuid"] is not None


@pytest.mark.parametrize("how", ["fails", "is cancelled", "is deleted"])
async def test_it_ends_with_a_reason_when_an_input_will_never_be_made(it: World, how: str) -> None:
    one = await it.submit("one")
    two = await it.submit("two", mounts=taking(one))
    three = await it.submit("three", mounts=taking(two))
    if how == "fails":
        await it.run(one["container_uuid"], exit_code=3)
    elif how == "is cancelled":
        await it.ok("POST", f"container_requests/{one['uuid']}/cancel")
    else:
        await it.ok("DELETE", f"container_requests/{one['uuid']}")
    assert [(await read(it, last))["state"] for last in (two, three)] == ["Final", "Final"]
    why = await it.ok("GET", f"container_requests/{two['uuid']}/why")
    assert f"It depends on the request {one['uuid']}, which" in why["outcome"]


async def test_an_output_that_was_deleted_before_it_is_needed_ends_it(it: World) -> None:
    one, other = await it.submit("one"), await it.submit("other")
    two = await it.submit("two", mounts=taking(one, other))
    gone = await end(it, one, b"gone soon")
    for made in await it.collections():
        if made["portable_data_hash"] == gone:
            await it.ok("DELETE", f"collections/{made['uuid']}")
    await end(it, other, b"stays")
    why = await it.ok("GET", f"container_requests/{two['uuid']}/why")
    assert (await read(it, two))["state"] == "Final"
    assert f"the output of the request {one['uuid']} cannot be mounted" in why["outcome"]


async def test_a_cancelled_one_waits_no_more(it: World) -> None:
    one = await it.submit("one")
    two = await it.submit("two", mounts=taking(one))
    cancelled = await it.ok("POST", f"container_requests/{two['uuid']}/cancel")
    assert cancelled["state"] == "Final"
    await end(it, one)
    assert (await read(it, two))["container_uuid"] is None


async def test_one_that_has_expired_gets_its_container_all_the_same(it: World) -> None:
    one = await it.submit("one")
    two = await it.submit("two", mounts=taking(one), expires_at="2000-01-01T00:00:00Z")
    await end(it, one)
    assert (await container(it, two))["priority"] == 0


@pytest.mark.parametrize(
    ("mount", "fault"),
    [
        ({"kind": "output"}, "not the uuid of a container request: 'None'"),
        ({"kind": "output", "container_request": "x"}, "not the uuid of a container request"),
        ({"kind": "output", "container_request": "", "path": "../x"}, "cannot contain '..'"),
        ({"kind": "output", "portable_data_hash": EMPTY_PDH}, "not supported for a output mount"),
    ],
)
async def test_what_an_output_mount_cannot_say(it: World, mount: Record, fault: str) -> None:
    mounts = {"/out": {"kind": "tmp", "capacity": 1}, "/in": mount}
    refused = await it.request("POST", "container_requests", await it.spec("x", mounts=mounts))
    assert (refused.status, fault in refused.error) == (422, True), refused.error


async def test_requests_of_others_and_drafts_give_nothing(it: World) -> None:
    alice = await it.user("alice")
    mine = await it.submit("one")
    spec = await it.spec("two", token=alice, mounts=taking(mine))
    refused = await it.request("POST", "container_requests", spec, token=alice)
    assert (refused.status, "not found" in refused.error) == (422, True)
    draft = await it.submit("two", state="Uncommitted", mounts=taking(mine))
    early = await it.request("POST", f"container_requests/{draft['uuid']}/satisfy")
    assert (early.status, "has not ended" in early.error) == (422, True)
