"""GPUs given to containers, on this machine and through a real Slurm: device files of a tree whose
GPUs are none.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from lading.client.blocks import BlockClient
from lading.core.data import manifest
from lading.testing.gpu_machines import (
    add_information,
    add_instances,
    log_xid,
    reading,
    write_readings,
)
from lading.testing.images import add_driver, make_devices
from tests import gpu_check
from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster
from tests.system.desk import Desk, desk_of
from tests.system.slurm_cluster import running_slurm

pytestmark = pytest.mark.system
LOCAL = (
    "Local: {{VCPUs: 4, RAM: 1GiB, GPUDriverVersion: '11.4'}}\nContainers: {{DeviceRoot: {tree}}}\n"
)
SLURM = """
Containers:
  Dispatcher: slurm
  ReserveExtraRAM: 0
  DeviceRoot: {tree}
  SLURM: {{PollPeriod: 300ms, NodeDirectory: {node}, HookDirectory: {hooks}}}
"""
# When it had which device.
SCRIPT = (
    "cd /dev; echo nvidia[0-9] >/out/who; date +%s%N >>/out/who; sleep 0.3; date +%s%N >>/out/who"
)


def tools(cluster: Cluster) -> None:
    cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "date")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_root()
    need_program("crun")
    return make_devices(tmp_path_factory.mktemp("tree"), cuda=2)


ENGINES = {"native": "sh", "native-crun": "crun", "docker": "dockerd", "podman": "podman"}
"""Engines, and the program that each needs."""


@pytest.fixture(scope="module", params=ENGINES)
def driven(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A machine with two GPUs and the files of a driver, by each engine."""
    need_root()
    need_program(ENGINES[request.param])
    machine = make_devices(tmp_path_factory.mktemp("machine"), cuda=2)
    add_driver(machine)
    containers = f"RuntimeEngine: {request.param}, DeviceRoot: {machine}"
    with ExitStack() as held:
        if request.param in ("docker", "podman"):
            service = request.getfixturevalue(
                {"docker": "docker_daemon", "podman": "podman_service"}[request.param]
            )
            containers += f", {request.param.capitalize()}Socket: {service.socket}"
        share = tmp_path_factory.mktemp("share")
        config = (
            f"Local: {{VCPUs: 4, RAM: 1GiB, ShareDirectory: {share}}}\n"
            f"Containers: {{{containers}}}\n"
        )
        data = tmp_path_factory.mktemp(request.param) / "data"
        cluster = held.enter_context(running_cluster(data, config))
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "ls")
        yield cluster


@pytest.fixture(scope="module")
def cluster(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(
        tmp_path_factory.mktemp("cluster") / "data", LOCAL.format(tree=tree)
    ) as running:
        tools(running)
        yield running


def gpus(count: int, **more: Any) -> dict[str, Any]:
    gpu = {
        "stack": "cuda",
        "device_count": count,
        "driver_version": "11.0",
        "hardware_target": ["8.0"],
        **more,
    }
    return {"runtime_constraints": {"vcpus": 1, "ram": 64 << 20, "gpu": gpu}}


async def uses(desk: Desk, uuids: list[str]) -> dict[str, list[tuple[int, int]]]:
    """When which device was in use, from the outputs."""
    blocks = BlockClient(desk.client.transport, desk.cluster.environment["ARVADOS_API_TOKEN"])
    found: dict[str, list[tuple[int, int]]] = {}
    for uuid in uuids:
        container = await desk.until(uuid, "Complete", "Cancelled")
        assert container["state"] == "Complete", container["runtime_status"]
        text = (await desk.client.get("collections", container["output"]))["manifest_text"]
        data = b"".join([await blocks.get(locator) for locator in manifest.locators(text)])
        devices, began, ended = data.decode().splitlines()
        for device in devices.split():
            found.setdefault(device, []).append((int(began), int(ended)))
    return found


def check(found: dict[str, list[tuple[int, int]]], *, count: int) -> None:
    """No device was in two hands at a time."""
    assert sorted(found) == ["nvidia0", "nvidia1"]
    assert sum(map(len, found.values())) == count
    for times in found.values():
        times.sort()
        assert all(ended < began for (_, ended), (began, _) in pairwise(times))


async def test_each_gpu_is_one_containers_at_a_time(cluster: Cluster) -> None:
    async with desk_of(cluster) as desk:
        uuids = [await desk.submit(SCRIPT, **gpus(count)) for count in (1, 2, 1, 1, 1)]
        async with asyncio.timeout(180):
            check(await uses(desk, uuids), count=6)


async def test_a_container_that_needs_other_gpus_waits_and_says_so(cluster: Cluster) -> None:
    async with desk_of(cluster) as desk:
        async with asyncio.timeout(180):
            for wish, words in (
                (gpus(1, driver_version="12.0"), "driver is too old"),
                (gpus(1, stack="rocm"), "for cuda"),
                (gpus(3), "3 GPUs"),
            ):
                uuid = await desk.submit("exit 0", **wish)
                assert words in await desk.until_told(uuid, words)
                await desk.cancel(uuid)


async def test_who_has_which_gpu_is_reported(cluster: Cluster) -> None:
    async with desk_of(cluster) as desk, asyncio.timeout(60):
        uuid = await desk.submit("sleep 30", **gpus(1))
        container = await desk.until(uuid, "Running")
        holders: dict[str, str] = {}
        while not holders:
            answer = await desk.client.request("GET", "dispatch/machines")
            [machine] = [one for report in answer["items"] for one in report["machines"]]
            holders = {one["device"]: one["container"] for one in machine["gpus"] if one["is_used"]}
            await asyncio.sleep(0.2)
        assert holders == {"nvidia0": container["uuid"]}
        shown = json.loads(cluster.lading("top", "--once", "--json").stdout)
        assert [run["gpus"] for run in shown["runs"]] == ["1 GPU (nvidia0)"]
        await desk.cancel(uuid)


async def test_who_asks_for_no_gpu_sees_none(cluster: Cluster) -> None:
    async with desk_of(cluster) as desk:
        uuid = await desk.submit("test ! -e /dev/nvidia0; test ! -e /dev/nvidiactl")
        assert (await desk.until(uuid, "Complete", "Cancelled"))["exit_code"] == 0


def test_each_engine_brings_the_driver_of_its_gpus(driven: Cluster) -> None:
    script = (
        "echo /dev/nvidia[0-9]; for at in /usr/lib64 /usr/lib/x86_64-linux-gnu; do "
        "cat $at/libcuda.so.1; done; nvidia-smi; "
        "{ echo x >/usr/lib64/libcuda.so.1; } 2>/dev/null && echo written; true"
    )
    for count, devices in ((1, ["/dev/nvidia0"]), (2, ["/dev/nvidia0", "/dev/nvidia1"])):
        done = driven.lading("run", "--gpus", str(count), "--", "sh", "-c", script)
        lines = done.stdout.splitlines()
        assert lines[0].split() == devices
        assert lines[1:] == [*["the library of the driver"] * 2, "GPU 0: of a test"]
    plain = driven.lading("run", "--", "sh", "-c", "ls /usr/lib64/libcuda.so.1 || echo none")
    assert "none" in plain.stdout


def test_a_specification_of_the_machine_is_applied(
    driven: Cluster, request: pytest.FixtureRequest
) -> None:
    config = yaml.safe_load((driven.data / "config.yml").read_text())
    machine = Path(config["Containers"]["DeviceRoot"])
    touch = str(Path("/usr/bin/touch").resolve())
    hooked = machine / "hooked"
    hook = {"hookName": "createRuntime", "path": touch, "args": ["touch", str(hooked)]}
    library = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54"
    specification = {
        "cdiVersion": "0.8.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {
                "name": f"GPU-{number}",
                "containerEdits": {
                    "env": [f"GPU={number}"],
                    "deviceNodes": [{"path": f"/dev/nvidia{number}"}],
                },
            }
            for number in (0, 1)
        ],
        "containerEdits": {
            "deviceNodes": [{"path": "/dev/nvidiactl"}],
            "mounts": [{"hostPath": library, "containerPath": "/opt/driver/libcuda.so.550.54"}],
            "hooks": [hook],
        },
    }
    path = machine / "etc/cdi/nvidia.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(specification))
    script = "echo $GPU; cat /opt/driver/libcuda.so.1; ls /dev | grep nvidia"
    try:
        done = driven.lading("run", "--gpus", "1", "--no-reuse", "--", "sh", "-c", script)
    finally:
        path.unlink()
    assert done.stdout.splitlines() == ["0", "the library of the driver", "nvidia0", "nvidiactl"]
    is_native = request.node.callspec.params["driven"].startswith("native")
    assert hooked.exists() is is_native


async def test_slurm_says_which_gpus_a_job_has(tree: Path, tmp_path: Path) -> None:
    for program in ("slurmctld", "slurmd", "munged"):
        need_program(program)
    (tmp_path / "hooks").mkdir()
    config = SLURM.format(tree=tree, node=tmp_path / "node", hooks=tmp_path / "hooks")
    cards = [str(tree / "dev" / name) for name in ("nvidia0", "nvidia1")]
    with (
        running_slurm(tmp_path / "slurm", nodes=1, vcpus=4, ram=4000, cards=cards) as slurm,
        running_cluster(tmp_path / "data", config, slurm.environment) as cluster,
    ):
        tools(cluster)
        async with desk_of(cluster) as desk, asyncio.timeout(180):
            uuids = [await desk.submit(SCRIPT, **gpus(1)) for _ in range(3)]
            check(await uses(desk, uuids), count=3)
        while slurm.jobs():
            await asyncio.sleep(0.1)


async def test_a_job_names_the_type_of_gpus_that_suits(tree: Path, tmp_path: Path) -> None:
    for program in ("slurmctld", "slurmd", "munged"):
        need_program(program)
    (tmp_path / "hooks").mkdir()
    config = SLURM.format(tree=tree, node=tmp_path / "node", hooks=tmp_path / "hooks")
    cards = [str(tree / "dev" / name) for name in ("nvidia0", "nvidia1")]
    types = ["t4", "a100"]
    with (
        running_slurm(
            tmp_path / "slurm", nodes=1, vcpus=4, ram=4000, cards=cards, types=types
        ) as slurm,
        running_cluster(tmp_path / "data", config, slurm.environment) as cluster,
    ):
        tools(cluster)
        async with desk_of(cluster) as desk, asyncio.timeout(180):
            kinds = {"ampere": "nvidia1", "turing": "nvidia0"}
            uuids = {
                kind: await desk.submit(SCRIPT, **gpus(1, hardware_target=[kind])) for kind in kinds
            }
            for kind, device in kinds.items():
                assert list(await uses(desk, [uuids[kind]])) == [device]
            waiting = await desk.submit(SCRIPT, **gpus(1, hardware_target=["hopper"]))
            assert "another kind" in await desk.until_told(waiting, "another kind")
            await desk.cancel(waiting)
        while slurm.jobs():
            await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def mixed_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine with a divided GPU of NVIDIA, a whole one that has failed, one of AMD and one of
    Intel.
    """
    need_root()
    root = make_devices(tmp_path_factory.mktemp("mixed"), cuda=2, rocm=1, intel=1)
    add_instances(root)
    for number in (0, 1):
        add_information(root, number)
    write_readings(root, [reading(0, mig="Enabled"), reading(1)])
    log_xid(root, 1, 79)
    return root


@pytest.fixture(scope="module")
def mixed(mixed_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    share = tmp_path_factory.mktemp("share")
    config = (
        f"Local: {{VCPUs: 4, RAM: 1GiB, ShareDirectory: {share}}}\n"
        f"Containers: {{DeviceRoot: {mixed_tree}}}\n"
    )
    data = tmp_path_factory.mktemp("mixed-site") / "data"
    with running_cluster(data, config) as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "ls", "sleep")
        yield cluster


SEEN = "cd /dev; ls -d nvidia[0-9] nvidia-caps/* dri/* kfd 2>/dev/null; true"


@pytest.mark.parametrize(
    ("kind", "devices"),
    [
        ("amd", ["dri/renderD128", "kfd"]),
        ("intel", ["dri/renderD129"]),
        ("1g.10gb", ["nvidia-caps/nvidia-cap11", "nvidia-caps/nvidia-cap12", "nvidia0"]),
    ],
)
def test_each_maker_and_each_instance_by_itself(
    mixed: Cluster, kind: str, devices: list[str]
) -> None:
    done = mixed.lading("run", "--gpu-type", kind, "--", "sh", "-c", SEEN)
    assert sorted(done.stdout.split()) == devices


def test_two_instances_are_two_gpus(mixed: Cluster) -> None:
    both = mixed.lading("run", "--gpus", "2", "--gpu-type", "1g.10gb", "--", "sh", "-c", SEEN)
    capabilities = [f"nvidia-caps/nvidia-cap{number}" for number in (11, 12, 21, 22)]
    assert sorted(both.stdout.split()) == [*capabilities, "nvidia0"]


async def test_a_gpu_that_failed_is_used_again_when_it_is_restored(mixed: Cluster) -> None:
    async with desk_of(mixed) as desk, asyncio.timeout(120):
        uuid = await desk.submit("test -e /dev/nvidia1", **gpus(1, hardware_target=["a100"]))
        told = await desk.until_told(uuid, "out of service")
        assert "nvidia1: Xid 79 (it has fallen off the bus)" in told
        [report] = (await desk.client.request("GET", "dispatch/machines"))["items"]
        [machine] = report["machines"]
        faults = {gpu["device"]: gpu["fault"] for gpu in machine["gpus"]}
        assert [name for name, fault in faults.items() if fault] == ["nvidia1"]
        order = {
            "dispatcher": report["dispatcher"], "machine": machine["id"], "action": "restore",
            "reason": "a new card",
        }  # fmt: skip
        await desk.client.request("POST", "dispatch/machines/order", body=order)
        assert (await desk.until(uuid, "Complete", "Cancelled"))["exit_code"] == 0


async def test_the_use_of_a_gpu_is_recorded(mixed: Cluster) -> None:
    async with desk_of(mixed) as desk, asyncio.timeout(120):
        uuid = await desk.submit("sleep 3", **gpus(1, hardware_target=["a100"]))
        container = await desk.until(uuid, "Complete", "Cancelled")
        assert (container["usage"]["gpu"], container["usage"]["gpu_memory"]) == (0.5, 1 << 30)
    assert "50% busy, 1.0 GiB of memory at most" in mixed.lading("request", "show", uuid).stdout


async def test_a_killed_supervisor_frees_its_gpu(mixed: Cluster) -> None:
    async with desk_of(mixed) as desk, asyncio.timeout(120):
        uuid = await desk.submit("sleep 60", **gpus(1, stack="rocm", hardware_target=[]))
        container = await desk.until(uuid, "Running")
        os.kill(_supervisor(mixed, container["uuid"]), signal.SIGKILL)
        await desk.cancel(uuid)
        later = await desk.submit("test -e /dev/kfd", **gpus(1, stack="rocm", hardware_target=[]))
        assert (await desk.until(later, "Complete", "Cancelled"))["exit_code"] == 0


def _supervisor(cluster: Cluster, container: str) -> int:
    """The process that holds the lock of a container's run directory."""
    inode = (cluster.data / "run" / container / "lock").stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] != "->" and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    raise AssertionError("nobody holds the lock")


def test_the_check_of_a_machine_prints_a_table(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpu_check.main(tmp_path) == 0
    assert capsys.readouterr().out.startswith("skipped: this machine has no GPU")
    gpu_check.main(tree)
    table = capsys.readouterr().out
    assert "ok    1 of nvidia: device files" in table
    assert "ok    a container without GPUs sees none" in table
