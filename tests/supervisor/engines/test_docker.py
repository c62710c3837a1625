from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.cgroup import LEAST_RAM
from lading.supervisor.engines import Bind, Device, EngineSettings, Spec
from lading.supervisor.engines.docker import DockerEngine, _start_failure, make_config
from lading.testing.images import ArchiveImage


@pytest.fixture
def engine(tmp_path: Path) -> DockerEngine:
    socket = str(tmp_path / "none.sock")
    return DockerEngine(
        EngineSettings(container_uuid="u", run_directory="/r", cache_directory="/c", docker_socket=socket)
    )


def test_what_the_daemon_is_told() -> None:
    spec = Spec(
        command=("a",), environment=(("N", "v"),), cwd="/w", binds=(Bind("/s", "/t", True),), ram=1, vcpus=2, stdin=0
    )
    config = make_config(spec, image="sha256:0")
    host = config["HostConfig"]
    assert (config["Cmd"], config["Env"], config["WorkingDir"], config["OpenStdin"]) == (["a"], ["N=v"], "/w", True)
    assert host["Mounts"] == [{"Type": "bind", "Source": "/s", "Target": "/t", "ReadOnly": True}]
    assert (host["Memory"], host["MemorySwap"], host["CpuQuota"]) == (LEAST_RAM, LEAST_RAM, 200_000)
    assert (host["NetworkMode"], host["CapDrop"], host["PidsLimit"]) == ("none", ["ALL"], -1)
    assert make_config(replace(spec, processes=7), image="i")["HostConfig"]["PidsLimit"] == 7


def test_what_the_daemon_is_not_told() -> None:
    config = make_config(Spec(command=("a",), cwd=".", network=True), image="sha256:0")
    assert "WorkingDir" not in config
    # The network of the host is never the answer.
    assert (config["HostConfig"]["NetworkMode"], config["HostConfig"]["Memory"]) == ("none", 0)
    joined = make_config(Spec(command=("a",), network=True), image="sha256:0", joined="container:x")
    assert joined["HostConfig"]["NetworkMode"] == "container:x"
    assert "Hostname" not in joined


def test_gpus_of_nvidia_go_by_number_where_the_daemon_knows_them_and_else_as_devices() -> None:
    spec = Spec(command=("a",), devices=(Device("/dev/null", "/dev/nvidia1"),), cuda=(1,))
    host = make_config(spec, image="i")["HostConfig"]
    assert host["DeviceRequests"][0]["DeviceIDs"] == ["1"]
    assert "Devices" not in host
    for one, nvidia in ((spec, False), (replace(spec, cuda=()), True)):
        host = make_config(one, image="i", nvidia=nvidia)["HostConfig"]
        assert host["Devices"] == [
            {"PathOnHost": "/dev/null", "PathInContainer": "/dev/nvidia1", "CgroupPermissions": "rwm"}
        ]
        assert (host["GroupAdd"], "DeviceRequests" in host) == ([], False)


async def test_a_daemon_that_is_not_there(engine: DockerEngine) -> None:
    with pytest.raises(ExecutionError, match="is the daemon running") as caught:
        await engine.check()
    assert caught.value.failure is Failure.NODE
    with pytest.raises(ExecutionError, match="cannot look for the image"):
        await engine.prepare(ArchiveImage("sha256:0", b""))
    with pytest.raises(ExecutionError, match="cannot create the container"):
        await engine.create(Spec(command=("a",)))
    with pytest.raises(ExecutionError, match="no container"):
        await engine.run(stop=asyncio.Event(), stop_grace=0.0)
    with pytest.raises(ExecutionError, match="cannot remove"):
        await engine.remove()


@pytest.mark.parametrize(
    ("said", "failure"),
    [('exec: "x": executable file not found in $PATH', Failure.USER), ("no space left on device", Failure.NODE)],
)
def test_whose_fault_a_failed_start_is(said: str, failure: Failure) -> None:
    assert _start_failure(said).failure is failure
