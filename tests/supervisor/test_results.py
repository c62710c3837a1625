from __future__ import annotations

from tests.supervisor.supervised import STAMP, Bench


async def test_an_output_that_the_store_refuses_is_said_and_the_log_saved_anew(bench: Bench) -> None:
    record = bench.add("echo x > /out/file")
    bench.server.faults = {"POST collections": [422]}
    await bench.run()
    assert record["state"] == "Cancelled"
    assert "the output cannot be saved" in record["runtime_status"]["error"]
    assert bench.log().splitlines()[-1] == f"{STAMP} Cancelled"


async def test_a_store_that_is_away_leaves_the_end_unreported(bench: Bench) -> None:
    record = bench.add("echo x > /out/file")
    bench.server.faults = {"PUT block": [503, 503]}
    assert await bench.run() == 1
    assert record["state"] == "Running"


async def test_a_cancelled_container_keeps_its_reason_when_its_output_fails_too(bench: Bench) -> None:
    record = bench.add("ln -s /nowhere /out/link; sleep 100", scheduling_parameters={"max_run_time": 1})
    bench.settings = {"stop_grace_period": 0.0}
    await bench.run()
    assert record["runtime_status"]["failure"] == "timeout"
    assert "in no mount" in bench.log()


async def test_what_is_left_out_is_noted(bench: Bench) -> None:
    record = bench.add("mkfifo /out/fifo")
    await bench.run()
    assert record["state"] == "Complete"
    assert "/out/fifo is neither a file nor a directory" in bench.log()


async def test_the_empty_output_is_a_collection_too(bench: Bench) -> None:
    record = bench.add("true")
    await bench.run()
    assert record["output"] == "d41d8cd98f00b204e9800998ecf8427e+0"
