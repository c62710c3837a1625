"""A gang of a Docker daemon, with a conductor that is a shell; a real one is in tests/system."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError
from lading.core.hpc_gang import FailurePolicy, Launcher
from lading.hpc.plan import read_plan
from lading.supervisor.engines import Bind, Exit, Spec
from lading.supervisor.engines.docker_gang import LABEL, DockerGang, each, remove_gang
from lading.supervisor.engines.gang import GangFiles
from lading.testing.hpc import until

SPEC = Spec(
    command=("ring",), environment=(("A", "b"),), binds=(Bind("/host/out", "/out", False),), ram=400, vcpus=4, nodes=2,
    launcher=Launcher.MPIRUN, rank_failure=FailurePolicy.ANY, output_path="/out",
)  # fmt: skip


def test_every_rank_has_its_share() -> None:
    one = each(SPEC)
    assert (one.ram, one.vcpus, one.command, one.environment, one.binds) == (200, 2, (), (), SPEC.binds)


def _acted(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(GangFiles, "command", lambda self: ["sh", "-c", script])


async def test_the_conductor_gets_its_plan_and_waits_at_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _acted(monkeypatch, "read go; [ $go = go ] && exit 3")
    gang = DockerGang("u", tmp_path, "/docker.sock")
    await gang.create(SPEC, {"Image": "i", "Cmd": [], "HostConfig": {}})
    plan = read_plan(GangFiles(tmp_path).plan)
    assert plan.docker == {"socket": "/docker.sock", "config": {"Image": "i", "HostConfig": {}}, "enter": False}
    assert (plan.cwd, len(plan.bundles)) == ("/", 2)
    assert await gang.run(stop=asyncio.Event(), stop_grace=1) == Exit(code=3)


async def test_who_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _acted(monkeypatch, f"trap '' TERM; touch {tmp_path}/deaf; read go; read never < {tmp_path}/pipe")
    os.mkfifo(tmp_path / "pipe")
    gang = DockerGang("u", tmp_path, "/docker.sock")
    await gang.create(SPEC, {})
    await asyncio.to_thread(until, (tmp_path / "deaf").exists)
    stop = asyncio.Event()
    stop.set()
    assert await gang.run(stop=stop, stop_grace=0.05) == Exit(code=137)


async def test_the_order_of_calls_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="no conductor"):
        await DockerGang("u", tmp_path, "/docker.sock").run(stop=asyncio.Event(), stop_grace=1)


class _Daemon:
    """Containers and networks of a daemon, and what was removed."""

    def __init__(self) -> None:
        self.containers = self.networks = self
        self.asked: list[Any] = []
        self.removed: list[str] = []

    async def list(self, *, filters: Any, all: bool = False) -> list[Any]:
        self.asked.append(filters)
        return [self] if all else [{"Id": "n"}]

    async def get(self, name: str) -> _Daemon:
        self.removed.append(name)
        return self

    async def delete(self, **how: bool) -> None:
        self.removed.append("container" if how else "network")


async def test_what_bears_the_label_is_removed() -> None:
    daemon = _Daemon()
    await remove_gang(daemon, "u")  # type: ignore[arg-type]
    assert daemon.removed == ["container", "n", "network"]
    assert f"{LABEL}=u" in str(daemon.asked)
