"""A gang of a Docker daemon, with a conductor that is a shell; a real one is in tests/system."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from aiodocker.exceptions import DockerError
from msgspec import structs

from lading.core.errors import ExecutionError
from lading.core.hpc.gang import FailurePolicy, Launcher
from lading.hpc.plan import read_plan
from lading.supervisor.engines import Bind, ContainerSpec, Exit, container_init
from lading.supervisor.engines.daemon.gang import (
    LABEL,
    NO_ADDRESS,
    DockerGang,
    each,
    remove_gang,
    with_init,
)
from lading.supervisor.engines.gang import GangFiles
from tests.hpc_daemon import until

SPEC = ContainerSpec(
    command=("ring",), environment=(("A", "b"),), binds=(Bind("/host/out", "/out", False),),
    ram=400, vcpus=4, processes=64, nodes=2, launcher=Launcher.MPIRUN,
    rank_failure=FailurePolicy.ANY, output_path="/out",
)  # fmt: skip


def test_every_rank_has_its_share() -> None:
    one = each(SPEC)
    assert (one.ram, one.vcpus, one.processes, one.command, one.environment, one.binds) == (
        200,
        2,
        32,
        (),
        (),
        SPEC.binds,
    )


@pytest.mark.parametrize(("vcpus", "share"), [(0, 0), (1, 1), (3, 1), (4, 2)])
def test_no_rank_has_less_than_a_processor(vcpus: int, share: int) -> None:
    assert each(structs.replace(SPEC, vcpus=vcpus)).vcpus == share


async def _nothing() -> None:
    return None


def _acted(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(GangFiles, "command", lambda self: ["sh", "-c", script])


async def test_the_conductor_gets_its_plan_and_waits_at_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _acted(monkeypatch, "read go; [ $go = go ] && exit 3")
    gang = DockerGang("u", tmp_path, "/docker.sock")
    spec = structs.replace(SPEC, binds=(Bind(str(tmp_path / "out"), "/out", False),))
    await gang.create(spec, {"Image": "i", "Cmd": [], "HostConfig": {}})
    plan = read_plan(GangFiles(tmp_path).plan)
    assert plan.docker == {
        "socket": "/docker.sock",
        "config": {"Image": "i", "HostConfig": {}},
        "enter": False,
    }
    assert (plan.cwd, len(plan.bundles)) == ("/", 2)
    (GangFiles(tmp_path).spool / "1.stdout").write_text("of rank 1\n")
    (tmp_path / "out").mkdir()
    ended: list[bool] = []

    async def end() -> None:
        ended.append((tmp_path / "out/ranks").exists())

    assert await gang.run(stop=asyncio.Event(), stop_grace=1, end=end) == Exit(code=3)
    # Its containers are gone before anything of theirs is touched.
    assert ended == [False]
    assert (tmp_path / "out/ranks/1/stdout.txt").read_text() == "of rank 1\n"


async def test_a_hidden_network_is_entered_and_has_no_address_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _acted(monkeypatch, "exit 0")
    gang = DockerGang("u", tmp_path, "/docker.sock", hidden=True)
    spec = structs.replace(SPEC, binds=(Bind(str(tmp_path / "out"), "/out", False),))
    await gang.create(spec, {"Image": "i", "Cmd": [], "HostConfig": {}})
    docker = read_plan(GangFiles(tmp_path).plan).docker
    assert docker is not None
    assert (docker["enter"], docker["options"]) == (True, NO_ADDRESS)
    (tmp_path / "out").mkdir()
    await gang.run(stop=asyncio.Event(), stop_grace=1, end=_nothing)


async def test_who_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _acted(
        monkeypatch, f"trap '' TERM; touch {tmp_path}/deaf; read go; read never < {tmp_path}/pipe"
    )
    os.mkfifo(tmp_path / "pipe")
    gang = DockerGang("u", tmp_path, "/docker.sock")
    (tmp_path / "out").mkdir()
    await gang.create(
        structs.replace(SPEC, binds=(Bind(str(tmp_path / "out"), "/out", False),)), {}
    )
    await asyncio.to_thread(until, (tmp_path / "deaf").exists)
    monkeypatch.setattr("lading.supervisor.engines.daemon.gang.GATHER_TIME", 0.0)
    stop = asyncio.Event()
    stop.set()
    assert await gang.run(stop=stop, stop_grace=0.05, end=_nothing) == Exit(code=137)


async def test_the_order_of_calls_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="no conductor"):
        await DockerGang("u", tmp_path, "/docker.sock").run(
            stop=asyncio.Event(), stop_grace=1, end=_nothing
        )


class _Daemon:
    """Containers and networks of a daemon, and what was removed."""

    def __init__(self) -> None:
        self.containers = self.networks = self
        self.refusals = 0
        self.asked: list[Any] = []
        self.removed: list[str] = []

    async def list(self, *, filters: Any, all: bool = False) -> list[Any]:
        self.asked.append(filters)
        return [self] if all else [{"Id": "n"}]

    async def get(self, name: str) -> _Daemon:
        self.removed.append(name)
        return self

    async def delete(self, **how: bool) -> None:
        if how and self.refusals:
            self.refusals -= 1
            raise DockerError(409, "removal of the container is already in progress")
        self.removed.append("container" if how else "network")


async def test_what_bears_the_label_is_removed() -> None:
    daemon = _Daemon()
    await remove_gang(daemon, "u")  # type: ignore[arg-type]
    assert daemon.removed == ["container", "n", "network"]
    assert f"{LABEL}=u" in str(daemon.asked)


async def test_a_container_that_stays_is_told() -> None:
    daemon = _Daemon()
    daemon.refusals = 2
    await remove_gang(daemon, "u", pause=0)  # type: ignore[arg-type]
    assert daemon.removed == ["container", "n", "network"]
    daemon.refusals = 1000
    with pytest.raises(DockerError, match="in progress"):
        await remove_gang(daemon, "u", pause=0)  # type: ignore[arg-type]


def test_the_first_process_of_a_rank_starts_the_command_of_the_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config: dict[str, Any] = {"Image": "i", "Cmd": [], "HostConfig": {"Mounts": [], "Memory": 1}}
    image = {"Entrypoint": ["env"], "Cmd": ["daemon"]}
    monkeypatch.setattr(container_init, "has_init", lambda: True)
    made = with_init(config, image, [])
    assert made["Entrypoint"] == ["/.lading-init", "init", "-", "env", "daemon"]
    (mount,) = made["HostConfig"]["Mounts"]
    assert (mount["Target"], mount["ReadOnly"]) == ("/.lading-init", True)
    # The daemon of the machine tells what lacks.
    assert with_init(config, {"Cmd": None}, []) == config
    monkeypatch.setattr(container_init, "has_init", lambda: False)
    notes: list[str] = []
    assert with_init(config, image, notes) == config
    assert notes == [container_init.LACKING]
