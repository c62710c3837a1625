"""The gate of a container, and what each runtime asks of its configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lading.supervisor.engines import container_init
from lading.supervisor.engines.bundle import OPEN_LINE
from lading.supervisor.engines.runtimes import Runtime, StartGate
from lading.supervisor.engines.runtimes.crun_runtime import CrunRuntime
from lading.supervisor.engines.runtimes.gang_runtime import GangRuntime
from lading.supervisor.engines.runtimes.starter_runtime import StarterRuntime
from lading.supervisor.limits.cgroup import Cgroup, Hierarchy
from tests.supervisor.supervised import open_files

NAME = "zzzzz-dz642-runtimeunittest"
CGROUP = Cgroup(Hierarchy(2, {}), NAME)
MAKERS: tuple[Callable[[Path], Runtime], ...] = (
    lambda run: StarterRuntime(run, run / "log", CGROUP),
    lambda run: CrunRuntime(NAME, run, run / "log", CGROUP),
    lambda run: GangRuntime(NAME, run, run / "log", CGROUP),
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "bundle").mkdir()
    return tmp_path


def test_a_gate_is_opened_by_a_line() -> None:
    gate = StartGate()
    with open(gate.make(), "rb") as reader:
        gate.open()
        gate.close()
        assert reader.read() == OPEN_LINE


def test_a_gate_that_is_closed_opens_nothing() -> None:
    gate = StartGate()
    with open(gate.make(), "rb") as reader:
        gate.close()
        gate.close()
        assert reader.read() == b""


def test_a_gate_whose_reader_has_ended_is_no_fault() -> None:
    gate = StartGate()
    gate.make()
    gate.close_reading()
    gate.open()
    gate.close()


@pytest.mark.parametrize("make", MAKERS)
async def test_a_runtime_that_is_prepared_twice_leaves_nothing_open(
    run: Path, make: Callable[[Path], Runtime]
) -> None:
    before = open_files()
    runtime = make(run)
    for _ in range(2):
        runtime.prepare(run, None, [])
        runtime.close_gate()
    await runtime.remove()
    await runtime.remove()
    assert open_files() == before
    assert runtime.first() is None


@pytest.mark.parametrize("make", MAKERS[1:])
def test_each_container_of_crun_has_a_first_process_of_its_own(
    run: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Runtime]
) -> None:
    monkeypatch.setattr(container_init, "has_init", lambda: True)
    prepared = make(run).prepare(run, None, [])
    (program,) = prepared.binds
    assert prepared.arguments[:2] == (program.target, "init")
    assert program.readonly


@pytest.mark.parametrize("make", MAKERS[1:])
def test_without_a_first_process_the_container_says_so(
    run: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Runtime]
) -> None:
    monkeypatch.setattr(container_init, "has_init", lambda: False)
    notes: list[str] = []
    prepared = make(run).prepare(run, None, notes)
    assert (prepared.arguments, prepared.binds, prepared.own_binds) == ((), (), ())
    assert notes == [container_init.LACKING]
