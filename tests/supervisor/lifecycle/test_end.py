"""The end of a run."""

from __future__ import annotations

import msgspec
import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.inputs import full_mounts
from lading.testing.jumping_loop import jumping
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
    monkeypatch.setattr(full_mounts, "FULL_BELOW", 1 << 80)
    await bench.run()
    assert (record["state"], record["exit_code"], record["runtime_status"]["failure"]) == (
        "Complete",
        1,
        "disk",
    )
    assert "the disk of this machine was full" in record["runtime_status"]["error"]


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
    status = record["runtime_status"]
    assert "error" not in status
    assert status["warning"].startswith("output: 1 fifo, socket or device left out")


async def test_an_output_of_which_nothing_can_be_saved_cancels(bench: Bench) -> None:
    record = bench.add("ln -s /nowhere /out/link; exit 4", output_path="/out/link")
    await bench.run()
    assert (record["state"], record.get("exit_code"), record["output"]) == ("Cancelled", None, None)
    assert "in no mount" in record["runtime_status"]["error"]


async def test_globs_choose_from_the_output(bench: Bench) -> None:
    bench.add("echo 1 > /out/a.txt; echo 2 > /out/b.log", output_glob=["*.txt"])
    await bench.run()
    assert list(bench.output()) == ["a.txt"]


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


async def test_an_output_that_the_container_has_saved_itself(bench: Bench) -> None:
    pdh = bench.server.add_collection({"own": b"x"})
    record = bench.add("true", runtime_constraints={"API": True, "ram": 1, "vcpus": 1}, output=pdh)
    await bench.run()
    assert record["output"] == pdh
    assert bench.server.calls.count("POST collections") == 1


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
