from __future__ import annotations

import asyncio
import itertools

import pytest

from lading.supervisor import monitors
from lading.supervisor.logs import Log
from lading.supervisor.monitors import Monitors
from lading.supervisor.preemption import Notice
from lading.supervisor.process.register import Register
from lading.testing.asgi import serving
from tests.cloud_services import FakeMetadata
from tests.supervisor.lifecycle.scripts import WAIT_FOR_TERM, then
from tests.supervisor.supervised import Bench

TERMINATE = {"action": "terminate", "time": "2026-09-18T08:22:00Z"}
SPOT = "/latest/meta-data/spot/instance-action"


def stop_at(bench: Bench, call: str, times: int) -> None:
    """Stop the container when the server is called the last of so many times."""

    def on_call(name: str) -> None:
        if name == call and bench.server.calls.count(call) == times:
            bench.stop.set()

    bench.server.on_call = on_call


async def test_a_notice_is_told_and_the_log_saved_at_once(bench: Bench) -> None:
    record = bench.add(WAIT_FOR_TERM, runtime_status={"activity": "mine"})
    stop_at(bench, "PUT containers", 3)
    async with serving(FakeMetadata({SPOT: TERMINATE})) as metadata:
        bench.settings = {
            "preemption": "ec2",
            "metadata_address": f"http://127.0.0.1:{metadata.port}",
        }
        assert await bench.run() == 0
    status = record["runtime_status"]
    assert (record["state"], status["failure"], status["activity"]) == (
        "Cancelled",
        "preempted",
        "mine",
    )
    assert status["preemptionNotice"] == "EC2 will terminate this instance at 2026-09-18T08:22:00Z"
    assert status["warning"] == status["preemptionNotice"]
    assert status["warningDetail"] == '{"action":"terminate","time":"2026-09-18T08:22:00Z"}'
    assert status["error"].startswith(status["preemptionNotice"])
    assert "EC2 will terminate" in bench.log()


async def test_a_hint_is_a_warning_and_no_failure(bench: Bench) -> None:
    record = bench.add(WAIT_FOR_TERM)
    stop_at(bench, "PUT containers", 3)
    hint = {"/latest/meta-data/events/recommendations/rebalance": {"noticeTime": "now"}}
    async with serving(FakeMetadata(hint)) as metadata:
        bench.settings = {
            "preemption": "ec2",
            "metadata_address": f"http://127.0.0.1:{metadata.port}",
        }
        await bench.run()
    status = record["runtime_status"]
    assert {"warning", "warningDetail"} <= status.keys()
    # It was the test that stopped it.
    assert status["failure"] == "infrastructure"


async def test_nobody_is_asked_where_nothing_is_preemptible(bench: Bench) -> None:
    bench.add("true")
    metadata = FakeMetadata()
    async with serving(metadata) as server:
        bench.settings = {"metadata_address": f"http://127.0.0.1:{server.port}"}
        await bench.run()
    assert metadata.calls == []


async def test_new_prices_are_reported_once_however_often_it_is_signalled(bench: Bench) -> None:
    """Each probe would cost a PUT otherwise."""
    record = bench.add(WAIT_FOR_TERM)
    register = Register(bench.directory / "lock")
    bench.settings = {"lock_directory": str(bench.directory / "lock")}

    def on_engine_started() -> None:
        register.write_prices(b'[{"StartTime": "2020-01-01T00:00:00Z", "Price": 7200}]')
        bench.reprice.set()

    def on_call(call: str) -> None:
        if call == "PUT containers" and "cost" in str(bench.server.bodies[-1]):
            bench.reprice.set()
            asyncio.get_running_loop().call_later(0.01, bench.stop.set)

    bench.server.on_call = on_call
    bench.on_engine = lambda engine: then(engine.started.wait(), on_engine_started)
    await bench.run()
    assert record["state"] == "Cancelled"
    assert record["cost"] == 0.0
    assert bench.server.calls.count("PUT containers") == 3


async def test_the_log_is_saved_when_much_was_added(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitors, "SAVE_SIZE", 10)
    record = bench.add(WAIT_FOR_TERM)
    bench.settings = {"log_save_interval": 0.0}
    stop_at(bench, "POST collections", 1)
    await bench.run()
    assert record["state"] == "Cancelled"
    assert bench.server.calls.count("POST collections") == 3


async def test_a_log_that_has_not_grown_is_not_saved_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count()

    def size(_: Log, name: str) -> int:
        if next(asked) == 100:
            bench.stop.set()
        return 7

    monkeypatch.setattr(Log, "size", size)
    monkeypatch.setattr(monitors, "SAVE_PERIOD", 0.0)
    bench.settings = {"log_save_interval": 0.0}
    bench.add(WAIT_FOR_TERM)
    await bench.run()
    # Once beside the command; then the output and the whole log.
    assert bench.server.calls.count("POST collections") == 3


async def test_half_an_hour_is_long_enough(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "SAVE_PERIOD", 0.0)
    bench.settings = {"log_save_interval": 0.0}
    record = bench.add(WAIT_FOR_TERM)
    stop_at(bench, "POST collections", 1)
    await bench.run()
    assert record["state"] == "Cancelled"


@pytest.mark.parametrize("what", ["report_cost", "add_status"])
async def test_what_the_server_does_not_take_is_said(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    bench.add(WAIT_FOR_TERM)
    bench.settings = {"lock_directory": str(bench.directory / "lock")}
    made: list[Monitors] = []
    whole = Monitors.__post_init__

    def remember(one: Monitors) -> None:
        whole(one)
        made.append(one)

    async def act() -> None:
        bench.server.faults = {"PUT containers": [422]}
        if what == "add_status":
            await made[0].take_notice(Notice("n", "d", certain=True))
        else:
            Register(bench.directory / "lock").write_prices(
                b'[{"StartTime": "2020-01-01T00:00:00Z", "Price": 1}]'
            )
            bench.reprice.set()
            while bench.server.faults["PUT containers"]:
                await asyncio.sleep(0)
        bench.stop.set()

    monkeypatch.setattr(Monitors, "__post_init__", remember)
    bench.on_engine = lambda engine: then(
        engine.started.wait(), lambda: tasks.append(asyncio.create_task(act()))
    )
    tasks: list[asyncio.Task[None]] = []
    await bench.run()
    await asyncio.gather(*tasks)
    wanted = (
        "the notice could not be passed on"
        if what == "add_status"
        else "the cost could not be brought up to date"
    )
    assert wanted in bench.log()
