from __future__ import annotations

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.inputs import staging
from lading.testing.pulse import Bell
from tests.supervisor.lifecycle.scripts import FOREVER, ring, then
from tests.supervisor.supervised import STAMP, Bench


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
