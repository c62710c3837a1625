from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.inputs import staging
from lading.supervisor.journal import read_journal, unfinished
from lading.testing.jumping_loop import jumping
from lading.testing.pulse import Bell
from lading.testing.supervising import AUTH_SECRET, CONTAINER, SUPERVISOR_TOKEN
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


async def test_a_container_that_takes_too_much_of_the_disk_is_ended(bench: Bench) -> None:
    bench.settings = {"tmp_capacity": 1 << 20, "scratch_beside": 1 << 20}
    script = (
        # Free space is compared with that at the begin of the watch, which then writes this file.
        f"trap '' TERM; until [ -e {bench.run_directory}/disk ]; do sleep 0.01; done; "
        "dd if=/dev/zero of=/out/big bs=1M count=64 2>/dev/null; while :; do sleep 0.01; done"
    )
    record = bench.add(script)
    assert await bench.run() == 0
    status = record["runtime_status"]
    assert (record["state"], status["failure"], record.get("exit_code")) == (
        "Cancelled",
        "disk",
        None,
    )
    assert " MiB to the disk of this machine, and 2.0 MiB are allowed" in status["error"]
    assert f"{status['error']}; ending the container" in bench.log()
    assert "abort" in (bench.engine.calls if bench.engine else ())
    assert not (bench.run_directory / "mounts").exists()


async def test_a_mount_that_holds_more_than_its_capacity_is_named(bench: Bench) -> None:
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1 << 20},
        "/scratch": {"kind": "tmp", "capacity": 64 << 20},
        "/small": {"kind": "tmp", "capacity": 64 << 10},
        "/any": {"kind": "tmp"},
    }
    script = "; ".join(f"head -c 200000 /dev/zero > {target}/f" for target in mounts)
    record = bench.add(script, mounts=mounts)
    assert await bench.run() == 0
    assert (record["state"], record["exit_code"]) == ("Complete", 0)
    sentence = (
        "/small held more than its capacity, 64.0 KiB; ask for more, so that the container is "
        "placed where so much is free"
    )
    assert record["runtime_status"] == {"warning": sentence, "warningDetail": sentence}
    assert sentence in bench.log()


async def test_a_container_is_given_back_where_the_disk_has_no_room(bench: Bench) -> None:
    bench.settings = {"disk_reserve": 1 << 60}
    record = bench.add("true")
    assert await bench.run() == 0
    assert (record["state"], bench.server.states) == ("Queued", ["Queued"])
    assert "error" not in record["runtime_status"]


async def test_few_calls(bench: Bench) -> None:
    bench.add("true", secret_mounts_md5="99914b932bd37a50b983c5e7c90ae93b")
    await bench.run()
    assert sorted(bench.server.calls[:2]) == ["GET auth", "GET containers"]
    assert bench.server.calls[2:] == ["GET collections", "PUT containers", "POST finish"]


async def test_running_is_reported_before_any_code_of_the_user_starts(bench: Bench) -> None:
    seen: list[Any] = []
    bench.add("true")
    bench.server.on_call = lambda call: seen.append(
        (call, bench.engine.started.is_set() if bench.engine else None)
    )
    await bench.run()
    assert ("PUT containers", False) in seen


async def test_the_room_is_free_once_the_command_has_ended(bench: Bench) -> None:
    calls: list[list[str]] = []
    bench.on_idle = lambda: calls.append(
        [*bench.server.calls, *(bench.engine.calls if bench.engine else ())]
    )
    bench.add("true")
    assert await bench.run() == 0
    (before,) = calls
    assert "run" in before
    assert "POST finish" not in before


@pytest.mark.parametrize(
    "changes",
    [
        {
            "mounts": {
                "/out": {"kind": "tmp"},
                "/quick": {"kind": "tmp", "device_type": "ram", "capacity": 1 << 20},
            }
        },
        {"scheduling_parameters": {"keep_on_failure": 600}},
        {"scheduling_parameters": {"nodes": 2}},
        {"command": ["/nonexistent"]},
    ],
)
async def test_what_still_takes_room_is_not_idle(bench: Bench, changes: dict[str, Any]) -> None:
    record = bench.add("exit 3", **{"output_path": "/out", **changes})
    told: list[bool] = []
    bench.on_idle = lambda: told.append(True)
    bench.on_engine = lambda engine: setattr(engine, "hold", _hold_until(bench.stop))
    await bench.run()
    assert record["state"] in ("Complete", "Cancelled")
    assert told == []


def _hold_until(stop: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def hold() -> None:
        stop.set()

    return hold


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
    kinds = ("GET containers", "GET auth", "PUT containers", "POST block", "POST collections")
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
    bench.server.faults = {"POST finish": [503], "PUT containers": [0, 503]}
    assert await bench.run() == 1
    assert record["state"] == "Running"


async def test_an_end_that_is_refused_becomes_cancelled(bench: Bench) -> None:
    record = bench.add("true")
    bench.server.faults = {"POST finish": [422], "PUT containers": [0, 422]}
    assert await bench.run() == 0
    assert record["state"] == "Cancelled"
    assert record["runtime_status"]["failure"] == "infrastructure"


async def test_term_cancels_and_saves(bench: Bench) -> None:
    with Bell(bench.directory / "bell") as bell:
        script = f"echo part > /out/file; trap 'exit 9' TERM; echo up; {ring(bell)}; {FOREVER}"
        record = bench.add(script, priority=0)
        bench.on_engine = lambda engine: then(bell.rung(), bench.stop.set)
        assert await bench.run() == 0
    assert (record["state"], record.get("exit_code")) == ("Cancelled", None)
    assert "failure" not in record["runtime_status"]
    assert bench.log("stdout.txt") == f"{STAMP} up\n"
    assert bench.output() == {"file": b"part\n"}


async def test_who_is_stopped_from_outside_says_so(bench: Bench) -> None:
    with Bell(bench.directory / "bell") as bell:
        record = bench.add(f"echo up; {ring(bell)}; {FOREVER}", priority=1)
        bench.on_engine = lambda engine: then(bell.rung(), bench.stop.set)
        assert await bench.run() == 0
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "infrastructure")
    assert "although its request still needs it" in record["runtime_status"]["error"]


@pytest.mark.parametrize("answers", [True, False])
async def test_a_stop_from_outside_is_left_to_a_dispatcher_that_learns_the_reason(
    bench: Bench, answers: bool
) -> None:
    bench.settings = {"dispatcher_classifies": True}
    if not answers:
        # After the first look, which has the record.
        bench.server.faults = {"GET containers": [0, 503]}
    with Bell(bench.directory / "bell") as bell:
        record = bench.add(
            f"echo part > /out/file; echo up; {ring(bell)}; {FOREVER}",
            priority=1, runtime_constraints={"vcpus": 1, "ram": 1 << 20},
        )  # fmt: skip
        bench.on_engine = lambda engine: then(bell.rung(), bench.stop.set)
        assert await bench.run() == 1
    assert (record["state"], record.get("finished_at")) == ("Running", None)
    assert "failure" not in record["runtime_status"]
    assert bench.log("stdout.txt") == f"{STAMP} up\n"
    assert "the dispatcher ends its record with the reason" in bench.log()


async def test_a_cancelled_container_is_not_left_to_the_dispatcher(bench: Bench) -> None:
    bench.settings = {"dispatcher_classifies": True}
    with Bell(bench.directory / "bell") as bell:
        record = bench.add(f"echo up; {ring(bell)}; {FOREVER}", priority=0)
        bench.on_engine = lambda engine: then(bell.rung(), bench.stop.set)
        assert await bench.run() == 0
    assert record["state"] == "Cancelled"


async def test_a_failed_container_is_kept_until_somebody_cancels(bench: Bench) -> None:
    record = bench.add("exit 3", scheduling_parameters={"keep_on_failure": 600})
    running = asyncio.create_task(bench.run())
    async with asyncio.timeout(30):
        while not (
            bench.engine
            and "hold" in bench.engine.calls
            and record["runtime_status"].get("activity")
        ):
            await asyncio.sleep(0)
    assert record["state"] == "Running"
    assert (
        "failed with exit code 3; its container is kept until"
        in record["runtime_status"]["activity"]
    )
    bench.stop.set()
    assert await running == 0
    assert (record["state"], record["exit_code"]) == ("Complete", 3)


@pytest.mark.parametrize("kept", [True, False])
async def test_what_is_left_of_a_container_is_killed_before_its_output_is_saved(
    bench: Bench, kept: bool
) -> None:
    bench.add(
        "echo data > /out/file; exit 3",
        scheduling_parameters={"keep_on_failure": 600 if kept else 0},
    )
    calls: list[list[str]] = []

    def note(call: str) -> None:
        if call == "POST finish" and bench.engine is not None:
            calls.append(list(bench.engine.calls))
        if "activity" in bench.server.containers[CONTAINER]["runtime_status"]:
            bench.stop.set()

    bench.server.on_call = note
    assert await bench.run() == 0
    assert calls
    assert calls[0][-1] == "kill"
    assert bench.output() == {"file": b"data\n"}


async def test_of_a_container_that_cannot_be_killed_only_the_log_is_saved(bench: Bench) -> None:
    record = bench.add("echo data > /out/file; echo said")
    bench.faults = {"kill": ExecutionError("processes [7] do not die", Failure.NODE)}
    assert await bench.run() == 0
    assert (record["state"], record["output"]) == ("Cancelled", None)
    assert record["runtime_status"]["failure"] == "node"
    assert "do not die" in record["runtime_status"]["error"]
    assert bench.log("stdout.txt") == f"{STAMP} said\n"
    assert [one["name"] for one in bench.server.collections.values() if "name" in one] == [
        f"logs for {CONTAINER}"
    ]


@pytest.mark.parametrize(("script", "seconds"), [("exit 0", 600), ("exit 3", 0)])
async def test_others_are_not_kept(bench: Bench, script: str, seconds: int) -> None:
    record = bench.add(script, scheduling_parameters={"keep_on_failure": seconds})
    assert await bench.run() == 0
    assert record["state"] == "Complete"
    assert bench.engine is not None
    assert "hold" not in bench.engine.calls


async def test_a_container_that_cannot_be_kept_ends_as_ever(bench: Bench) -> None:
    record = bench.add("exit 3", scheduling_parameters={"keep_on_failure": 600})
    bench.faults = {"hold": ExecutionError("no way")}
    assert await bench.run() == 0
    assert (record["state"], record["exit_code"]) == ("Complete", 3)
    assert "is not kept: no way" in bench.log("crunch-run.txt")


@pytest.mark.parametrize(
    ("call", "faults"), [("POST block", [503] * 99), ("POST collections", [503] * 99)]
)
@jumping
async def test_saving_ends_when_the_container_is_cancelled(
    bench: Bench, call: str, faults: list[int]
) -> None:
    bench.settings = {"unreachable_timeout": 600.0}
    record = bench.add("echo data > /out/file; exit 3")
    bench.server.faults = {"POST finish": [422], call: faults}
    bench.server.on_call = lambda seen: bench.stop.set() if seen == call else None
    assert await bench.run() == 0
    assert (record["state"], record.get("exit_code"), record["output"]) == ("Cancelled", None, None)
    assert record["runtime_status"] == {
        "warning": "cancelled while its output was saved; none of it is kept"
    }


@jumping
async def test_the_log_of_a_container_that_is_cancelled_while_it_is_saved_is_kept(
    bench: Bench,
) -> None:
    bench.settings = {"unreachable_timeout": 600.0}
    record = bench.add("echo data > /out/file; echo said")
    bench.server.faults = {"POST finish": [422], "POST collections": [503] * 99}

    def note(call: str) -> None:
        if call == "POST collections":
            bench.stop.set()
        if "stopped before" in (bench.run_directory / "log" / "crunch-run.txt").read_text():
            bench.server.faults.clear()

    bench.server.on_call = note
    assert await bench.run() == 0
    assert record["state"] == "Cancelled"
    assert bench.log("stdout.txt") == f"{STAMP} said\n"
    assert "stopped before all results were saved" in bench.log()


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


@pytest.mark.parametrize(
    ("call", "times", "state"),
    [
        ("GET auth", 1, "Queued"),  # record
        ("GET secret_mounts", 1, "Queued"),  # inputs, before anything is made
        ("GET collections", 1, "Queued"),  # inputs, while they are fetched
        ("PUT containers", 1, "Cancelled"),  # container: it is Running, the command is not
        ("POST live", 1, "Cancelled"),  # command
        ("POST finish", 1, "Complete"),  # its end: what is done is done
        ("POST collections", 1, "Complete"),
        ("PUT containers", 2, "Complete"),
    ],
)
async def test_cancelling_at_every_step(bench: Bench, call: str, times: int, state: str) -> None:
    """Whatever was being done: the state is final or the container given back, and log and output
    are saved.
    """
    ending = call in ("POST collections", "POST finish") or times == 2
    bench.server.faults = {"POST finish": [404]} if ending and call != "POST finish" else {}
    record = bench.add(
        "echo data > /out/file; echo said" if ending else f"echo data > /out/file; {WAIT_FOR_TERM}"
    )

    def on_call(name: str) -> None:
        if name == call and bench.server.calls.count(name) == times:
            bench.stop.set()

    bench.server.on_call = on_call
    assert await bench.run() == 0
    assert record["state"] == state
    if state == "Queued":
        assert record.get("log") is None
        assert bench.engine is None or "run" not in bench.engine.calls
        return
    assert bench.log().splitlines()[-1] == f"{STAMP} {state}"
    saved = {one["name"].split()[0] for one in bench.server.collections.values() if "name" in one}
    began = bench.engine is not None and "run" in bench.engine.calls
    assert saved == ({"logs", "output"} if began else {"logs"})
    assert bench.engine is not None
    assert bench.engine.calls[-1] == "remove"


@pytest.mark.parametrize("writes", [True, False])
async def test_time_is_limited(bench: Bench, *, writes: bool) -> None:
    script = f"echo part > /out/file; {FOREVER}" if writes else FOREVER
    record = bench.add(script, scheduling_parameters={"max_run_time": 1})
    bench.settings = {"stop_grace_period": 0.0}
    assert await bench.run() == 0
    assert record["state"] == "Cancelled"
    assert record["runtime_status"]["failure"] == "timeout"
    assert "max_run_time of 1 s" in record["runtime_status"]["error"]
    if writes:
        assert bench.output() == {"file": b"part\n"}
    else:
        assert record["output"] is None


async def test_out_of_memory_is_said(bench: Bench) -> None:
    record = bench.add("exit 137", runtime_status={"activity": "mine"})
    bench.out_of_memory = True
    await bench.run()
    assert (record["state"], record["exit_code"]) == ("Complete", 137)
    assert record["runtime_status"]["failure"] == "oom"
    assert record["runtime_status"]["activity"] == "mine"
    assert "64.0 MiB of ram" in record["runtime_status"]["error"]


@pytest.mark.parametrize("method", ["prepare", "create", "run"])
async def test_an_engine_that_fails_cancels_with_its_reason(bench: Bench, method: str) -> None:
    record = bench.add("true")
    bench.faults = {method: ExecutionError("it is broken", Failure.NODE)}
    assert await bench.run() == 0
    assert record["state"] == "Cancelled"
    assert record["runtime_status"] == {"error": "it is broken", "failure": "node"}
    assert bench.log().splitlines()[-2:] == [f"{STAMP} it is broken", f"{STAMP} Cancelled"]


async def test_a_broken_machine_gives_the_container_back(bench: Bench) -> None:
    record = bench.add("true")
    bench.settings = {"lock_directory": str(bench.directory / "lock")}
    bench.faults = dict.fromkeys(("prepare", "check"), ExecutionError("gone", Failure.NODE))
    assert await bench.run() == 0
    assert (record["state"], record.get("log")) == ("Queued", None)
    assert (bench.directory / "lock" / "crunch-run-broken").exists()


async def test_a_machine_that_breaks_after_running_was_reported_cancels(bench: Bench) -> None:
    record = bench.add("true")
    bench.settings = {"lock_directory": str(bench.directory / "lock")}
    bench.faults = dict.fromkeys(("run", "check"), ExecutionError("full", Failure.NODE))
    await bench.run()
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "node")
    assert "marked as broken" in bench.log()


async def test_what_the_container_provokes_does_not_break_the_machine(bench: Bench) -> None:
    pdh = bench.server.add_collection({"x": b"x"})
    bench.add(
        "true",
        mounts={"/out": {"kind": "tmp"}, "/in": {"kind": "collection", "portable_data_hash": pdh}},
    )
    bench.settings = {"lock_directory": str(bench.directory / "lock")}
    bench.server.faults = {"GET block": [422] * 9}
    await bench.run()
    assert not (bench.directory / "lock").exists()


async def test_giving_back_sends_no_cost(bench: Bench) -> None:
    """The server refuses a cost with state Queued."""
    bench.add("true")
    bench.settings = {
        "instance_type": {"Price": 1.0},
        "lock_directory": str(bench.directory / "lock"),
    }
    bench.faults = dict.fromkeys(("prepare", "check"), ExecutionError("gone", Failure.NODE))
    await bench.run()
    assert msgspec.json.decode(bench.server.bodies[-1]) == {"container": {"state": "Queued"}}


async def test_the_instance_is_described_whole(bench: Bench) -> None:
    """The name of the type and its scratch, too (docs/spec/containers, section Log)."""
    instance = {
        "Name": "big",
        "ProviderType": "t2.big",
        "Price": 1.5,
        "VCPUs": 4,
        "RAM": 5,
        "Scratch": 6,
    }
    bench.settings = {"instance_type": instance}
    bench.add("true")
    await bench.run()
    assert msgspec.json.decode(bench.log("node.json")) == instance


async def test_a_machine_without_a_type_is_described_as_one(bench: Bench) -> None:
    record = bench.add("true")
    await bench.run()
    described = msgspec.json.decode(bench.log("node.json"))
    assert described["Name"] == os.uname().nodename
    assert described["VCPUs"] >= 1
    assert described["RAM"] > 1 << 20
    assert described["Price"] == 0
    assert "nothing to mount: the container has no collections" in bench.log("arv-mount.txt")
    assert set(bench.server.files(record["log"])) == {
        "arv-mount.txt",
        "container.json",
        "crunch-run.txt",
        "node-info.txt",
        "node.json",
    } | {
        name
        for name in bench.server.files(record["log"])
        if name in ("stdout.txt", "stderr.txt", "crunchstat.txt")
    }


async def test_a_full_disk_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    record = bench.add("exit 1")
    monkeypatch.setattr(staging, "FULL_BELOW", 1 << 80)
    await bench.run()
    assert (record["state"], record["exit_code"], record["runtime_status"]["failure"]) == (
        "Complete",
        1,
        "disk",
    )
    assert "the disk of this machine was full" in record["runtime_status"]["error"]


async def test_a_missing_program_is_the_users_fault(bench: Bench) -> None:
    record = bench.add("", command=["no-such-program"])
    await bench.run()
    assert record["runtime_status"]["failure"] == "user"


async def test_a_missing_image(bench: Bench) -> None:
    record = bench.add("true", container_image="acbd18db4cc2f85cedef654fccc4a4d8+3")
    await bench.run()
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "image")


async def test_mounts_that_cannot_be_made_run_nothing(bench: Bench) -> None:
    record = bench.add("true", mounts={"/out": {"kind": "tmp"}, "/x": {"kind": "file"}})
    await bench.run()
    assert record["runtime_status"]["error"].startswith("mounts[/x]")
    assert bench.server.states == ["Cancelled"]


async def test_an_entry_that_cannot_be_saved_costs_itself_alone(bench: Bench) -> None:
    record = bench.add("echo hi > /out/f; ln -s /nowhere /out/link; exit 4")
    await bench.run()
    assert (record["state"], record["exit_code"]) == ("Complete", 4)
    assert bench.output() == {"f": b"hi\n"}
    sentence = "/out/link is a link to /nowhere, which is in no mount of the container"
    assert record["runtime_status"] == {
        "warning": f"output: 1 entry not saved, such as: {sentence}",
        "warningDetail": sentence,
        "omitted": 1,
    }
    log = bench.server.files(record["log"])["crunch-run.txt"]
    assert log.count(sentence.encode()) == 1


async def test_strict_output_makes_an_entry_that_cannot_be_saved_a_failure(bench: Bench) -> None:
    script = "echo hi > /out/f; ln -s /nowhere /out/link"
    record = bench.add(script, strict_output=True)
    await bench.run()
    sentence = "/out/link is a link to /nowhere, which is in no mount of the container"
    # Each sentence once.
    assert (record["state"], record["runtime_status"]) == (
        "Cancelled",
        {
            "error": "output: an entry cannot be saved, and strict_output makes that a failure: "
            + sentence,
            "errorDetail": "The command ended with exit code 0.",
            "failure": "user",
            "omitted": 1,
        },
    )
    assert bench.server.files(record["log"])["crunch-run.txt"].count(sentence.encode()) == 1
    # The rest is saved, and named.
    assert bench.output() == {"f": b"hi\n"}


async def test_strict_output_names_all_entries_once(bench: Bench) -> None:
    script = "ln -s /nowhere /out/a; ln -s /nowhere /out/b"
    record = bench.add(script, strict_output=True)
    await bench.run()
    status = record["runtime_status"]
    assert "2 entries cannot be saved" in status["error"]
    assert status["error"].endswith(
        "such as: /out/a is a link to /nowhere, which is in no mount of the container"
    )
    assert status["errorDetail"].startswith("/out/b is a link to /nowhere")
    assert "warning" not in status


async def test_strict_output_of_which_all_is_saved(bench: Bench) -> None:
    record = bench.add("echo hi > /out/f; mkfifo /out/fifo", strict_output=True)
    await bench.run()
    assert (record["state"], record["exit_code"]) == ("Complete", 0)
    assert record["runtime_status"] == {}


async def test_an_output_of_which_nothing_can_be_saved_cancels(bench: Bench) -> None:
    record = bench.add("ln -s /nowhere /out/link; exit 4", output_path="/out/link")
    await bench.run()
    assert (record["state"], record.get("exit_code"), record["output"]) == ("Cancelled", None, None)
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


async def test_a_link_into_another_tmp_mount_is_left_out(bench: Bench) -> None:
    """Only the output and inputs that are stored already outlive the container; the message names
    link and target.
    """
    mounts = {"/var/spool/cwl": {"kind": "tmp"}, "/mine": {"kind": "tmp"}}
    script = "echo right > /mine/x; ln -s /mi''ne/x /var/spool/cwl/link"
    record = bench.add(script, mounts=mounts, output_path="/var/spool/cwl")
    await bench.run()
    assert (record["state"], bench.output()) == ("Complete", {})
    assert "/var/spool/cwl/link is a link to /mine/x, which is in the mount /mine, whose" in str(
        record["runtime_status"]
    )


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
    assert bench.server.calls.count("POST collections") == 3
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
