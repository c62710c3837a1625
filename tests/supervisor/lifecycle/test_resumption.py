"""Containers with which another supervisor has begun."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from msgspec import structs

from lading.core.containers.disk_space import Amount
from lading.core.quantities import format_time
from lading.supervisor.engines import Engine, Exit
from lading.supervisor.engines.adoption import PROCESS
from lading.supervisor.journal import JournalHeader, RunJournal, StepMark
from lading.supervisor.lifecycle.driver import resumed_steps, supervise
from lading.supervisor.lifecycle.handover import (
    ReceivedHandover,
)
from lading.supervisor.lifecycle.run import Controls
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.asgi import AsgiTransport
from lading.testing.engine import StubEngine
from tests.supervisor.lifecycle.adopting import RUNNING, AdoptingStub
from tests.supervisor.supervised import MOMENT, Bench


@dataclass
class Second:
    """The second supervisor of a container, whose first one has ended."""

    bench: Bench
    engine: Engine | None = None
    controls: Controls = field(default_factory=Controls)
    config: SupervisorConfig = field(init=False)
    reading: int = -1
    writing: int = -1
    """The ends of the pipe of standard output."""

    def __post_init__(self) -> None:
        self.reading, self.writing = os.pipe2(os.O_CLOEXEC)
        self.config = structs.replace(self.bench.assignment(), is_started=True)
        directory = self.bench.run_directory
        (directory / "mounts" / "1").mkdir(parents=True)
        journal = RunJournal(directory)
        journal.open(JournalHeader(engine="stub", settings=self.config.engine_settings))
        for step in ("record", "inputs", "container"):
            journal.write(step, StepMark.BEGUN)
            journal.write(step, StepMark.DONE)
        journal.close()
        if self.engine is None:
            self.engine = AdoptingStub(self.config.engine_settings)

    @property
    def stub(self) -> AdoptingStub:
        assert isinstance(self.engine, AdoptingStub)
        return self.engine

    async def run(self) -> int:
        """Go on to the end."""
        assert self.engine is not None
        handover = ReceivedHandover(
            config=self.config,
            container=RUNNING,
            base=Amount(),
            descriptors={PROCESS: -1, "stream stdout.txt": self.reading},
        )
        engine = self.engine
        return await supervise(
            self.config,
            clock=self.bench.clock,
            transport=AsgiTransport(self.bench.server),
            engines=lambda name, settings: engine,
            controls=self.controls,
            steps=resumed_steps(handover),
        )

    def say(self, text: bytes = b"") -> None:
        """Write to the pipe of the command, and close it."""
        os.write(self.writing, text)
        os.close(self.writing)


@pytest.fixture
def second(bench: Bench) -> Second:
    bench.add("true", state="Running", started_at=format_time(MOMENT))
    return Second(bench)


async def test_the_log_and_the_output_are_those_of_the_whole_command(second: Second) -> None:
    log = second.bench.run_directory / "log"
    log.mkdir()
    (log / "stdout.txt").write_bytes(b"earlier half a ")
    (second.bench.run_directory / "mounts" / "1" / "file").write_text("made before\n")
    going = asyncio.create_task(second.run())
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        while second.stub.calls[-1:] != ["run"]:
            await asyncio.sleep(0)
    second.say(b"line\nnext\n")
    second.stub.is_over.set()
    assert await going == 0
    record = second.bench.server.containers[second.config.container_uuid]
    assert (record["state"], record["exit_code"]) == ("Complete", 5)
    assert second.bench.output() == {"file": b"made before\n"}
    first, after = second.bench.log("stdout.txt").splitlines()
    assert first == "earlier half a line"
    assert after.endswith(" next")
    assert "another one goes on" in second.bench.log()
    assert second.stub.calls[-2:] == ["kill", "remove"]
    assert "create" not in second.stub.calls


async def test_an_end_that_the_first_has_seen_is_not_waited_for(second: Second) -> None:
    journal = RunJournal(second.bench.run_directory)
    journal.write_exit(Exit(code=3, out_of_memory=True))
    journal.close()
    second.say()
    assert await second.run() == 0
    record = second.bench.server.containers[second.config.container_uuid]
    assert (record["state"], record["exit_code"]) == ("Complete", 3)
    assert record["runtime_status"]["failure"] == "oom"
    assert "run" not in second.stub.calls


async def test_its_time_counts_from_the_first_start(second: Second) -> None:
    record = second.bench.server.containers[second.config.container_uuid]
    record["scheduling_parameters"] = {"max_run_time": 3600}
    second.bench.clock = lambda: MOMENT + timedelta(hours=2)
    second.say()
    assert await second.run() == 0
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "timeout")
    assert "it has run for 3600 s" in second.bench.log()


async def test_a_stop_reaches_it(second: Second) -> None:
    record = second.bench.server.containers[second.config.container_uuid]
    record["priority"] = 0
    (second.bench.run_directory / "mounts" / "1" / "file").write_text("made before\n")
    second.controls.stop.set()
    second.say()
    assert await second.run() == 0
    assert record["state"] == "Cancelled"
    assert second.bench.output() == {"file": b"made before\n"}


async def test_a_container_of_others_is_cleared_away_and_not_reported(second: Second) -> None:
    record = second.bench.server.containers[second.config.container_uuid]
    record["state"] = "Complete"
    second.say()
    assert await second.run() == 1
    assert second.stub.calls == ["remove"]
    assert not [call for call in second.bench.server.calls if call.startswith(("PUT", "POST"))]


async def test_an_engine_that_adopts_nothing_ends_it(bench: Bench) -> None:
    record = bench.add("true", state="Running", started_at=format_time(MOMENT))
    config = bench.assignment()
    second = Second(bench, engine=StubEngine(config.engine_settings))
    second.say()
    assert await second.run() == 0
    assert record["state"] == "Cancelled"
    assert "adopts no containers" in record["runtime_status"]["error"]
