from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import EngineSettings
from lading.supervisor.machine import can_report, is_broken, report
from lading.testing.engine import StubEngine
from tests.supervisor.supervised import Bench

FULL = ExecutionError("write x: No space left on device", Failure.NODE)


def engine(**faults: ExecutionError) -> StubEngine:
    settings = EngineSettings(container_uuid="u", run_directory="/r", cache_directory="/c")
    return StubEngine(settings, faults=faults)


async def test_the_engine_is_asked_whether_the_machine_is_broken() -> None:
    assert await is_broken(ExecutionError("", Failure.NODE), engine(check=FULL))
    assert not await is_broken(FULL, engine())


@pytest.mark.parametrize("failure", [Failure.USER, Failure.IMAGE, Failure.DISK])
async def test_faults_of_the_container_do_not_count(failure: Failure) -> None:
    assert not await is_broken(ExecutionError("x", failure), engine(check=FULL))


async def test_the_machine_is_marked(bench: Bench, tmp_path: Path) -> None:
    told = structs.replace(bench.assignment(), lock_directory=str(tmp_path))
    assert can_report(told)
    assert "marked as broken" in await report(told, "why")
    assert (tmp_path / "crunch-run-broken").read_text() == "why\n"
    (tmp_path / "file").touch()
    elsewhere = structs.replace(told, lock_directory=str(tmp_path / "file"))
    assert "cannot be marked" in await report(elsewhere, "why")


async def test_the_hook_is_run_in_place_of_that(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not can_report(bench.assignment())
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 3\n")
    hook.chmod(0o755)
    told = structs.replace(
        bench.assignment(), lock_directory=str(tmp_path), broken_node_hook=str(hook)
    )
    assert (await report(told, "why")).endswith("hook ended with 3")
    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "crunch-run-broken").exists()
    missing = structs.replace(told, broken_node_hook="/no/such/hook")
    assert "cannot be run" in await report(missing, "why")
    hook.write_text("#!/bin/sh\nexec sleep 100\n")
    assert "was ended" in await report(told, "why", hook_time=0.01)
