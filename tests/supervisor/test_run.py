from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.journal import read_journal, unfinished
from lading.testing.supervising import AUTH_SECRET, CONTAINER, SUPERVISOR_TOKEN
from tests.bell import Bell
from tests.supervisor.supervised import STAMP, Bench, open_files

FOREVER = "while :; do sleep 0.01; done"
WAIT_FOR_TERM = f"trap 'exit 9' TERM; echo up; {FOREVER}"


async def test_a_whole_life(bench: Bench) -> None:
    record = bench.add("echo hello; echo oops >&2; echo data > /out/file; exit 3")
    assert await bench.run() == 0
    assert (record["state"], record["exit_code"]) == ("Complete", 3)
    assert bench.server.states == ["Running", "Complete"]
    assert bench.output() == {"file": b"data\n"}
    assert bench.log("stdout.txt") == f"{STAMP} hello\n"
    assert bench.log("stderr.txt") == f"{STAMP} oops\n"
    assert bench.log().splitlines()[-1] == f"{STAMP} Complete"
    assert msgspec.json.decode(bench.log("container.json"))["uuid"] == CONTAINER
    assert "Memory Information" in bench.log("node-info.txt")


async def test_few_calls(bench: Bench) -> None:
    bench.add("true", secret_mounts_md5="99914b932bd37a50b983c5e7c90ae93b")
    await bench.run()
    assert sorted(bench.server.calls[:2]) == ["GET auth", "GET containers"]
    assert bench.server.calls[2:4] == ["GET collections", "PUT containers"]
    assert sorted(bench.server.calls[4:-1]) == ["POST collections", "POST collections", "PUT block"]
    assert bench.server.calls[-1] == "PUT containers"


async def test_running_is_reported_before_any_code_of_the_user_starts(bench: Bench) -> None:
    seen: list[Any] = []
    bench.add("true")
    bench.server.on_call = lambda call: seen.append((call, bench.engine.started.is_set() if bench.engine else None))
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


@pytest.mark.parametrize("state", ["Queued", "Running", "Complete"])
async def test_a_container_that_is_not_locked_is_left_alone(bench: Bench, state: str) -> None:
    record = bench.add("true", state=state)
    assert await bench.run() == 1
    assert (record["state"], bench.server.states) == (state, [])


async def test_what_is_tried_again(bench: Bench) -> None:
    bench.settings = {"unreachable_timeout": 60.0}
    record = bench.add("echo data > /out/file")
    kinds = ("GET containers", "GET auth", "PUT containers", "PUT block", "POST collections")
    bench.server.faults = {kind: [503] for kind in kinds}
    assert await bench.run() == 0
    assert record["state"] == "Complete"


async def test_a_record_that_cannot_be_read_is_left_to_the_dispatcher(bench: Bench) -> None:
    bench.add("true")
    bench.server.faults = {"GET containers": [503]}
    assert await bench.run() == 1
    assert sorted(bench.server.calls) == ["GET auth", "GET containers"]


async def test_an_end_that_cannot_be_reported_is_a_failure(bench: Bench) -> None:
    record = bench.add("true")
    bench.server.faults = {"PUT containers": [0, 503]}
    assert await bench.run() == 1
    assert record["state"] == "Running"


async def test_an_end_that_is_refused_becomes_cancelled(bench: Bench) -> None:
    record = bench.add("true")
    bench.server.faults = {"PUT containers": [0, 422]}
    assert await bench.run() == 0
    assert record["state"] == "Cancelled"
    assert record["runtime_status"]["failure"] == "infrastructure"


async def test_term_cancels_and_saves(bench: Bench) -> None:
    with Bell(bench.directory / "bell") as bell:
        record = bench.add(f"echo part > /out/file; trap 'exit 9' TERM; echo up; {ring(bell)}; {FOREVER}")
        bench.on_engine = lambda engine: then(bell.rung(), bench.stop.set)
        assert await bench.run() == 0
    assert (record["state"], record["exit_code"], record["output"]) == ("Cancelled", 9, None)
    assert "failure" not in record["runtime_status"]
    assert bench.log("stdout.txt") == f"{STAMP} up\n"
    assert any(one["name"].startswith("output") for one in bench.server.collections.values() if "name" in one)


async def test_term_before_running_gives_the_container_back(bench: Bench) -> None:
    record = bench.add("true")
    bench.stop.set()
    assert await bench.run() == 0
    assert (record["state"], record.get("log")) == ("Queued", None)


async def test_term_just_after_running_starts_nothing(bench: Bench) -> None:
    record = bench.add("true")
    bench.server.on_call = lambda call: bench.stop.set() if call == "PUT containers" else None
    assert await bench.run() == 0
    assert bench.engine is not None
    assert "run" not in bench.engine.calls
    assert record["state"] == "Cancelled"


async def test_time_is_limited(bench: Bench) -> None:
    record = bench.add("sleep 100", scheduling_parameters={"max_run_time": 1})
    bench.settings = {"stop_grace_period": 0.0}
    assert await bench.run() == 0
    assert record["state"] == "Cancelled"
    assert record["runtime_status"]["failure"] == "timeout"
    assert "max_run_time of 1 s" in record["runtime_status"]["error"]


async def test_out_of_memory_is_said(bench: Bench) -> None:
    record = bench.add("exit 137", runtime_status={"activity": "mine"})
    bench.out_of_memory = True
    await bench.run()
    assert (record["state"], record["exit_code"]) == ("Complete", 137)
    assert record["runtime_status"]["failure"] == "oom"
    assert record["runtime_status"]["activity"] == "mine"
    assert "67108864 bytes of ram" in record["runtime_status"]["error"]


@pytest.mark.parametrize("method", ["prepare", "create", "run"])
async def test_an_engine_that_fails_cancels_with_its_reason(bench: Bench, method: str) -> None:
    record = bench.add("true")
    bench.faults = {method: ExecutionError("it is broken", Failure.NODE)}
    assert await bench.run() == 0
    assert record["state"] == "Cancelled"
    assert record["runtime_status"] == {"error": "it is broken", "failure": "node"}
    assert bench.log().splitlines()[-2:] == [f"{STAMP} it is broken", f"{STAMP} Cancelled"]


async def test_a_missing_program_is_the_users_fault(bench: Bench) -> None:
    record = bench.add("", command=["no-such-program"])
    await bench.run()
    assert record["runtime_status"]["failure"] == "user"


async def test_a_missing_image(bench: Bench) -> None:
    record = bench.add("true", container_image="acbd18db4cc2f85cedef654fccc4a4d8+3")
    await bench.run()
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "image")


async def test_mounts_that_cannot_be_made_run_nothing(bench: Bench) -> None:
    record = bench.add("true", mounts={"/out": {"kind": "tmp"}, "/x": {"kind": "keep"}})
    await bench.run()
    assert record["runtime_status"]["error"].startswith("mounts[/x]")
    assert bench.server.states == ["Cancelled"]


async def test_an_output_that_cannot_be_saved_cancels(bench: Bench) -> None:
    record = bench.add("ln -s /nowhere /out/link; exit 4")
    await bench.run()
    assert (record["state"], record["exit_code"], record["output"]) == ("Cancelled", 4, None)
    assert "in no mount" in record["runtime_status"]["error"]


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


async def test_globs_choose_from_the_output(bench: Bench) -> None:
    bench.add("echo 1 > /out/a.txt; echo 2 > /out/b.log", output_glob=["*.txt"])
    await bench.run()
    assert list(bench.output()) == ["a.txt"]


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


async def test_an_output_that_the_container_has_saved_itself(bench: Bench) -> None:
    pdh = bench.server.add_collection({"own": b"x"})
    record = bench.add("true", runtime_constraints={"API": True, "ram": 1, "vcpus": 1}, output=pdh)
    await bench.run()
    assert record["output"] == pdh
    assert bench.server.calls.count("POST collections") == 1


async def test_the_log_is_saved_when_asked(bench: Bench) -> None:
    record = bench.add(WAIT_FOR_TERM)

    def on_call(call: str) -> None:
        if call == "PUT containers" and bench.server.calls.count(call) == 2:
            bench.stop.set()

    bench.server.on_call = on_call
    bench.on_engine = lambda engine: then(engine.started.wait(), bench.flush.set)
    await bench.run()
    assert bench.server.calls.count("POST collections") == 2
    assert "PUT collections" in bench.server.calls
    assert "Cancelled" in bench.log()
    assert record["state"] == "Cancelled"


async def test_a_log_that_cannot_be_saved_now_is_no_end(bench: Bench) -> None:
    record = bench.add(WAIT_FOR_TERM)
    bench.server.faults = {"POST collections": [422]}
    bench.server.on_call = lambda call: bench.stop.set() if call == "POST collections" else None
    bench.on_engine = lambda engine: then(engine.started.wait(), bench.flush.set)
    await bench.run()
    assert record["state"] == "Cancelled"
    assert "the log could not be saved" in bench.log()


async def test_a_token_that_is_dead_stops_the_command_and_writes_nothing(bench: Bench) -> None:
    record = bench.add("echo up; sleep 100")
    bench.settings = {"stop_grace_period": 0.0}
    bench.server.faults = {"POST live": [401]}
    assert await bench.run() == 1
    assert (record["state"], bench.server.states) == ("Running", ["Running"])


async def test_the_live_view_grows_with_the_log(bench: Bench) -> None:
    bench.settings = {"log_update_period": 0.001}
    bench.add(WAIT_FOR_TERM)
    bench.server.on_call = lambda call: bench.stop.set() if call == "POST live" else None
    await bench.run()
    assert bench.server.live["stdout.txt"] == f"{STAMP} up\n".encode()


async def test_every_step_is_journalled_and_undone(bench: Bench) -> None:
    bench.add("true")
    await bench.run()
    found = read_journal(bench.run_directory)
    assert found is not None
    opening, lines = found
    assert opening.settings.container_uuid == CONTAINER
    assert {line.step for line in lines} == {"record", "inputs", "container", "command"}
    assert unfinished(lines) == []
    assert SUPERVISOR_TOKEN.encode() not in (bench.run_directory / "journal").read_bytes()


async def test_what_cannot_be_undone_stays_in_the_journal(bench: Bench) -> None:
    bench.add("true")
    bench.faults = {"remove": ExecutionError("stuck")}
    assert await bench.run() == 0
    found = read_journal(bench.run_directory)
    assert found is not None
    assert unfinished(found[1]) == ["container"]


async def test_limits_that_are_not_enforced_are_in_the_log(bench: Bench) -> None:
    bench.add("true")
    bench.on_engine = lambda engine: engine.notes.append("no cgroups here")
    await bench.run()
    assert "no cgroups here" in bench.log()


async def test_no_descriptor_is_left_open(bench: Bench) -> None:
    bench.add("true")
    before = open_files()
    await bench.run()
    assert open_files() == before


def ring(bell: Bell) -> str:
    """The shell command that rings a bell."""
    return f"echo > {bell.path}"


def then(waiting: Any, action: Any) -> None:
    """Do something when a wait is over."""
    task = asyncio.ensure_future(waiting)
    task.add_done_callback(lambda _: action())
