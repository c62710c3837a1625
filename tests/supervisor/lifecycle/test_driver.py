from __future__ import annotations

import msgspec
import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.journal import read_journal, unfinished
from lading.testing.supervising import CONTAINER, SUPERVISOR_TOKEN
from tests.supervisor.lifecycle.scripts import WAIT_FOR_TERM
from tests.supervisor.supervised import STAMP, Bench, open_files


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
    assert bench.server.calls[2:] == ["GET collections", "PUT containers", "POST finish"]


async def test_what_is_tried_again(bench: Bench) -> None:
    bench.settings = {"unreachable_timeout": 60.0}
    record = bench.add("echo data > /out/file")
    kinds = ("GET containers", "GET auth", "PUT containers", "POST block", "POST collections")
    bench.server.faults = {kind: [503] for kind in kinds}
    assert await bench.run() == 0
    assert record["state"] == "Complete"


async def test_term_before_running_gives_the_container_back(bench: Bench) -> None:
    record = bench.add("true")
    bench.stop.set()
    assert await bench.run() == 0
    assert (record["state"], record.get("log")) == ("Queued", None)


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


async def test_no_descriptor_is_left_open(bench: Bench) -> None:
    bench.add("true")
    before = open_files()
    await bench.run()
    assert open_files() == before
