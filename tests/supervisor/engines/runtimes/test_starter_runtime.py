from __future__ import annotations

import os
from pathlib import Path

from lading.supervisor.engines.runtimes.starter_runtime import StarterRuntime
from lading.supervisor.limits.cgroup import Cgroup, Hierarchy


def test_it_is_the_first_process_itself(tmp_path: Path) -> None:
    runtime = StarterRuntime(tmp_path, tmp_path / "log", Cgroup(Hierarchy(2, {}), "u"))
    prepared = runtime.prepare(tmp_path, None, [])
    assert (prepared.arguments, prepared.binds, prepared.own_binds) == ((), (), ())
    assert prepared.gate.startswith(f"/proc/{os.getpid()}/fd/")
    runtime.close_gate()
