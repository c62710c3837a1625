"""GA4GH tasks on a real server, with real containers, on each engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from lading.client.api import ApiClient
from lading.client.servers.environment import find_server
from tests.reality import need_program
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
TASKS = "/ga4gh/tes/v1/tasks"
ENDED = ("COMPLETE", "EXECUTOR_ERROR", "SYSTEM_ERROR", "CANCELED", "PREEMPTED")


class TaskClient:
    """Creates tasks and waits for them."""

    def __init__(self, api: ApiClient) -> None:
        self.api = api

    async def create(self, *executors: dict[str, Any], **more: Any) -> str:
        resources = {"ram_gb": 0.1, "backend_parameters": {"network": "no"}}
        task = {"executors": [*executors], "resources": resources, **more}
        return str((await self.api.request("POST", TASKS, body=task))["id"])

    async def until(self, uuid: str, *states: str) -> Any:
        async with asyncio.timeout(120):
            while (await self.api.request("GET", f"{TASKS}/{uuid}"))["state"] not in states:
                await asyncio.sleep(0.1)
        return await self.api.request("GET", f"{TASKS}/{uuid}", params={"view": "FULL"})


def sh(script: str, image: str = "tools:1", **more: Any) -> dict[str, Any]:
    return {"image": image, "command": ["sh", "-c", script], **more}


_Act: TypeAlias = Callable[[TaskClient], Awaitable[None]]


def scene(cluster: Cluster, act: _Act) -> None:
    async def run() -> None:
        server = find_server(cluster.environment, cluster.data)
        transport = server.transport()
        try:
            await act(TaskClient(ApiClient(transport, server.token)))
        finally:
            await transport.close()

    asyncio.run(run())


async def several_executors(client: TaskClient) -> None:
    task = await client.create(
        sh(
            "cat; echo one >/vol/a; echo oops >&2;"
            " (while :; do echo x >>/vol/b; sleep 0.05; done) &"
            " sleep 0.3",
            stdin="/in/text",
            stdout="/out/copy",
        ),
        {"image": "tools:1", "command": ["ERROR"], "ignore_error": True},
        # The background process of the first executor is dead.
        sh(
            "cat /vol/a /out/copy; wc -c </vol/b >/vol/c; sleep 0.3; wc -c </vol/b | cmp - /vol/c",
            "others:1",
            stdout="/out/all",
        ),
        sh("cat /out/all; exit 3", "others:1"),
        sh("echo never"),
        inputs=[{"path": "/in/text", "content": "in\n"}],
        outputs=[{"path": "/out/*", "path_prefix": "/out", "url": "keep:"}],
        volumes=["/vol"],
    )
    found = await client.until(task, *ENDED)
    [attempt] = found["logs"]
    logs = attempt["logs"]
    assert [one["exit_code"] for one in logs] == [0, 127, 0, 3], found["logs"][0]["system_logs"]
    assert [logs[number]["stdout"] for number in (0, 2, 3)] == ["in\n", "one\nin\n", "one\nin\n"]
    assert logs[0]["stderr"] == "oops\n"
    assert found["state"] == "EXECUTOR_ERROR"
    assert [(one["path"], one["size_bytes"]) for one in attempt["outputs"]] == [
        ("/out/all", "7"),
        ("/out/copy", "3"),
    ]


async def one_executor(client: TaskClient) -> None:
    # As the plugin of Snakemake sends it.
    folder = "/tmp/job"
    script = f"{folder}/run.sh"
    task = await client.create(
        {"image": "tools:1", "command": ["sh", script], "workdir": folder},
        inputs=[{"path": script, "content": "mkdir made && pwd\n", "type": "FILE"}],
        outputs=[],
    )
    found = await client.until(task, *ENDED)
    assert (found["state"], found["logs"][0]["logs"][0]["stdout"]) == ("COMPLETE", f"{folder}\n")


_CHANGE = "cd $0; echo more >>a; mv a b; echo new >c; cat b; ls"


async def copies(client: TaskClient) -> None:
    """Inputs, in the directory of the outputs and in a volume, are files of the task."""
    for folder, more in (
        ("/out", {"outputs": [{"path": "/out/b", "url": "keep:"}]}),
        ("/vol", {"volumes": ["/vol"]}),
    ):
        task = await client.create(
            {"image": "tools:1", "command": ["sh", "-c", _CHANGE, folder]},
            {"image": "others:1", "command": ["cat", f"{folder}/b"]},
            inputs=[{"path": f"{folder}/a", "content": "one\n"}],
            **more,
        )
        found = await client.until(task, *ENDED)
        log = found["logs"][0]
        assert (found["state"], [one["stdout"] for one in log["logs"]]) == (
            "COMPLETE",
            ["one\nmore\nb\nc\n", "one\nmore\n"],
        ), found
        url = log["outputs"][0]["url"] if log["outputs"] else ""
        # The file is what the first task made of it; its input by URL stays as it is.
        if url:
            again = await client.create(
                {"image": "tools:1", "command": ["sh", "-c", _CHANGE, "/out"]},
                inputs=[{"path": "/out/a", "url": url}],
                outputs=[{"path": "/out/b", "url": "keep:"}],
            )
            found = await client.until(again, *ENDED)
            assert found["logs"][0]["logs"][0]["stdout"] == "one\nmore\nmore\nb\nc\n", found
            assert [one["path"] for one in found["logs"][0]["outputs"]] == ["/out/b"]
            stored = await client.api.raw("GET", f"/by_id/{url.removeprefix('keep:')}")
            assert stored.body == b"one\nmore\n"


async def copies_elsewhere(client: TaskClient) -> None:
    """An input whose directory the image has not, and one beside files of the image."""
    inputs = [{"path": f"/{one}/a", "content": "one\n"} for one in ("data", "etc")]
    script = f"{_CHANGE}; cd /etc; echo more >>a; cat a; cat passwd >/dev/null"
    task = await client.create(
        {**sh(script), "command": ["sh", "-c", script, "/data"]}, inputs=inputs
    )
    log = (await client.until(task, *ENDED))["logs"][0]["logs"][0]
    assert (log["exit_code"], log["stdout"]) == (0, "one\nmore\nb\nc\none\nmore\n"), log


async def cancelled(client: TaskClient) -> None:
    task = await client.create(sh("sleep 0.1"), sh("sleep 1000"), sh("true"))
    async with asyncio.timeout(60):
        while not (found := await client.until(task, "RUNNING"))["logs"][0]["logs"]:
            await asyncio.sleep(0.05)
    assert found["logs"][0]["logs"][0]["exit_code"] == 0
    await client.api.request("POST", f"{TASKS}/{task}:cancel")
    assert (await client.until(task, *ENDED))["state"] == "CANCELED"


def play(directory: Path, config: str = "", acts: Sequence[_Act] = ()) -> None:
    with running_cluster(directory / "data", config) as cluster:
        for name in ("tools:1", "others:1"):
            more = ("true",) if name == "others:1" else ()
            programs = ("sh", "cat", "sleep", "mkdir", "wc", "cmp", "mv", "ls", *more)
            cluster.lading("image", "add", "--name", name, "--from-host", *programs)
        for act in (several_executors, one_executor, copies, *acts, cancelled):
            scene(cluster, act)


@pytest.mark.quick
def test_tasks_on_the_native_engine(tmp_path: Path) -> None:
    need_program("crun")
    play(tmp_path, acts=(copies_elsewhere,))


def test_tasks_on_docker(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    need_program("dockerd")
    socket = request.getfixturevalue("docker_daemon").socket
    play(tmp_path, f"Containers: {{RuntimeEngine: docker, DockerSocket: {socket}}}\n")


def test_tasks_on_podman(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    need_program("podman")
    socket = request.getfixturevalue("podman_service").socket
    play(tmp_path, f"Containers: {{RuntimeEngine: podman, PodmanSocket: {socket}}}\n")
