"""Outputs of tasks that are delivered to URLs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lading.core.records.schema import Record
from lading.core.tes.transfers import DeliveredFile
from tests.tes.outside import MeanServer
from tests.tes.site import TaskWorld

FILES = {"a.txt": b"one", "b.txt": b"two", ".hidden": b"", "d/c.txt": b"three", "d/e/f": b"four"}


async def end(
    it: TaskWorld, task: str, files: Mapping[str, bytes] = FILES, *, exit_code: int = 0
) -> None:
    """Let the container of a task end with these files as its output."""
    lines: dict[str, list[str]] = {}
    for path, data in sorted(files.items()):
        folder, _, name = path.rpartition("/")
        block = it.world.blocks.put(data)
        stream = "./" + folder if folder else "."
        lines.setdefault(stream, []).append(f"{stream} {block} 0:{len(data)}:{name}\n")
    text = "".join("".join(each) for each in lines.values())
    made = await it.world.ok("POST", "collections", {"manifest_text": text})
    await it.world.run(
        await it.container(task), exit_code=exit_code, output=made["portable_data_hash"]
    )


async def delivered(it: TaskWorld, *outputs: Any, exit_code: int = 0) -> Record:
    """A task in the view FULL, after it has ended and its outputs were delivered."""
    task = await it.create(outputs=list(outputs))
    await end(it, task, exit_code=exit_code)
    assert await it.state(task) == "RUNNING"
    await it.transfer()
    found: Record = await it.ok("GET", f"tasks/{task}", query="view=FULL")
    return found


def written(place: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {
        str(one.relative_to(place)): one.read_bytes() for one in place.rglob("*") if one.is_file()
    }


async def test_a_file_to_a_directory(it: TaskWorld, tmp_path: Path) -> None:
    output = {"path": "/out/a.txt", "url": "file:///data/x/y/result"}
    task = await delivered(it, output, {"path": "/out/b.txt", "url": "keep:"})
    assert task["state"] == "COMPLETE"
    assert written(tmp_path / "files") == {"x/y/result": b"one"}
    [first, second] = task["logs"][0]["outputs"]
    assert first == {"url": output["url"], "path": "/out/a.txt", "size_bytes": "3"}
    assert second["url"].startswith("keep:")
    digest = hashlib.sha256(b"one").hexdigest()
    assert digest in task["logs"][0]["metadata"]["checksums"]


async def test_wildcards_and_directories(it: TaskWorld, tmp_path: Path) -> None:
    task = await delivered(
        it,
        {"path": "/out/*.txt", "path_prefix": "/out", "url": "file:///data/texts/"},
        {"path": "/out/d/", "url": "file:///data/all", "type": "DIRECTORY"},
        {"path": "/out/*/c.*", "path_prefix": "/out/", "url": "/data/c"},
    )
    assert task["state"] == "COMPLETE"
    assert written(tmp_path / "files") == {
        "texts/a.txt": b"one",
        "texts/b.txt": b"two",
        "all/c.txt": b"three",
        "all/e/f": b"four",
        "c/d/c.txt": b"three",
    }
    urls = {one["url"] for one in task["logs"][0]["outputs"]}
    assert "file:///data/texts/a.txt" in urls
    assert "/data/c/d/c.txt" in urls


async def test_put_to_a_server(it: TaskWorld, server: MeanServer) -> None:
    server.add("/up/a", b"", refusals=[503])
    outputs = [
        {"path": "/out/a.txt", "url": f"{server.url}/up/a"},
        {"path": "/out/d", "url": f"{server.url}/up/d", "type": "DIRECTORY"},
    ]
    task = await delivered(it, *outputs)
    assert task["state"] == "COMPLETE"
    assert server.stored == {"/up/a": b"one", "/up/d/c.txt": b"three", "/up/d/e/f": b"four"}


async def test_after_an_error_of_the_command_too(it: TaskWorld, tmp_path: Path) -> None:
    outputs = [
        {"path": "/out/a.txt", "url": "/data/a"},
        {"path": "/out/none", "url": "/data/none"},
    ]
    task = await delivered(it, *outputs, exit_code=3)
    assert task["state"] == "EXECUTOR_ERROR"
    assert task["logs"][0]["logs"][0]["exit_code"] == 3
    assert written(tmp_path / "files") == {"a": b"one"}


async def test_a_missing_output(it: TaskWorld, tmp_path: Path) -> None:
    outputs = [
        {"path": "/out/a.txt", "url": "/data/a"},
        {"path": "/out/none", "url": "/data/none"},
    ]
    task = await delivered(it, *outputs)
    assert task["state"] == "SYSTEM_ERROR"
    assert task["logs"][0]["system_logs"][0] == "missing outputs: /out/none"
    assert written(tmp_path / "files") == {"a": b"one"}


@pytest.mark.parametrize("refusals", [[507], [403], [503] * 9])
async def test_what_cannot_be_delivered(
    it: TaskWorld, server: MeanServer, refusals: list[int]
) -> None:
    server.add("/a", b"", refusals=list(refusals))
    task = await delivered(it, {"path": "/out/a.txt", "url": f"{server.url}/a?sig=SECRET"})
    assert (task["state"], task["logs"][0]["outputs"]) == ("SYSTEM_ERROR", [])
    said = " ".join(task["logs"][0]["system_logs"])
    assert f"output /out/a.txt: {server.url}/a: 127.0.0.1: answered {refusals[0]}" in said
    assert "SECRET" not in said


async def test_a_delivery_goes_on_after_an_interruption(
    it: TaskWorld, tmp_path: Path, server: MeanServer
) -> None:
    outputs = [
        {"path": "/out/a.txt", "url": f"{server.url}/a"},
        {"path": "/out/b.txt", "url": f"{server.url}/b"},
    ]
    task = await it.create(outputs=outputs)
    await end(it, task)
    await it.journal.note_delivery(task, DeliveredFile(url=f"{server.url}/a", size=3))
    (tmp_path / "files" / ".b.lading-0").write_bytes(b"half")
    await it.transfer()
    assert await it.state(task) == "COMPLETE"
    assert server.stored == {"/b": b"two"}


async def test_a_reused_task_delivers_its_outputs_too(it: TaskWorld, server: MeanServer) -> None:
    sent: Any = {
        "inputs": [{"path": "/in/a", "url": server.add("/a", b"x")}],
        "outputs": [{"path": "/out/out.txt", "url": f"{server.url}/out"}],
        "tags": {"lading.reuse": "yes"},
    }
    for number in range(2):
        task = await it.create(**sent)
        await it.transfer()
        if not number:
            await it.world.run(await it.container(task))
        await it.transfer()
        found = await it.ok("GET", f"tasks/{task}", query="view=BASIC")
        assert (found["state"], server.stored.pop("/out")) == ("COMPLETE", b"output")
    metadata = found["logs"][0]["metadata"]
    assert metadata["reused"] == metadata["container_uuid"]


async def test_cancel_while_outputs_are_delivered(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(outputs=[{"path": "/out/a.txt", "url": f"{server.url}/a"}])
    await end(it, task)
    await it.worker.note_ends()
    found = await it.ok("GET", "tasks", query="state=RUNNING")
    assert [one["id"] for one in found["tasks"]] == [task]
    await it.ok("POST", f"tasks/{task}:cancel")
    assert await it.state(task) == "CANCELED"
    await it.transfer()
    assert server.stored == {}
    found = await it.ok("GET", "tasks", query="state=CANCELED")
    assert [one["id"] for one in found["tasks"]] == [task]


async def test_a_container_that_was_not_completed(it: TaskWorld, server: MeanServer) -> None:
    task = await it.create(outputs=[{"path": "/out/a.txt", "url": f"{server.url}/a"}])
    container = await it.container(task)
    supervisor = await it.world.lock(container)
    path = f"containers/{container}"
    await it.world.ok("PUT", path, {"state": "Running"}, token=supervisor)
    await it.ok("POST", f"tasks/{task}:cancel")
    await it.world.ok("PUT", path, {"state": "Cancelled"}, token=supervisor)
    await it.transfer()
    assert (await it.state(task), server.seen) == ("CANCELED", [])


@pytest.mark.parametrize(
    ("keeps", "cancelled", "files"),
    [
        ("yes", False, {"a": b"one"}),
        ("60", False, {"a": b"one"}),
        ("no", False, {}),
        ("yes", True, {}),
    ],
)
async def test_outputs_of_a_task_that_a_limit_ended(
    it: TaskWorld, tmp_path: Path, keeps: str, cancelled: bool, files: dict[str, bytes]
) -> None:
    task = await it.create(
        outputs=[{"path": "/out/a.txt", "url": "/data/a"}],
        resources={"backend_parameters": {"keep_on_failure": keeps}},
    )
    container = await it.container(task)
    supervisor = await it.world.lock(container)
    output = await it.world.collection({"a.txt": b"one"})
    failure = {"failure": "timeout", "error": "its time was over"}
    changes: list[Any] = [
        {"state": "Running"},
        {"runtime_status": failure},
        {"state": "Cancelled", "output": output["portable_data_hash"]},
    ]
    for number, change in enumerate(changes):
        if number == 2 and cancelled:
            await it.ok("POST", f"tasks/{task}:cancel")
        await it.world.ok("PUT", f"containers/{container}", change, token=supervisor)
    assert (await it.state(task) == "RUNNING") is bool(files)
    await it.transfer()
    found = await it.ok("GET", f"tasks/{task}", query="view=FULL")
    assert found["state"] == ("CANCELED" if cancelled else "SYSTEM_ERROR")
    assert written(tmp_path / "files") == files
    # The collection is kept in any case.
    assert found["logs"][0]["metadata"]["output"] == output["portable_data_hash"]
