"""Expected times of containers, and how right they were."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.core.records.schema import Record
from lading.store import run_times
from lading.testing.world import World, world

SIZE = {"VCPUs": 2, "RAM": "4GiB", "IncludedScratch": "50GiB"}
TYPES: Any = {
    "m5": {**SIZE, "Price": 0.72},
    "m5spot": {**SIZE, "Price": 0.18, "Preemptible": True},
}
QUOTA = {"reason": "quota", "sentence": "Waiting."}


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, InstanceTypes=TYPES) as made:
        yield made


async def ran(it: World, *seconds: float, tool: str = "tool") -> None:
    """Containers of a tool that took so many seconds."""
    for number, taken in enumerate(seconds):
        made = await it.submit(tool, f"{taken} {number}")
        token = await it.lock(made["container_uuid"])
        path = f"containers/{made['container_uuid']}"
        await it.ok("PUT", path, {"state": "Running"}, token=token)
        it.clock.advance(taken)
        await finish(it, path, token)


async def finish(it: World, path: str, token: str) -> None:
    uuid = path.rpartition("/")[2]
    own = await it.container_token(uuid)
    log = await it.collection({"l": uuid.encode()}, token=own, is_trashed=True)
    out = await it.collection({"o": b"output"}, token=own, is_trashed=True)
    final: Any = {"state": "Complete", "exit_code": 0, "log": log["portable_data_hash"]}
    await it.ok("PUT", path, final | {"output": out["portable_data_hash"]}, token=token)


async def start(it: World, request: Record) -> str:
    token = await it.lock(request["container_uuid"])
    path = f"containers/{request['container_uuid']}"
    await it.ok("PUT", path, {"state": "Running"}, token=token)
    return token


async def expected(it: World, request: Record, token: str | None = None) -> dict[str, Any]:
    why = await it.ok("GET", f"container_requests/{request['uuid']}/why", token=token)
    found: dict[str, Any] = why["expected"]
    return found


async def report(it: World, **items: Any) -> None:
    await it.ok("POST", "dispatch/statuses", {"items": items}, token=it.dispatcher)


async def test_a_run_is_expected_to_take_as_long_as_earlier_ones(it: World) -> None:
    request = await it.submit("tool", "x")
    assert (await expected(it, request))["run_time"] is None
    await ran(it, 60, 60, 70, 80, 80)
    found = await expected(it, request)
    assert found["run_time"]["median"] == pytest.approx(70, abs=0.1)
    assert found["run_time"]["runs"] == 5
    await start(it, request)
    it.clock.advance(30)
    assert (await expected(it, request))["sentences"] == [
        "It is expected to end in about 40 s: 5 runs of its program took about 70 s"
        " (about 60 s to 80 s)."
    ]
    other = await it.user("other")
    theirs = await it.submit("tool", "y", token=other)
    assert (await expected(it, theirs))["run_time"] is None


async def test_a_start_is_expected_from_the_queue_ahead(it: World) -> None:
    await ran(it, 100)
    running = await it.submit("tool", "running")
    await start(it, running)
    first, second = [await it.submit("tool", f"{number}") for number in range(2)]
    it.clock.advance(40)
    assert (await expected(it, first))["start_in"] == pytest.approx(60, abs=0.5)
    found = await expected(it, second)
    assert found["start_in"] == pytest.approx(160, abs=0.5)
    assert found["sentences"][0] == "It is expected to start in about 3 min."
    assert found["start_error"] is None
    # Where no machine can hold it, nothing is expected.
    await report(it, **{second["container_uuid"]: {"reason": "too large", "sentence": "No."}})
    found = await expected(it, second)
    assert (found["start_in"], found["finish_at"], found["sentences"]) == (None, None, [])


async def test_a_tool_without_experience_counts_as_the_others(it: World) -> None:
    await ran(it, 100)
    await start(it, await it.submit("unknown", "running"))
    waits = await it.submit("tool", "waits")
    it.clock.advance(40)
    assert (await expected(it, waits))["start_in"] == pytest.approx(60, abs=0.5)
    it.clock.advance(160)
    # It takes longer than expected by 100 s, and is expected to take half of that more.
    assert (await expected(it, waits))["start_in"] == pytest.approx(50, abs=0.5)


async def test_expectations_come_from_runs_of_who_asks(it: World) -> None:
    await ran(it, 100)
    await start(it, await it.submit("tool", "running"))
    waits = await it.submit("tool", "waits")
    it.clock.advance(40)
    other = await it.user("other")
    reader = (await it.ok("GET", "users/current", token=other))["uuid"]
    link = {"link_class": "permission", "name": "can_read", "tail_uuid": reader}
    await it.ok("POST", "links", {**link, "head_uuid": waits["uuid"]})
    # A reader without runs of its own learns nothing about those of others.
    found = await expected(it, waits, other)
    assert (found["run_time"], found["start_in"], found["sentences"]) == (None, None, [])
    theirs = await it.submit("short", token=other, priority=1000)
    token = await start(it, theirs)
    it.clock.advance(10)
    await finish(it, f"containers/{theirs['container_uuid']}", token)
    mine = await it.submit("short", "again", token=other)
    # Of the running container and of the one ahead it knows that they are there: each counts as
    # what this user usually runs, and the running one as half done.
    assert (await expected(it, mine, other))["start_in"] == pytest.approx(15, abs=0.5)
    assert (await expected(it, mine, other))["run_time"]["median"] == pytest.approx(10, abs=0.1)
    assert (await expected(it, waits, other))["run_time"] is None
    # An administrator reads all of them.
    assert (await expected(it, waits))["start_in"] == pytest.approx(50, abs=0.5)


async def test_the_errors_of_expectations_are_kept(it: World) -> None:
    await ran(it, 100)
    for number in range(12):
        running = await it.submit("tool", f"running {number}")
        token = await start(it, running)
        waits = await it.submit("tool", f"waits {number}")
        await report(it, **{waits["container_uuid"]: QUOTA})
        it.clock.advance(80)
        # Told again: the first expectation counts.
        await report(it, **{waits["container_uuid"]: QUOTA})
        await finish(it, f"containers/{running['container_uuid']}", token)
        token = await start(it, waits)
        await report(it, **{waits["container_uuid"]: ""})
        it.clock.advance(100)
        await finish(it, f"containers/{waits['container_uuid']}", token)
    async with it.app.services.database.reading() as tx:
        errors = await run_times.errors(tx)
    assert len(errors) == 12
    assert errors[-1] == pytest.approx(0.2, abs=0.01)
    await start(it, await it.submit("tool", "last running"))
    waits = await it.submit("tool", "last")
    assert "(usually right within " in (await expected(it, waits))["sentences"][0]


async def test_containers_that_are_reported_together_are_expected_in_their_order(
    it: World,
) -> None:
    await ran(it, 100)
    token = await start(it, running := await it.submit("tool", "running"))
    first, second = [await it.submit("tool", f"{number}") for number in range(2)]
    uuids = [one["container_uuid"] for one in (first, second)]
    await report(it, **dict.fromkeys(reversed(uuids), QUOTA))
    it.clock.advance(100)
    await finish(it, f"containers/{running['container_uuid']}", token)
    for request in (first, second):
        token = await start(it, request)
        await report(it, **{request["container_uuid"]: ""})
        it.clock.advance(100)
        await finish(it, f"containers/{request['container_uuid']}", token)
    async with it.app.services.database.reading() as tx:
        assert await run_times.errors(tx) == pytest.approx([0, 0], abs=0.01)


async def test_a_cancelled_container_says_nothing_about_expectations(it: World) -> None:
    await ran(it, 100)
    await start(it, await it.submit("tool", "running"))
    waits = await it.submit("tool", "waits")
    await report(it, **{waits["container_uuid"]: QUOTA})
    async with it.app.services.database.reading() as tx:
        assert await run_times.are_expected(tx, [waits["container_uuid"]])
    await it.ok("PUT", f"container_requests/{waits['uuid']}", {"priority": 0})
    await it.ok("POST", f"container_requests/{waits['uuid']}/cancel")
    await report(it, **{waits["container_uuid"]: ""})
    async with it.app.services.database.reading() as tx:
        assert await run_times.errors(tx) == []


async def test_a_deadline_that_will_be_missed_is_said(it: World) -> None:
    await ran(it, 600)
    late = await it.submit("tool", "late", scheduling_parameters={"deadline": 300})
    found = await expected(it, late)
    assert found["is_late"]
    assert "It is expected to miss its deadline, " in found["sentences"][-1]
    early = await it.submit("tool", "early", scheduling_parameters={"deadline": 3000})
    assert not (await expected(it, early))["is_late"]
    unknown = await it.submit("another", scheduling_parameters={"deadline": 300})
    assert not (await expected(it, unknown))["is_late"]
    it.clock.advance(301)
    found = await expected(it, unknown)
    assert found["is_late"]
    assert found["sentences"][-1].endswith("has passed.")


async def test_the_cost_and_the_end_on_both_kinds_of_vms_are_told(it: World) -> None:
    await ran(it, 3600)
    made = await it.submit(
        "tool", "spot", scheduling_parameters={"preemptible": "prefer", "deadline": 90_000}
    )
    container = await it.ok("GET", f"containers/{made['container_uuid']}")
    scheduling = container["scheduling_parameters"]
    assert scheduling["expected_run_time"] == 3600
    assert (scheduling["preemptible"], scheduling["prefer_preemptible"]) == (True, True)
    assert scheduling["deadline"] == made["scheduling_parameters"]["deadline"]
    found = await expected(it, made)
    # Of a VM it takes the mean of a half and of a sixteenth.
    share = (1 / 2 + 1 / 16) / 2
    assert [(one["instance_type"], one["preemptible"]) for one in found["offers"]] == [
        ("m5spot", True),
        ("m5", False),
    ]
    assert [one["cost"] for one in found["offers"]] == pytest.approx(
        [0.18 * share, 0.72 * share], rel=1e-3
    )
    spot, ordinary = found["sentences"][-2:]
    assert spot.startswith("On a preemptible VM (m5spot, $0.18 an hour) its run costs $0.05")
    assert "or with one loss at its end $0.10" in spot
    assert ordinary.startswith("On an ordinary VM (m5, $0.72 an hour) its run costs $0.20")


async def test_each_container_has_the_run_time_of_its_tool_in_its_record(it: World) -> None:
    first = await it.submit("tool", "first")
    container = await it.ok("GET", f"containers/{first['container_uuid']}")
    assert "expected_run_time" not in container["scheduling_parameters"]
    await ran(it, 60)
    made = await it.submit("tool", "x")
    container = await it.ok("GET", f"containers/{made['container_uuid']}")
    assert container["scheduling_parameters"]["expected_run_time"] == 60
    assert (await expected(it, made))["offers"] == []
