"""The steps up to a Running container."""

from __future__ import annotations

from typing import Any

import pytest

from lading.testing.supervising import AUTH_SECRET, CONTAINER, SUPERVISOR_TOKEN
from tests.supervisor.supervised import Bench


@pytest.mark.parametrize("state", ["Queued", "Running", "Complete"])
async def test_a_container_that_is_not_locked_is_left_alone(bench: Bench, state: str) -> None:
    record = bench.add("true", state=state)
    assert await bench.run() == 1
    assert (record["state"], bench.server.states) == (state, [])


async def test_a_record_that_cannot_be_read_is_left_to_the_dispatcher(bench: Bench) -> None:
    bench.add("true")
    bench.server.faults = {"GET containers": [503]}
    assert await bench.run() == 1
    assert sorted(bench.server.calls) == ["GET auth", "GET containers"]


async def test_a_container_is_given_back_where_the_disk_has_no_room(bench: Bench) -> None:
    bench.settings = {"disk_reserve": 1 << 60}
    record = bench.add("true")
    assert await bench.run() == 0
    assert (record["state"], bench.server.states) == ("Queued", ["Queued"])
    assert "error" not in record["runtime_status"]


async def test_a_missing_image(bench: Bench) -> None:
    record = bench.add("true", container_image="acbd18db4cc2f85cedef654fccc4a4d8+3")
    await bench.run()
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "image")


async def test_mounts_that_cannot_be_made_run_nothing(bench: Bench) -> None:
    record = bench.add("true", mounts={"/out": {"kind": "tmp"}, "/x": {"kind": "file"}})
    await bench.run()
    assert record["runtime_status"]["error"].startswith("mounts[/x]")
    assert bench.server.states == ["Cancelled"]


async def test_inputs_streams_and_references(bench: Bench) -> None:
    pdh = bench.server.add_collection({"d/x": b"input\n", "y": b"other\n"})
    record = bench.add(
        "cat; cat /in/x; ln -s /i''n/x /out/link",
        mounts={
            "/out": {"kind": "tmp"},
            "/in": {"kind": "collection", "portable_data_hash": pdh, "path": "d"},
            "stdin": {"kind": "json", "content": {"a": 1}},
            "stdout": {"kind": "file", "path": "/out/deep/out.txt"},
        },
    )
    await bench.run()
    assert record["state"] == "Complete"
    assert bench.output() == {"deep/out.txt": b'{"a":1}input\n', "link": b"input\n"}
    assert "stdout.txt" not in bench.server.files(record["log"])


async def test_secrets_reach_the_command_and_nothing_else(bench: Bench) -> None:
    record = bench.add("cat /key > /out/copy")
    bench.server.secrets[CONTAINER] = {"/key": {"kind": "text", "content": "hush"}}
    await bench.run()
    assert record["state"] == "Complete"
    assert bench.output() == {"copy": b"hush"}
    assert b"hush" not in b"".join(bench.server.files(record["log"]).values())


async def test_json_as_input_is_a_stream_and_no_mount(bench: Bench) -> None:
    """It must not become a bind to the relative target `stdin` (docs/spec/containers, section
    Mounts).
    """
    bench.add(
        "cat > /out/x", mounts={"/out": {"kind": "tmp"}, "stdin": {"kind": "json", "content": [1]}}
    )
    await bench.run()
    assert bench.engine is not None
    assert bench.engine.spec is not None
    assert [bind.target for bind in bench.engine.spec.binds] == ["/out"]
    assert bench.output() == {"x": b"[1]"}


async def test_a_secret_as_input_is_delivered_and_not_saved(bench: Bench) -> None:
    """docs/spec/containers, section Secrets."""
    record = bench.add("read -r word; echo ${#word} > /out/x")
    bench.server.secrets[CONTAINER] = {"stdin": {"kind": "text", "content": "hush\n"}}
    await bench.run()
    assert bench.output() == {"x": b"4\n"}
    everything = b"".join(bench.server.files(record["log"]).values()) + b"".join(
        bench.server.blocks.values()
    )
    assert b"hush" not in everything


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
