"""Attempts (docs/spec/containers, section Retry): which failures are tried again, how often, and
what is seen of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from lading.api.events.timers import sweep
from lading.core.errors import Failure
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import Record
from lading.store import records
from lading.testing.world import World, world

ATTEMPTS = {
    "user": 1, "oom": 1, "disk": 2, "image": 1, "input": 1, "node": 4, "preempted": 4, "timeout": 1,
    "infrastructure": 4, "": 4,
}  # fmt: skip


async def fail(it: World, request: Record, failure: str, **more: Any) -> Record:
    """One attempt that ends so; the request afterwards."""
    container = request["container_uuid"]
    supervisor = await it.lock(container)
    path = f"containers/{container}"
    await it.ok("PUT", path, {"state": "Running"}, token=supervisor)
    status = {"failure": failure, "error": f"it is {failure}"} if failure else {}
    ended = (
        {"state": "Complete", "exit_code": 1}
        if failure in ("user", "oom")
        else {"state": "Cancelled"}
    )
    await it.ok("PUT", path, {**ended, "runtime_status": status, **more}, token=supervisor)
    found: Record = await it.ok("GET", f"container_requests/{request['uuid']}")
    return found


async def until_final(it: World, request: Record, failure: str) -> Record:
    for _ in range(9):
        if request["state"] == "Final":
            break
        request = await fail(it, request, failure)
    return request


def test_every_class_is_listed() -> None:
    assert set(ATTEMPTS) == {*Failure, ""}


@pytest.mark.parametrize(("failure", "attempts"), ATTEMPTS.items())
async def test_each_class_of_failure_has_its_own_limit(
    it: World, failure: str, attempts: int
) -> None:
    request = await it.submit(container_count_max=4)
    last = await until_final(it, request, failure)
    assert (last["state"], last["container_count"]) == ("Final", attempts)
    tried = last["attempted_container_uuids"]
    assert (len(tried), len({*tried, last["container_uuid"]})) == (attempts - 1, attempts)
    assert tried[:1] == ([request["container_uuid"]] if attempts > 1 else [])
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why")
    assert [one["uuid"] for one in why["attempts"]] == tried
    assert why["container"]["runtime_status"].get("failure", "") == failure


async def test_the_configuration_sets_the_limits(tmp_path: Any) -> None:
    async with world(tmp_path, Containers={"RetryLimits": {"user": 1, "oom": 2, "node": 0}}) as it:
        for number, (failure, attempts) in enumerate((("user", 2), ("oom", 3), ("node", 1))):
            request = await it.submit(str(number), container_count_max=9)
            assert (await until_final(it, request, failure))["container_count"] == attempts


async def test_only_failures_of_the_same_class_count_towards_its_limit(it: World) -> None:
    request = await it.submit(container_count_max=9)
    for failure in ("node", "disk", "node", "preempted"):
        request = await fail(it, request, failure)
        assert request["state"] == "Committed", failure
    assert (await fail(it, request, "disk"))["state"] == "Final"


async def test_container_count_max_is_above_all_and_may_be_raised_meanwhile(it: World) -> None:
    request = await it.submit(container_count_max=1)
    request = await it.ok(
        "PUT", f"container_requests/{request['uuid']}", {"container_count_max": 2}
    )
    request = await fail(it, request, "node")
    assert (request["state"], request["container_count"]) == ("Committed", 2)
    assert (await fail(it, request, "node"))["state"] == "Final"


async def test_what_the_attempts_cost_adds_up(it: World) -> None:
    request = await it.submit(container_count_max=3)
    request = await fail(it, request, "node", cost=0.25)
    assert request["cumulative_cost"] == 0.25
    request = await fail(it, request, "node", cost=0.5)
    done = await it.run(request["container_uuid"], cost=1.0)
    assert done["cost"] == 1.0
    final = await it.ok("GET", f"container_requests/{request['uuid']}")
    assert (final["state"], final["cumulative_cost"]) == ("Final", 1.75)
    reused = await it.submit()
    assert (reused["container_uuid"], reused["cumulative_cost"]) == (done["uuid"], 0.0)


async def test_every_attempt_has_its_intervals(it: World) -> None:
    first = await it.submit(container_count_max=2, priority=7)
    second = await fail(it, first, "node")
    await it.run(second["container_uuid"])
    user = first["owner_uuid"]
    for uuid in (first["container_uuid"], second["container_uuid"]):
        items = (await it.ok("GET", f"containers/{uuid}/accounting"))["items"]
        assert [one["container_state"] for one in items] == ["Locked", "Running"]
        assert all(one["start"] < one["end"] for one in items)
        assert {one["user_uuid"] for one in items} == {user}
        assert {one["container_request_uuid"] for one in items} == {first["uuid"]}
        assert {one["container_request_priority"] for one in items} == {7}


async def test_an_output_may_be_kept_for_longer_than_there_are_years(it: World) -> None:
    request = await it.submit(output_ttl=1 << 40)
    await it.run(request["container_uuid"])
    final = await it.ok("GET", f"container_requests/{request['uuid']}")
    output = await it.ok("GET", f"collections/{final['output_uuid']}")
    assert (final["state"], output["trash_at"][:5], output["delete_at"][:5]) == (
        "Final",
        "9999-",
        "9999-",
    )
    late = await it.ok("POST", "collections", {"trash_at": "9999-12-31T23:59:59Z"})
    assert late["delete_at"] >= late["trash_at"]


async def _save_log(it: World, text: bytes, token: str) -> str:
    """A log as a supervisor saves it at the end of a container: in the trash; its hash."""
    made = await it.collection({"stdout.txt": text}, token=token, name="log", is_trashed=True)
    return str(made["portable_data_hash"])


async def _retried(it: World, token: str) -> tuple[Record, str]:
    """A request of a user whose first attempt has failed, and the hash of the log of that."""
    request = await it.submit(token=token, container_count_max=3)
    pdh = await _save_log(it, b"the first attempt", token)
    return await fail(it, request, "node", log=pdh), pdh


async def test_the_log_of_an_earlier_attempt_is_readable_by_its_hash(it: World) -> None:
    owner, other = await it.user("owner"), await it.user("other")
    request, pdh = await _retried(it, owner)
    assert request["state"] == "Committed"
    found = await it.ok("GET", f"collections/{pdh}", token=owner)
    assert found["portable_data_hash"] == pdh
    assert "trash_at" not in found
    assert "+A" in found["manifest_text"]
    assert (await it.ok("GET", f"collections/{pdh}"))["portable_data_hash"] == pdh
    assert (await it.request("GET", f"collections/{pdh}", token=other)).status == 404
    user = await it.ok("GET", "users/current", token=other)
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": user["uuid"],
        "head_uuid": request["uuid"],
    }
    await it.ok("POST", "links", link)
    assert (await it.ok("GET", f"collections/{pdh}", token=other))["portable_data_hash"] == pdh


async def test_the_logs_of_attempts_are_kept_while_their_request_is(it: World) -> None:
    owner = await it.user("owner")
    request, pdh = await _retried(it, owner)
    last = await _save_log(it, b"the last attempt", owner)
    request = await fail(it, request, "timeout", log=last)
    assert request["state"] == "Final"
    it.clock.advance(90 * 86400)
    await sweep(it.app.services)
    for one in (pdh, last):
        found = await it.ok("GET", f"collections/{one}", token=owner)
        assert found["portable_data_hash"] == one
    await it.ok("DELETE", f"container_requests/{request['uuid']}", token=owner)
    await sweep(it.app.services)
    async with it.app.services.database.reading() as tx:
        assert await records.among(tx, COLLECTIONS, "portable_data_hash", [pdh, last]) == []
        assert await tx.fetch("SELECT 1 FROM container_attempts") == []
    assert (await it.request("GET", f"collections/{pdh}", token=owner)).status == 404
