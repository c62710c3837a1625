from __future__ import annotations

from typing import Any

import pytest

from lading.testing.supervising import AUTH_SECRET, CONTAINER, SUPERVISOR_TOKEN
from tests.supervisor.supervised import Bench


async def test_running_is_reported_before_any_code_of_the_user_starts(bench: Bench) -> None:
    seen: list[Any] = []
    bench.add("true")
    bench.server.on_call = lambda call: seen.append(
        (call, bench.engine.started.is_set() if bench.engine else None)
    )
    await bench.run()
    assert ("PUT containers", False) in seen


@pytest.mark.parametrize("status", [401, 403, 404, 422])
async def test_losing_the_race_runs_nothing_and_writes_nothing(bench: Bench, status: int) -> None:
    record = bench.add("true")
    bench.server.faults = {"PUT containers": [status]}
    assert await bench.run() == 1
    assert bench.engine is not None
    assert "run" not in bench.engine.calls
    assert bench.engine.calls[-1] == "remove"
    assert (record["state"], bench.server.calls[-1]) == ("Locked", "PUT containers")


async def test_term_just_after_running_starts_nothing(bench: Bench) -> None:
    record = bench.add("true")
    bench.server.on_call = lambda call: bench.stop.set() if call == "PUT containers" else None
    assert await bench.run() == 0
    assert bench.engine is not None
    assert "run" not in bench.engine.calls
    assert record["state"] == "Cancelled"


async def test_a_missing_program_is_the_users_fault(bench: Bench) -> None:
    record = bench.add("", command=["no-such-program"])
    await bench.run()
    assert record["runtime_status"]["failure"] == "user"


async def test_a_container_that_may_call_the_api(bench: Bench) -> None:
    bench.settings = {"api_host_insecure": True}
    record = bench.add(
        "echo $ARVADOS_API_TOKEN $ARVADOS_API_HOST $ARVADOS_API_HOST_INSECURE > /out/env",
        runtime_constraints={"API": True, "ram": 1, "vcpus": 1},
    )
    await bench.run()
    token = f"v2/zzzzz-gj3su-containerauth01/{AUTH_SECRET}/{CONTAINER}"
    assert bench.output() == {"env": f"{token} host:1 1\n".encode()}
    assert bench.engine is not None
    assert bench.engine.spec is not None
    assert bench.engine.spec.network
    logs = b"".join(bench.server.files(record["log"]).values()).decode()
    assert AUTH_SECRET not in logs
    assert SUPERVISOR_TOKEN not in logs


@pytest.mark.parametrize("internet", [True, False])
async def test_the_internet_is_the_network_without_a_token(bench: Bench, internet: bool) -> None:
    constraints = {"API": False, "internet": internet, "ram": 1, "vcpus": 1}
    bench.add("echo $ARVADOS_API_TOKEN > /out/env", runtime_constraints=constraints)
    await bench.run()
    assert bench.engine is not None
    assert bench.engine.spec is not None
    assert bench.engine.spec.network is internet
    assert bench.output() == {"env": b"\n"}
