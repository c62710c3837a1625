"""Containers whose record is Running since their lock."""

from __future__ import annotations

import pytest

from tests.supervisor.lifecycle.scripts import WAIT_FOR_TERM
from tests.supervisor.supervised import Bench


@pytest.fixture
def started(bench: Bench) -> Bench:
    bench.settings = {"is_started": True}
    return bench


async def test_running_is_not_reported_again(started: Bench) -> None:
    record = started.add("echo hello", state="Running")
    assert await started.run() == 0
    assert (record["state"], record["exit_code"]) == ("Complete", 0)
    assert "PUT containers" not in started.server.calls
    assert started.log("stdout.txt").endswith("hello\n")


async def test_a_container_that_is_only_locked_is_not_ours_to_run(started: Bench) -> None:
    record = started.add("true")
    assert await started.run() == 1
    assert started.engine is not None
    assert "run" not in started.engine.calls
    assert record["state"] == "Locked"


async def test_a_gateway_is_reported_once_it_has_run_for_a_moment(started: Bench) -> None:
    record = started.add(WAIT_FOR_TERM, state="Running", gateway_auth_secret="k", priority=0)
    started.server.on_call = lambda call: started.stop.set() if call == "PUT containers" else None
    assert await started.run() == 0
    assert record["gateway_address"].startswith("127.0.0.1:")
    assert record["state"] == "Cancelled"


@pytest.mark.parametrize("status", [401, 422, 503])
async def test_a_gateway_that_is_refused_ends_nothing(started: Bench, status: int) -> None:
    record = started.add("sleep 0.5", state="Running", gateway_auth_secret="k")
    started.server.faults = {"PUT containers": [status]}
    assert await started.run() == 0
    assert (record["state"], record.get("gateway_address", "")) == ("Complete", "")
    assert "nobody can enter this container: " in started.log()


async def test_a_stop_before_the_command_starts_nothing(started: Bench) -> None:
    record = started.add("true", state="Running", priority=0)
    started.stop.set()
    assert await started.run() == 0
    assert started.engine is None or "run" not in started.engine.calls
    assert record["state"] == "Cancelled"


async def test_a_disk_without_room_is_a_fault_of_the_machine(started: Bench) -> None:
    started.settings = {"is_started": True, "disk_reserve": 1 << 60}
    record = started.add("true", state="Running")
    assert await started.run() == 0
    assert record["state"] == "Cancelled"
    assert record["runtime_status"]["failure"] == "infrastructure"
    assert "the container cannot begin" in record["runtime_status"]["error"]
