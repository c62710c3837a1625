from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.quantities import format_time
from lading.supervisor import linux
from tests.supervisor.supervised import MOMENT, STAMP, Bench


async def test_an_output_that_the_store_refuses_is_said_and_the_log_saved_anew(
    bench: Bench,
) -> None:
    record = bench.add("echo x > /out/file")
    bench.server.faults = {"POST finish": [404], "POST collections": [422]}
    await bench.run()
    assert record["state"] == "Cancelled"
    assert "the output cannot be saved" in record["runtime_status"]["error"]
    assert bench.log().splitlines()[-1] == f"{STAMP} Cancelled"


async def test_a_store_that_cannot_take_it_is_the_end_of_the_container(bench: Bench) -> None:
    record = bench.add("echo x > /out/file")
    bench.server.faults = {"POST finish": [503], "POST block": [503] * 3}
    assert await bench.run() == 0
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "infrastructure")
    assert "the output cannot be saved" in record["runtime_status"]["error"]
    assert record.get("log") is None


async def test_a_store_that_stays_full_is_told_without_results(bench: Bench) -> None:
    record = bench.add("echo x > /out/file")
    bench.server.faults = {"POST finish": [507] * 2, "POST block": [507] * 4}
    assert await bench.run() == 0
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "disk")
    assert "its results cannot be saved" in record["runtime_status"]["error"]
    assert record.get("log") is None


async def test_a_log_that_cannot_be_stored_is_said(bench: Bench) -> None:
    record = bench.add("true")
    bench.server.faults = {"POST finish": [503], "POST block": [503]}
    await bench.run()
    assert "the log cannot be saved" in record["runtime_status"]["error"]


async def test_the_end_is_that_of_the_command(bench: Bench) -> None:
    record = bench.add("true")
    await bench.run()
    assert (record["state"], record["finished_at"]) == ("Complete", format_time(MOMENT))


async def test_a_server_that_is_away_leaves_the_end_unreported(bench: Bench) -> None:
    record = bench.add("true")
    bench.server.faults = {"POST finish": [503], "PUT containers": [0, 503]}
    assert await bench.run() == 1
    assert record["state"] == "Running"


async def test_an_end_that_a_full_disk_has_no_room_for_is_reported_when_its_scratch_has_gone(
    bench: Bench,
) -> None:
    record = bench.add("echo x > /out/file")
    bench.server.faults = {"POST finish": [507], "POST block": [507, 507]}
    scratch: list[bool] = []
    bench.server.on_call = lambda _: scratch.append((bench.run_directory / "mounts").exists())
    assert await bench.run() == 0
    assert list(zip(bench.server.calls, scratch, strict=True))[-3:] == [
        ("POST block", True),
        ("GET containers", False),
        ("POST finish", False),
    ]
    assert (record["state"], record.get("exit_code"), record["output"]) == ("Cancelled", None, None)
    assert record["runtime_status"]["failure"] == "disk"
    assert "its results cannot be saved: told to answer 507" in record["runtime_status"]["error"]
    assert bench.log().splitlines()[-1] == f"{STAMP} Cancelled"


async def test_scratch_that_cannot_be_removed_does_not_keep_the_end_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError("it stays")

    record = bench.add("true")
    bench.server.faults = {"POST finish": [507], "POST block": [507], "PUT containers": [0, 507]}
    monkeypatch.setattr(linux, "unmount_below", refuse)
    assert await bench.run() == 0
    assert record["state"] == "Cancelled"


async def test_an_end_that_still_has_no_room_is_left_unreported(bench: Bench) -> None:
    record = bench.add("true")
    bench.server.faults = {
        "POST finish": [507] * 2,
        "POST block": [507] * 2,
        "PUT containers": [0, 507, 507],
    }
    assert await bench.run() == 1
    assert record["state"] == "Running"


@pytest.mark.parametrize("status", [403, 404, 409, 413, 422, 503])
async def test_what_cannot_be_reported_in_one_call_is_done_step_by_step(
    bench: Bench, status: int
) -> None:
    record = bench.add("echo x > /out/file")
    bench.server.faults = {"POST finish": [status]}
    assert await bench.run() == 0
    assert (record["state"], bench.output()) == ("Complete", {"file": b"x\n"})
    assert bench.server.calls[-1] == "PUT containers"


@pytest.mark.parametrize(
    "script", ["head -c 70000 /dev/zero > /out/file", "cd /out; touch $(seq 100)"]
)
async def test_large_results_are_stored_step_by_step(bench: Bench, script: str) -> None:
    record = bench.add(script)
    assert await bench.run() == 0
    assert record["state"] == "Complete"
    assert "POST finish" not in bench.server.calls


async def test_a_large_log_is_stored_step_by_step(bench: Bench) -> None:
    bench.add("head -c 200000 /dev/zero | tr '\\0' x")
    assert await bench.run() == 0
    assert len(bench.log("stdout.txt")) > 200000
    assert "POST finish" not in bench.server.calls


async def test_a_supervisor_that_lost_its_container_stores_nothing_more(bench: Bench) -> None:
    bench.add("true")
    bench.server.faults = {"POST finish": [401]}
    assert await bench.run() == 1
    assert bench.server.calls[-1] == "POST finish"


async def test_the_cost_is_reported_only_where_there_is_a_price(bench: Bench) -> None:
    record = bench.add("true")
    await bench.run()
    assert "cost" not in record
    bench.settings = {"instance_type": {"Price": 3600.0}}
    record = bench.add("true")
    await bench.run()
    assert record["cost"] == 0.0


async def test_a_cancelled_container_keeps_its_reason_when_its_output_fails_too(
    bench: Bench,
) -> None:
    record = bench.add(
        "ln -s /nowhere /out/link; sleep 100", scheduling_parameters={"max_run_time": 1}
    )
    bench.settings = {"stop_grace_period": 0.0}
    await bench.run()
    assert record["runtime_status"]["failure"] == "timeout"
    assert "in no mount" in bench.log()


async def test_what_is_left_out_is_noted(bench: Bench) -> None:
    record = bench.add("mkfifo /out/fifo")
    await bench.run()
    assert record["state"] == "Complete"
    assert "1 fifo, socket or device left out" in record["runtime_status"]["warning"]
    assert bench.log().count("/out/fifo is neither a file nor a directory") == 1


async def test_the_empty_output_is_a_collection_too(bench: Bench) -> None:
    record = bench.add("true")
    await bench.run()
    assert record["output"] == "d41d8cd98f00b204e9800998ecf8427e+0"
