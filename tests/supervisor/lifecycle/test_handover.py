"""What a supervisor hands over, and when."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import Malformed
from lading.supervisor import linux
from lading.supervisor.engines import Engine, EngineSettings
from lading.supervisor.engines.adoption import PROCESS
from lading.supervisor.journal import last_exit
from lading.supervisor.lifecycle.driver import supervise
from lading.supervisor.lifecycle.handover import MOST_DESCRIPTORS, MOUNTS, receive
from lading.supervisor.lifecycle.run import Controls
from lading.testing.asgi import AsgiTransport
from tests.supervisor.lifecycle.adopting import AdoptingStub
from tests.supervisor.supervised import Bench, open_files


@dataclass
class First:
    """The first supervisor, whose container hands itself over."""

    bench: Bench
    engine: AdoptingStub | None = None
    handed: list[tuple[int, ...]] = field(default_factory=list)

    async def run(self) -> None:
        """From the beginning to the end."""
        config = self.bench.assignment()
        await supervise(
            config,
            clock=self.bench.clock,
            transport=AsgiTransport(self.bench.server),
            engines=self._make,
            controls=Controls(stop=self.bench.stop, hand_over=self._keep),
        )

    def _make(self, name: str, settings: EngineSettings) -> Engine:
        engine = self.engine = self.engine or AdoptingStub(settings)
        return engine

    def _keep(self, descriptors: Sequence[int]) -> None:
        self.handed.append(tuple(os.dup(descriptor) for descriptor in descriptors))
        self.bench.stop.set()


async def test_all_that_another_needs_is_handed_over(bench: Bench) -> None:
    record = bench.add("echo up; sleep 60", priority=0)
    open_before = open_files()
    first = First(bench)
    await first.run()
    ((file, *others),) = first.handed
    handover = receive((file, *others))
    assert handover.config.container_uuid == record["uuid"]
    assert handover.config.is_started
    assert set(handover.descriptors) == {
        PROCESS, MOUNTS, "stream stdout.txt", "stream stderr.txt",
    }  # fmt: skip
    assert sorted(handover.streams) == ["stderr.txt", "stdout.txt"]
    assert Path(f"/proc/self/fd/{handover.descriptors[MOUNTS]}").readlink().name.startswith("mnt:")
    for descriptor in (file, *others):
        os.close(descriptor)
    assert open_files() <= open_before + 2
    assert last_exit(bench.run_directory) is not None


@pytest.mark.parametrize(
    ("script", "changes"),
    [("true", {}), ("sleep 0.5", {"runtime_constraints": {"API": True}})],
    ids=["a short one", "one with a network"],
)
async def test_some_are_not_handed_over(bench: Bench, script: str, changes: dict[str, Any]) -> None:
    bench.add(script, **changes)
    first = First(bench)
    await first.run()
    assert first.handed == []


async def test_too_many_descriptors_are_not_handed_over(bench: Bench) -> None:
    bench.add("sleep 0.5")
    first = First(bench)
    first.engine = AdoptingStub(bench.assignment().engine_settings)
    first.engine.locks = {str(number): 0 for number in range(MOST_DESCRIPTORS)}
    await first.run()
    assert first.handed == []


async def test_a_failed_handover_ends_nothing(bench: Bench) -> None:
    record = bench.add("sleep 0.5")
    first = First(bench)
    first.engine = AdoptingStub(bench.assignment().engine_settings)
    first.engine.locks = {"gone": -1}
    await first.run()
    assert (first.handed, record["state"]) == ([], "Complete")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_a_file_that_is_no_handover(content: bytes) -> None:
    file = linux.memory_file("handover", content)
    try:
        with pytest.raises(Malformed):
            receive((file,))
    finally:
        os.close(file)
