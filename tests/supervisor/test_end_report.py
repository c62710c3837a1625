from __future__ import annotations

from pathlib import Path

from lading.supervisor.results import free
from lading.testing.jumping_loop import jumping
from tests.supervisor.supervised import Bench


@jumping
async def test_a_server_that_does_not_answer_is_not_waited_for_once_we_are_told_to_stop(
    bench: Bench,
) -> None:
    bench.settings = {"unreachable_timeout": 600.0}
    record = bench.add("true")
    bench.server.faults = {"POST finish": [422], "PUT containers": [0] + [503] * 99}
    bench.server.on_call = lambda call: bench.stop.set() if call == "POST finish" else None
    assert await bench.run() == 1
    assert record["state"] == "Running"


@jumping
async def test_giving_a_container_back_is_not_repeated_once_we_are_told_to_stop(
    bench: Bench,
) -> None:
    bench.settings = {"unreachable_timeout": 600.0}
    record = bench.add("true")
    bench.stop.set()
    bench.server.faults = {"PUT containers": [503] * 99}
    bench.server.on_call = lambda call: bench.stop.set()
    assert await bench.run() == 1
    assert record["state"] == "Locked"


@jumping
async def test_whoever_ends_the_time_of_a_kept_container_wants_its_results(bench: Bench) -> None:
    bench.settings = {"unreachable_timeout": 600.0}
    record = bench.add(
        "echo data > /out/file; exit 3", scheduling_parameters={"keep_on_failure": 600}
    )

    def note(call: str) -> None:
        if record["runtime_status"].get("activity"):
            bench.stop.set()

    bench.server.on_call = note
    bench.server.faults = {"POST finish": [422], "POST block": [503] * 6}
    assert await bench.run() == 0
    assert (record["state"], record["exit_code"]) == ("Complete", 3)
    assert bench.output() == {"file": b"data\n"}


@jumping
async def test_what_a_container_wrote_is_removed(tmp_path: Path) -> None:
    scratch = tmp_path / "mounts"
    (scratch / "out").mkdir(parents=True)
    (scratch / "out" / "big").write_text("data")
    await free(scratch)
    assert not scratch.exists()
    await free(scratch)
