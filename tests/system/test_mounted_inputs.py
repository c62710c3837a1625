"""Containers whose inputs are mounted: large ones as they are needed, and `keep` mounts; equal to
those laid out.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient, Record
from lading.client.servers.environment import find_server
from tests.reality import need, need_root
from tests.system.cluster import Cluster, is_alive, running_cluster
from tests.system.docker_daemon import DockerDaemon

pytestmark = pytest.mark.system
PROGRAMS = ("sh", "cat", "ls", "sleep", "head", "ln", "wc", "true")
SCRIPT = """
cat /in/many/* /in/big > all
ls -R /in > listed
head -c 3000000 /in/big > part
ln -s /in/many linked
cat > copied
cat /out/own/many/7 > own/seven
"""


@pytest.fixture(scope="module", autouse=True)
def _fuse() -> None:
    need_root()
    need(os.access("/dev/fuse", os.R_OK | os.W_OK), "/dev/fuse")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    chance = random.Random(5)
    (root / "big").write_bytes(chance.randbytes(5 << 20))
    (root / "many").mkdir()
    for number in range(50):
        (root / "many" / str(number)).write_bytes(chance.randbytes(number * 100))
    return root


def _config(engine: str, large: str) -> str:
    return f"Containers: {{{engine}}}\nLocal: {{VCPUs: 2, RAM: 1GiB, LargeInput: {large}}}\n"


def _docker(daemon: DockerDaemon) -> str:
    return f"RuntimeEngine: docker, DockerSocket: {daemon.socket}"


class Scene:
    """A cluster with an image and an input; makes requests and waits for them."""

    def __init__(self, cluster: Cluster, api: ApiClient, source: Path) -> None:
        self.cluster, self.api = cluster, api
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", *PROGRAMS)
        self.pdh = cluster.lading("put", str(source), "--name", "source").stdout.strip()

    async def submit(self, script: str, mounts: Record, **more: Any) -> Record:
        """Commit a request for a shell script."""
        spec = {
            "command": ["sh", "-ec", script],
            "container_image": "tools:1",
            "cwd": "/out",
            "output_path": "/out",
            "mounts": {"/out": {"kind": "tmp"}, **mounts},
            "runtime_constraints": {"vcpus": 1, "ram": 64 << 20, "API": True},
            "priority": 1,
            "state": "Committed",
            "container_count_max": 1,
        }
        return await self.api.create("container_requests", {**spec, **more})

    async def until(self, request: Record, *states: str) -> Record:
        """Its container, once it is in one of these states."""
        async with asyncio.timeout(180):
            while True:
                found = await self.api.get("container_requests", request["uuid"])
                container = await self.api.get("containers", found["container_uuid"])
                if container["state"] in states:
                    return container
                await asyncio.sleep(0.05)

    async def mount_log(self, container: Record) -> str:
        """The log of its mount."""
        path = f"/by_id/{container['log']}/arv-mount.txt"
        return (await self.api.raw("GET", path)).body.decode()

    def collection(self, path: str = "") -> Record:
        """A mount of the input."""
        return {"kind": "collection", "portable_data_hash": self.pdh, "path": path}


def play(root: Path, config: str, source: Path, act: Callable[[Scene], Awaitable[Any]]) -> Any:
    """What `act` gives on a new cluster, which must leave nothing behind."""

    async def run(cluster: Cluster) -> Any:
        server = await asyncio.to_thread(find_server, cluster.environment, Path("/nonexistent"))
        async with server.transport() as transport:
            scene = await asyncio.to_thread(
                Scene, cluster, ApiClient(transport, server.token), source
            )
            return await act(scene)

    with running_cluster(root / "data", config) as cluster:
        return asyncio.run(run(cluster))


async def _work(scene: Scene) -> tuple[str, bool]:
    """The output of a container that reads its input in every way, and whether that was mounted."""
    mounts = {
        "/in": scene.collection(),
        "/out/own": {**scene.collection(), "writable": True},
        "stdin": scene.collection("big"),
    }
    container = await scene.until(await scene.submit(SCRIPT, mounts), "Complete", "Cancelled")
    assert (container["state"], container["exit_code"]) == ("Complete", 0), container[
        "runtime_status"
    ]
    return container["output"], "mounted, read on demand" in await scene.mount_log(container)


def test_outputs_are_equal_however_inputs_come(
    docker_daemon: DockerDaemon, source: Path, tmp_path: Path
) -> None:
    found = {
        name: play(tmp_path / name, _config(engine, large), source, _work)
        for name, engine, large in (
            ("laid out", "RuntimeEngine: native", "0"),
            ("mounted", "RuntimeEngine: native", "1MiB"),
            ("docker", _docker(docker_daemon), "1MiB"),
        )
    }
    assert {output for output, _ in found.values()} == {found["laid out"][0]}
    assert {name: mounted for name, (_, mounted) in found.items()} == {
        "laid out": False,
        "mounted": True,
        "docker": True,
    }


async def _keep(scene: Scene) -> None:
    """A container sees what its user can read, by id and by name, and refers to it in its
    output.
    """
    script = f"""
cat /keep/by_id/{scene.pdh}/many/9 /keep/home/source/many/9 > twice
ln -s /keep/by_id/{scene.pdh}/big big
ln -s /keep/home/source/many/8 eight
ls /keep > top
"""
    container = await scene.until(
        await scene.submit(script, {"/keep": {"kind": "keep"}}), "Complete", "Cancelled"
    )
    assert (container["state"], container["exit_code"]) == ("Complete", 0), container[
        "runtime_status"
    ]
    text = (await scene.api.get("collections", container["output"]))["manifest_text"]
    assert (
        all(name in text for name in ("900:twice", ":big", "800:eight", ":top"))
        or "1800:twice" in text
    )
    listed = scene.cluster.lading("cat", f"{container['output']}/top").stdout.split()
    assert listed == ["README", "by_id", "by_tag", "home", "shared"]
    original = (await scene.api.get("collections", scene.pdh))["manifest_text"]
    big = original.split()[1][:32]
    assert big in text, "stored once, referred to twice"


@pytest.mark.parametrize("engine", ["native", "docker"])
def test_a_keep_mount_shows_all_collections(
    request: pytest.FixtureRequest, source: Path, tmp_path: Path, engine: str
) -> None:
    named = (
        "RuntimeEngine: native"
        if engine == "native"
        else _docker(request.getfixturevalue("docker_daemon"))
    )
    play(tmp_path, _config(named, "0"), source, _keep)


async def _kill_supervisor(scene: Scene) -> None:
    """Nothing of the mount is left when the supervisor is killed."""
    request = await scene.submit("cat /in/big > /dev/null; sleep 60", {"/in": scene.collection()})
    await scene.until(request, "Running")
    (supervisor,) = scene.cluster.pids("supervisor")
    served = _mount_process(supervisor)
    os.kill(supervisor, signal.SIGKILL)
    await scene.until(request, "Cancelled", "Complete", "Queued")
    async with asyncio.timeout(180):
        while is_alive(served) or scene.cluster.run_directories():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("engine", ["native", "docker"])
def test_a_killed_supervisor_leaves_no_mount(
    request: pytest.FixtureRequest, source: Path, tmp_path: Path, engine: str
) -> None:
    named = (
        "RuntimeEngine: native"
        if engine == "native"
        else _docker(request.getfixturevalue("docker_daemon"))
    )
    play(tmp_path, _config(named, "1MiB"), source, _kill_supervisor)


async def _kill_mount(scene: Scene) -> None:
    """A container whose mount ends is stopped, and says why."""
    request = await scene.submit("sleep 60", {"/in": scene.collection()})
    await scene.until(request, "Running")
    (supervisor,) = scene.cluster.pids("supervisor")
    os.kill(_mount_process(supervisor), signal.SIGKILL)
    container = await scene.until(request, "Cancelled")
    assert container["runtime_status"]["error"].startswith(
        "the mount of its collections ended while it ran"
    )
    assert container["runtime_status"]["failure"] == "node"


def test_a_container_whose_mount_ended_is_cancelled(source: Path, tmp_path: Path) -> None:
    play(tmp_path, _config("RuntimeEngine: native", "1MiB"), source, _kill_mount)


def _mount_process(supervisor: int) -> int:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            line = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == supervisor and b"lading.client.mount" in line:
            found.append(int(path.name))
    (one,) = found
    return one
