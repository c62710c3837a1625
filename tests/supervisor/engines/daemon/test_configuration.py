from __future__ import annotations

import pytest
from msgspec import structs

from lading.supervisor.engines import Bind, ContainerSpec, Device
from lading.supervisor.engines.daemon.configuration import make_config
from lading.supervisor.limits.cgroup import LEAST_RAM


def test_what_the_daemon_is_told() -> None:
    spec = ContainerSpec(
        command=("a",),
        environment=(("N", "v"),),
        cwd="/w",
        binds=(Bind("/s", "/t", True),),
        ram=1,
        vcpus=2,
        stdin=0,
    )
    config = make_config(spec, image="sha256:0")
    host = config["HostConfig"]
    assert (config["Cmd"], config["Env"], config["WorkingDir"], config["OpenStdin"]) == (
        ["a"],
        ["N=v"],
        "/w",
        True,
    )
    assert host["Mounts"] == [{"Type": "bind", "Source": "/s", "Target": "/t", "ReadOnly": True}]
    assert (host["Memory"], host["MemorySwap"], host["CpuQuota"]) == (LEAST_RAM, LEAST_RAM, 200_000)
    assert (host["NetworkMode"], host["CapDrop"], host["PidsLimit"]) == ("none", ["ALL"], 0)
    assert (
        make_config(structs.replace(spec, processes=7), image="i")["HostConfig"]["PidsLimit"] == 7
    )


def test_a_mount_in_memory() -> None:
    binds = (Bind("/s", "/t", False, 5), Bind("/s", "/u", False, 0))
    host = make_config(ContainerSpec(command=("a",), binds=binds), image="i")["HostConfig"]
    options = "rw,exec,nosuid,nodev,mode=1777"
    assert (host["Mounts"], host["Tmpfs"]) == ([], {"/t": f"{options},size=5", "/u": options})


def test_what_the_daemon_is_not_told() -> None:
    config = make_config(ContainerSpec(command=("a",), cwd=".", network=True), image="sha256:0")
    assert "WorkingDir" not in config
    # The network of the host is never the answer.
    assert (config["HostConfig"]["NetworkMode"], config["HostConfig"]["Memory"]) == ("none", 0)
    joined = make_config(
        ContainerSpec(command=("a",), network=True), image="sha256:0", joined="container:x"
    )
    assert joined["HostConfig"]["NetworkMode"] == "container:x"
    assert "Hostname" not in joined


def test_gpus_of_nvidia_go_by_number_where_the_daemon_knows_them_and_else_as_devices() -> None:
    spec = ContainerSpec(command=("a",), devices=(Device("/dev/null", "/dev/nvidia1"),), cuda=(1,))
    host = make_config(spec, image="i")["HostConfig"]
    assert host["DeviceRequests"][0]["DeviceIDs"] == ["1"]
    assert "Devices" not in host
    for one, nvidia in ((spec, False), (structs.replace(spec, cuda=()), True)):
        host = make_config(one, image="i", nvidia=nvidia)["HostConfig"]
        assert host["Devices"] == [
            {
                "PathOnHost": "/dev/null",
                "PathInContainer": "/dev/nvidia1",
                "CgroupPermissions": "rwm",
            }
        ]
        assert (host["GroupAdd"], "DeviceRequests" in host) == ([], False)


def test_an_image_runs_nothing_beside_the_command() -> None:
    config = make_config(ContainerSpec(command=("a",)), image="i")
    assert config["Healthcheck"] == {"Test": ["NONE"]}


@pytest.mark.parametrize(
    ("complete", "names"),
    [(False, {"core", "sigpending"}), (True, {"core", "sigpending", "nofile", "nproc"})],
)
def test_limits_of_processes(complete: bool, names: set[str]) -> None:
    config = make_config(ContainerSpec(command=("a",)), image="i", complete_limits=complete)
    limits = {limit["Name"]: limit for limit in config["HostConfig"]["Ulimits"]}
    assert limits.keys() == names
    assert limits["core"]["Hard"] <= 1
