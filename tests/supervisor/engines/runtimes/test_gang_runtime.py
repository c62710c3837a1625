from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.engines import Exit
from lading.supervisor.engines.runtimes.gang_runtime import GangRuntime
from lading.supervisor.limits.cgroup import Cgroup, Hierarchy


@pytest.fixture
def runtime(tmp_path: Path) -> GangRuntime:
    return GangRuntime("u", tmp_path, tmp_path / "log", Cgroup(Hierarchy(2, {}), "u"))


def test_the_ranks_have_no_gate(runtime: GangRuntime, tmp_path: Path) -> None:
    bundle = runtime.files.bundle(1)
    bundle.mkdir(parents=True)
    assert runtime.prepare(tmp_path, None, []).gate == ""
    runtime.describe({"hooks": {}, "root": {}}, bundle)
    assert json.loads((bundle / "config.json").read_text()) == {"root": {}}


async def test_it_is_not_kept(runtime: GangRuntime) -> None:
    with pytest.raises(ExecutionError, match="cannot be kept"):
        await runtime.hold()


async def test_the_end_of_the_conductor_is_that_of_the_gang(runtime: GangRuntime) -> None:
    stop = asyncio.Event()
    assert await runtime.ended(5, stop=stop, out_of_memory=False) == Exit(code=5)
    await runtime.stop(lambda: None, grace=1.0)
