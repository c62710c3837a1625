"""Several dispatchers and their locks, with real processes (docs/spec/dispatch, section Locking).

Another host is a network namespace: its dispatcher reaches the server over TCP and TLS only.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lading.core.errors import Forbidden, Invalid, Unauthenticated
from lading.wiring.directory import DataDirectory
from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, free_address, left_processes, running_cluster
from tests.system.desk import desk_of

pytestmark = pytest.mark.system
HERE = "Local: {VCPUs: 2, RAM: 1GiB}\nContainers: {StopGracePeriod: 300ms}\n"
FAR = "Local: {VCPUs: 2, RAM: 1GiB, Partitions: [far]}\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster") / "data", HERE) as running:
        tools(running)
        yield running


def tools(cluster: Cluster) -> None:
    cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")


@contextmanager
def another_host() -> Iterator[tuple[list[str], str]]:
    """How to run a command there, and the address of this host as seen from there."""
    need_root()
    need_program("ip")
    name = f"lading{os.getpid() % 10000}"
    address = f"10.{os.getpid() % 200 + 20}.{os.getpid() % 251}"
    # Not `ip netns exec`: that hides the control groups of the machine.
    run = ["nsenter", f"--net=/run/netns/{name}"]
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for command in (
            f"ip link add {name} type veth peer name eth0 netns {name}",
            f"ip addr add {address}.1/24 dev {name}", f"ip link set {name} up",
            f"ip -n {name} addr add {address}.2/24 dev eth0", f"ip -n {name} link set eth0 up",
            f"ip -n {name} link set lo up",
        ):  # fmt: skip
            subprocess.run(command.split(), check=True)
        yield run, f"{address}.1"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
        subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)


@contextmanager
def guest(
    root: Path, cluster: Cluster, config: str, *, via: list[str]
) -> Iterator[subprocess.Popen[str]]:
    """A dispatcher that joins the cluster."""
    cluster.lading("admin", "dispatcher-token", str(root / "join"), "--data", str(cluster.data))
    (root / "guest.yml").write_text(config)
    command = [
        *via,
        LADING,
        "dispatch",
        "--join",
        str(root / "join"),
        "--data",
        str(root / "guest"),
    ]
    process = subprocess.Popen(
        [*command, "--config", str(root / "guest.yml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "dispatching to local for https://" in process.stdout.readline()
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stdout is not None
        process.stdout.close()
    assert left_processes(root / "guest") == []


async def test_a_dispatcher_on_another_host_takes_its_share_and_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with another_host() as (via, here):
        monkeypatch.setattr(
            "tests.system.cluster.free_address", lambda: free_address().replace("127.0.0.1", here)
        )
        with running_cluster(tmp_path / "data", HERE) as cluster:
            tools(cluster)
            with guest(tmp_path, cluster, FAR, via=via):
                async with desk_of(cluster) as desk:
                    far = [
                        await desk.submit("echo far", scheduling_parameters={"partitions": ["far"]})
                        for _ in range(3)
                    ]
                    near = [await desk.submit("sleep 0.3") for _ in range(10)]
                    token = DataDirectory(cluster.data).secrets().dispatch_token_uuid
                    for uuid in (*far, *near):
                        ended = await desk.until(uuid, "Complete", "Cancelled")
                        assert (ended["state"], ended["exit_code"], ended["lock_count"]) == (
                            "Complete",
                            0,
                            1,
                        )
                    by = {uuid: await _dispatcher(desk, uuid) for uuid in (*far, *near)}
                    assert token not in {by[uuid] for uuid in far}
                    assert len({by[uuid] for uuid in near}) == 2
                    nobody = await desk.submit(
                        "true", scheduling_parameters={"partitions": ["moon"]}
                    )
                    assert "the partitions moon only" in await desk.until_told(
                        nobody, "Not for this dispatcher"
                    )


async def _dispatcher(desk: object, uuid: str) -> str:
    await desk.until_decided(uuid, "dispatched")  # type: ignore[attr-defined]
    trail = (await desk.why(uuid))["dispatch"]  # type: ignore[attr-defined]
    return next(str(one["dispatcher"]) for one in trail if one["event_type"] == "dispatched")


async def test_a_small_container_passes_a_large_one_that_waits(cluster: Cluster) -> None:
    async with desk_of(cluster) as desk:
        first = await desk.submit("sleep 6")
        await desk.until(first, "Running")
        large = await desk.submit("true", runtime_constraints={"vcpus": 2, "ram": 64 << 20})
        await desk.until_told(large, "Room is kept for it")
        small = await desk.submit("true")
        await desk.until(small, "Complete")
        assert (await desk.container(large))["state"] == "Queued"
        assert (await desk.container(first))["state"] == "Running"
        assert (await desk.until(large, "Complete", "Cancelled"))["exit_code"] == 0


async def test_two_dispatchers_with_one_token_do_no_harm(cluster: Cluster) -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "lading.wiring.dispatcher", "--data", str(cluster.data)]
    command += [
        "--listen",
        cluster.address,
        "--parent",
        str(os.getpid()),
        "--ready-fd",
        str(writing),
    ]
    twin = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    assert os.read(reading, 6) == b"ready\n"
    os.close(reading)
    try:
        async with desk_of(cluster) as desk:
            uuids = [await desk.submit("sleep 0.2; echo x >>/out/runs") for _ in range(12)]
            for uuid in uuids:
                ended = await desk.until(uuid, "Complete", "Cancelled")
                assert (ended["state"], ended["exit_code"]) == ("Complete", 0)
                assert (await desk.client.get("container_requests", uuid))["container_count"] == 1
    finally:
        twin.terminate()
        twin.wait(20)


@contextmanager
def joined(root: Path, name: str, cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """A dispatcher with the token in the file `join`, and a data directory of its own."""
    (root / "join.yml").write_text("Local: {VCPUs: 2, RAM: 1GiB}\n")
    command = [LADING, "dispatch", "--join", str(root / "join"), "--data", str(root / name)]
    process = subprocess.Popen(
        [*command, "--config", str(root / "join.yml")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert "dispatching to local for https://" in process.stdout.readline()
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.communicate(timeout=30)


async def test_a_dispatcher_that_hangs_is_replaced_and_acts_no_more(tmp_path: Path) -> None:
    config = "Containers: {Dispatcher: none}\n"
    with running_cluster(tmp_path / "data", config) as cluster:
        tools(cluster)
        join = tmp_path / "join"
        cluster.lading("admin", "dispatcher-token", str(join), "--data", str(cluster.data))
        with joined(tmp_path, "first", cluster) as first:
            async with desk_of(cluster) as desk:
                await desk.until(await desk.submit("true"), "Complete")
                first.send_signal(signal.SIGSTOP)
                began = asyncio.get_running_loop().time()
                with joined(tmp_path, "second", cluster) as second:
                    late = await desk.submit("true")
                    await desk.until(late, "Complete")
                    # A lease of 30 s, renewed every 10 s, and two seconds between two tries.
                    assert asyncio.get_running_loop().time() - began < 45
                    first.send_signal(signal.SIGCONT)
                    _, said = await asyncio.to_thread(first.communicate, timeout=30)
                    assert first.returncode == 1
                    assert "another dispatcher works with this token" in said
                    assert second.poll() is None
                    again = await desk.submit("true")
                    ended = await desk.until(again, "Complete", "Cancelled")
                    assert (ended["state"], ended["lock_count"]) == ("Complete", 1)


async def test_who_cleans_up_while_the_supervisor_lives_wins_and_the_supervisor_loses(
    cluster: Cluster,
) -> None:
    token = DataDirectory(cluster.data).secrets().dispatch_token
    async with desk_of(cluster) as desk, desk_of(cluster, token=token) as dispatcher:
        uuid = await desk.submit("echo begun; exec sleep 63.5", container_count_max=1)
        container = (await desk.until(uuid, "Running"))["uuid"]
        supervisor = _supervisor(cluster, container)
        await dispatcher.client.update("containers", container, {"state": "Cancelled"})
        before = await desk.container(uuid)
        while Path(f"/proc/{supervisor}").exists() and _is_running(supervisor):
            await asyncio.sleep(0.02)
        after = await desk.container(uuid)
        assert {
            name: after[name] for name in ("state", "exit_code", "output", "log", "finished_at")
        } == {name: before[name] for name in ("state", "exit_code", "output", "log", "finished_at")}
        assert (
            subprocess.run(["pgrep", "-f", "^sleep 63.5"], capture_output=True, check=False).stdout
            == b""
        )


async def test_an_unlocked_container_is_lost_to_the_supervisor_that_had_it(
    cluster: Cluster,
) -> None:
    token = DataDirectory(cluster.data).secrets().dispatch_token
    async with desk_of(cluster) as desk, desk_of(cluster, token=token) as dispatcher:
        for warm_parent in cluster.pids("warm-parent"):
            os.kill(warm_parent, signal.SIGSTOP)
        uuid = await desk.submit("echo ran")
        container = (await desk.until(uuid, "Locked"))["uuid"]
        await dispatcher.client.action("containers", container, "unlock")
        again = await dispatcher.client.action("containers", container, "lock")
        assert again["state"] == "Locked"
        for warm_parent in cluster.pids("warm-parent"):
            os.kill(warm_parent, signal.SIGCONT)
        ended = await desk.until(uuid, "Complete", "Cancelled")
        assert (ended["state"], ended["exit_code"]) == ("Complete", 0)
        assert ended["lock_count"] >= 3
        with pytest.raises((Unauthenticated, Forbidden, Invalid)):
            async with desk_of(cluster, token=again["supervisor_token"]) as loser:
                await loser.client.update("containers", container, {"state": "Running"})


def _supervisor(cluster: Cluster, container: str) -> int:
    return int(json.loads((cluster.data / "run" / container / "lock").read_text())["PID"])


def _is_running(pid: int) -> bool:
    with suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False
