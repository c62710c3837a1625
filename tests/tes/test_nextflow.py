"""The calls of Nextflow's plugin nf-ga4gh, as it sends them, and what it reads of the answers.

It polls `/v1/tasks/ID` every five seconds without a view, and reads the exit code of the first
executor of the first log in the view FULL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tes.outside import MeanServer, mean_server
from tests.tes.site import TaskWorld, task_world
from tests.tes.transfers.test_outputs import end

CONTAINER = "/work"
FILES = {
    ".command.out": b"hello\n",
    ".command.err": b"",
    ".command.log": b"hello\n",
    ".exitcode": b"0",
    "chunk_a": b"a",
    "chunk_b": b"b",
}


def body(image: str, server: MeanServer) -> dict[str, Any]:
    """A process `splitLetters` with the outputs `chunk_*` and, optional, `[odd].txt`."""
    work = f"{server.url}/work/3f/8d2a1b"
    script = "bash -o pipefail -c 'bash /work/.command.run 2>&1 | tee /work/.command.log'"
    return {
        "name": "splitLetters",
        "executors": [
            {"image": image, "command": ["/bin/bash", "-o", "pipefail", "-c", script],
             "workdir": CONTAINER},
        ],
        "inputs": [
            {"name": ".command.run", "type": "FILE", "url": f"{work}/.command.run",
             "path": f"{CONTAINER}/.command.run"},
            {"name": ".command.sh", "type": "FILE", "url": f"{work}/.command.sh",
             "path": f"{CONTAINER}/.command.sh"},
        ],
        "outputs": [
            *({"name": name, "type": "FILE", "url": f"{work}/{name}",
               "path": f"{CONTAINER}/{name}"}
              for name in (".command.out", ".command.err", ".command.log", ".exitcode")),
            {"name": "chunk_*", "type": "FILE", "url": work, "path": f"{CONTAINER}/chunk_*",
             "path_prefix": CONTAINER},
            {"name": "[odd].txt", "type": "FILE", "url": f"{work}/[odd].txt",
             "path": f"{CONTAINER}/[odd].txt"},
        ],
        "resources": {"cpu_cores": 1, "disk_gb": 1.0, "backend_parameters": None},
        "tags": {"lading.missing_outputs": "ignore"},
        "volumes": [],
    }  # fmt: skip


async def play(it: TaskWorld, server: MeanServer, exit_code: int) -> tuple[str, dict[str, Any]]:
    """A task from its creation to its end; the states that are polled, and the view FULL."""
    for name in (".command.run", ".command.sh"):
        server.add(f"/work/3f/8d2a1b/{name}", b"true\n")
    image = await it.world.ensure_image()
    made = await it.ok("POST", "/v1/tasks", body(image, server))
    path = f"/v1/tasks/{made['id']}"
    seen = [await it.ok("GET", path)]
    await it.transfer()
    seen.append(await it.ok("GET", path))
    await end(it, made["id"], FILES, exit_code=exit_code)
    seen.append(await it.ok("GET", path))
    await it.transfer()
    seen.append(await it.ok("GET", path))
    assert all(set(one) == {"id", "state"} for one in seen)
    found = await it.ok("GET", path, query="view=FULL")
    return " ".join(one["state"] for one in seen), found


async def test_a_process_that_succeeds(tmp_path: Path) -> None:
    async with (
        mean_server() as server,
        task_world(tmp_path, TES={"AllowedNetworks": ["127.0.0.0/8"]}) as it,
    ):
        states, found = await play(it, server, 0)
        assert states == "QUEUED QUEUED RUNNING COMPLETE"
        assert found["logs"][0]["logs"][0]["exit_code"] == 0
        stored = {path.removeprefix("/work/3f/8d2a1b/"): one for path, one in server.stored.items()}
        assert stored == FILES


async def test_a_process_that_fails(tmp_path: Path) -> None:
    async with (
        mean_server() as server,
        task_world(tmp_path, TES={"AllowedNetworks": ["127.0.0.0/8"]}) as it,
    ):
        states, found = await play(it, server, 9)
        assert states == "QUEUED QUEUED RUNNING EXECUTOR_ERROR"
        assert found["logs"][0]["logs"][0]["exit_code"] == 9
        # It reads the exit code and the messages from its work directory.
        assert server.stored["/work/3f/8d2a1b/.exitcode"] == b"0"
