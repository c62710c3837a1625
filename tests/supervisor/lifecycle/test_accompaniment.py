from __future__ import annotations

from tests.supervisor.lifecycle.scripts import WAIT_FOR_TERM, then
from tests.supervisor.supervised import STAMP, Bench


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
