from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import container_init
from lading.supervisor.engines.runtimes.crun_runtime import CrunRuntime
from lading.supervisor.limits.cgroup import Cgroup, Hierarchy


@pytest.fixture
def runtime(tmp_path: Path) -> CrunRuntime:
    return CrunRuntime("u", tmp_path, tmp_path / "log", Cgroup(Hierarchy(2, {}), "u"))


async def test_the_configuration_is_where_its_files_are(
    runtime: CrunRuntime, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    runtime.prepare(state, None, [])
    runtime.describe({"hooks": {}}, tmp_path / "bundle")
    assert json.loads((state / "bundle" / "config.json").read_text()) == {"hooks": {}}
    assert runtime.command()[:3] == ["crun", "--root", str(state / "crun")]
    runtime.close_gate()
    await runtime.remove()


async def test_a_first_process_that_reported_nothing_is_a_fault_of_the_machine(
    runtime: CrunRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_init, "has_init", lambda: True)
    (tmp_path / "log").touch()
    runtime.prepare(tmp_path, None, [])
    runtime.check_started(3)
    with pytest.raises(ExecutionError, match="it reported nothing") as caught:
        runtime.check_started(container_init.NOT_STARTED)
    assert caught.value.failure is Failure.NODE
    runtime.close_gate()
    await runtime.remove()


async def test_a_container_that_never_began_is_stopped_within_its_grace(
    runtime: CrunRuntime, tmp_path: Path
) -> None:
    runtime.prepare(tmp_path, None, [])
    await asyncio.wait_for(runtime.stop(lambda: None, grace=0.01), 10)
    runtime.close_gate()
    await runtime.remove()
