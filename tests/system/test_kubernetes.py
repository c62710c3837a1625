"""The Kubernetes fleet on a real control plane, with few containers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.reality import need_program, need_root
from tests.system.kubernetes import missing_parts, run

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(1800)]


def test_containers_end_once_on_a_real_control_plane(tmp_path: Path) -> None:
    need_root()
    for name in ("crun", "etcd", "go"):
        need_program(name)
    asyncio.run(run(tmp_path, containers=20, kubelet=0, limit=600.0))


def test_containers_end_once_on_a_real_kubelet(tmp_path: Path) -> None:
    need_root()
    for name in ("crun", "etcd", "go"):
        need_program(name)
    if lacks := missing_parts():
        pytest.skip(f"there is no {', '.join(lacks)}")
    asyncio.run(run(tmp_path, containers=8, kubelet=12, limit=900.0))
