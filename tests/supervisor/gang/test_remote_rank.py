"""A rank of a gang on another machine than its supervisor, with an engine that is acted; a real
one: tests/system.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from lading.core.errors import ExecutionError, Failure, Invalid
from lading.supervisor import linux
from lading.supervisor.engines import ContainerSpec, EngineSettings, Exit, Spread
from lading.supervisor.gang import remote_rank as module
from lading.supervisor.gang.remote_rank import RemoteRank, read_invitation
from lading.supervisor.gang.remote_rank_client import Invitation
from lading.supervisor.session import Lost
from lading.testing.asgi import AsgiTransport
from lading.testing.images import make_devices
from lading.testing.supervising import CONTAINER
from tests.supervisor.supervised import Bench

GANG: dict[str, Any] = {
    "scheduling_parameters": {"nodes": 3},
    "mounts": {"/out": {"kind": "tmp", "capacity": 1000}},
    "output_path": "/out",
    "runtime_constraints": {"vcpus": 2, "ram": 1000},
}


ONE_GPU = {"stack": "cuda", "device_count": 1}


class Engine:
    """Remembers what it is told; its container writes a file."""

    sees_private_mounts = False

    def __init__(self) -> None:
        self.settings: EngineSettings | None = None
        self.spec = ContainerSpec(command=())
        self.did: list[str] = []
        self.pid: int | None = None
        self.ends = asyncio.Event()
        """Set when the command ends; it lasts until `abort` if this is `fills`."""
        self.fills = False

    def make(self, _: str, settings: EngineSettings) -> Any:
        self.settings = settings
        return self

    async def prepare(self, image: Any) -> None:
        self.did.append("prepare")

    async def create(self, spec: ContainerSpec) -> None:
        self.spec = spec

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        place = Path(self.spec.binds[0].source)
        (place / "file").write_text("kept")
        if self.fills:
            for number in range(50):
                (place / str(number)).write_text("")
            self.pid = os.getpid()
            await self.ends.wait()
        return Exit(code=137 if self.fills else 0)

    async def abort(self) -> None:
        self.did.append("abort")
        self.ends.set()

    async def remove(self) -> None:
        self.did.append("remove")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path)
    monkeypatch.setattr(module, "open_transport", lambda _: AsgiTransport(made.server))
    return made


def invitation(bench: Bench, **more: Any) -> Invitation:
    return Invitation(rank=2, wire=7, assignment=bench.assignment(), **more)


async def test_a_rank_is_prepared_as_its_record_says_and_nothing_is_written(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add("hostname", **GANG, state="Running")
    before = dict(bench.server.containers[CONTAINER])
    sent: list[str] = []
    monkeypatch.setattr(
        RemoteRank,
        "send",
        lambda self: sent.extend(one.name for one in Path(self.output).iterdir()),
    )
    engine = Engine()
    await RemoteRank(invitation(bench, certificate="PEM"), "10.0.0.1", engine.make).run()
    assert engine.spec.spread == Spread(wire=7, rank=2, leader="10.0.0.1")
    assert (engine.spec.ram, engine.spec.vcpus, engine.spec.nodes) == (1000, 2, 3)
    assert (engine.spec.stdin, engine.spec.stdout) == (0, 1)
    assert engine.settings is not None
    assert engine.settings.container_uuid == f"{CONTAINER}-2"
    assert (sent, engine.did) == (["file"], ["prepare", "remove"])
    assert bench.server.containers[CONTAINER] == before
    assert list((tmp_path / "annex").iterdir()) == []


async def test_a_rank_has_the_limits_of_its_machine(bench: Bench, tmp_path: Path) -> None:
    bench.settings = {"disk_reserve": 1 << 60, "docker_socket": "/run/d.sock"}
    bench.add("hostname", **GANG, state="Running")
    engine = Engine()
    with pytest.raises(ExecutionError, match=r"rank 2 cannot begin: .*is almost full") as caught:
        await RemoteRank(invitation(bench), "10.0.0.1", engine.make).run()
    assert caught.value.failure is Failure.NODE
    assert engine.settings is not None
    assert (engine.settings.disk_reserve, engine.settings.docker_socket) == (1 << 60, "/run/d.sock")
    assert engine.did == ["remove"]
    assert list((tmp_path / "annex").iterdir()) == []


async def test_a_rank_gets_gpus_of_its_machine(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_devices(tmp_path / "tree", cuda=2, real=False)
    bench.settings = {
        "device_root": str(tmp_path / "tree"),
        "device_directory": str(tmp_path / "locks"),
    }
    gang = {**GANG, "runtime_constraints": {"vcpus": 1, "ram": 1000, "gpu": ONE_GPU}}
    bench.add("hostname", **gang, state="Running")
    monkeypatch.setattr(RemoteRank, "send", lambda _: None)
    engine = Engine()
    await RemoteRank(invitation(bench), "10.0.0.1", engine.make).run()
    assert [device.target for device in engine.spec.devices] == [
        "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0",
    ]  # fmt: skip
    # Released: its file names no holder.
    assert (tmp_path / "locks/cuda-0").read_text() == ""


async def test_a_rank_that_fills_the_disk_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.settings = {"scratch_files": 20}
    bench.add("hostname", **GANG, state="Running")
    engine = Engine()
    engine.fills = True
    with pytest.raises(ExecutionError, match="files") as caught:
        await RemoteRank(invitation(bench), "10.0.0.1", engine.make).run()
    assert caught.value.failure is Failure.DISK
    assert engine.did == ["prepare", "abort", "remove"]


async def test_a_container_that_is_over_has_no_annex(bench: Bench, tmp_path: Path) -> None:
    bench.add("hostname", **GANG, state="Complete")
    engine = Engine()
    with pytest.raises(Lost, match="Not logged in"):
        await RemoteRank(invitation(bench), "10.0.0.1", engine.make).run()
    assert engine.did == ["remove"]
    assert list((tmp_path / "annex").iterdir()) == []


def test_who_guards_clears_away_after_the_one_that_was_killed(bench: Bench) -> None:
    engine = Engine()
    made = RemoteRank(invitation(bench), "10.0.0.1", engine.make)
    before = signal.getsignal(signal.SIGTERM)
    try:
        for number, code in ((signal.SIGKILL, 137), (0, 5)):
            pid = os.fork()
            if not pid:
                os.kill(os.getpid(), number)
                os._exit(5)
            assert module.guard(pid, made) == code
    finally:
        signal.signal(signal.SIGTERM, before)
    assert engine.did == ["remove"]


def test_the_first_line_alone_is_read(bench: Bench) -> None:
    told = invitation(bench)
    reading, writing = os.pipe()
    os.write(writing, msgspec.json.encode(told) + b"\nmore")
    assert read_invitation(reading) == told
    assert os.read(reading, 9) == b"more"
    os.write(writing, b"{}\n")
    with pytest.raises(ExecutionError, match="cannot be read"):
        read_invitation(reading)
    os.write(
        writing,
        msgspec.json.encode(
            structs.replace(told, assignment=structs.replace(told.assignment, container_uuid="x"))
        )
        + b"\n",
    )
    with pytest.raises(Invalid, match="not the uuid"):
        read_invitation(reading)
    os.close(writing)
    with pytest.raises(ExecutionError, match="got no order"):
        read_invitation(reading)
    os.close(reading)


def test_what_was_put_out_goes_into_the_pipe(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "out/ranks").mkdir(parents=True)
    (tmp_path / "out/ranks/r").write_text("x")
    made = RemoteRank(invitation(bench), "10.0.0.1", Engine().make)
    made.output = str(tmp_path / "out")
    kept, target = os.dup(1), os.open(tmp_path / "tar", os.O_WRONLY | os.O_CREAT)
    os.dup2(target, 1)
    try:
        made.send()
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(target)
    with tarfile.open(tmp_path / "tar") as archive:
        assert archive.getnames() == ["ranks", "ranks/r"]


def test_a_fault_is_told_in_the_pipe(
    bench: Bench, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(linux, "end_with_parent", refuse)
    assert module.serve(RemoteRank(invitation(bench), "10.0.0.1", Engine().make)) == 1
    told = '{"fault":"[Errno 1] Operation not permitted","failure":"infrastructure"}\n'
    assert capfd.readouterr().out == told


def test_who_is_invited_by_nobody_says_so(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> Invitation:
        raise ExecutionError("this rank got no order")

    monkeypatch.setattr(module, "read_invitation", refuse)
    assert module.main("10.0.0.1", engines=Engine().make) == 1
    assert "got no order" in capfd.readouterr().out
