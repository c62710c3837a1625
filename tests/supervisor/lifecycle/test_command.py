"""The command of a run, with the monitors beside it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from lading.core.errors import ExecutionError, Failure
from lading.core.quantities import format_time
from lading.testing.engine import StubEngine
from lading.testing.pulse import Bell
from lading.testing.supervising import CONTAINER
from tests.supervisor.lifecycle.scripts import FOREVER, WAIT_FOR_TERM, ring, then
from tests.supervisor.supervised import MOMENT, STAMP, Bench


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


async def test_the_time_for_which_a_container_is_kept_is_no_run_time(bench: Bench) -> None:
    record = bench.add("exit 3", scheduling_parameters={"keep_on_failure": 600})
    bench.settings = {"instance_type": {"Price": 1.0}, "instance_share": 1.0}
    times = [MOMENT]
    bench.clock = lambda: times[-1]

    def pass_time(engine: StubEngine) -> None:
        async def hold() -> None:
            times.append(MOMENT + timedelta(hours=9))
            bench.stop.set()

        setattr(engine, "hold", hold)  # noqa: B010 - a method of this engine alone

    bench.on_engine = pass_time
    assert await bench.run() == 0
    assert (record["state"], record["exit_code"]) == ("Complete", 3)
    assert record["finished_at"] == format_time(MOMENT)
    assert record["cost"] == 0.0


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


async def test_limits_that_are_not_enforced_are_in_the_log(bench: Bench) -> None:
    bench.add("true")
    bench.on_engine = lambda engine: engine.notes.append("no cgroups here")
    await bench.run()
    assert "no cgroups here" in bench.log()


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


async def test_a_network_that_is_lost_is_told_in_the_log(bench: Bench) -> None:
    def lose(engine: StubEngine) -> None:
        assert engine.spec is not None
        engine.spec.reach.on_fault("the container has no internet any more")

    with Bell(bench.directory / "bell") as bell:
        bench.add(f"{ring(bell)}; exec sleep 0.2", runtime_constraints={"internet": True})
        bench.on_engine = lambda engine: then(bell.rung(), lambda: lose(engine))
        await bench.run()
    assert "Z the container has no internet any more\n" in bench.log()
