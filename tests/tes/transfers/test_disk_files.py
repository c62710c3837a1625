"""Files below roots of the server's machine, as inputs and as outputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.core.errors import LadingError, NotFound
from lading.core.tes.file_roots import FileRoot
from lading.tes.transfers.disk_files import FileSource, is_directory, list_directory
from tests.tes.site import TaskWorld
from tests.tes.transfers.test_inputs import content, fetched, mount
from tests.tes.transfers.test_outputs import delivered, written


async def test_a_file_is_read_from_a_byte_on(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    source = FileSource(FileRoot(prefix="/d", directory=str(tmp_path)), "a")
    async with source.open(0, None) as first:
        pass
    async with source.open(4, first.facts) as opened:
        assert (opened.start, [one async for one in opened.pieces]) == (4, [b"ef"])
    (tmp_path / "a").write_bytes(b"changed")
    async with source.open(4, first.facts) as opened:
        assert opened.start == 0


async def test_listings_change_with_their_files(tmp_path: Path) -> None:
    root = FileRoot(prefix="/d", directory=str(tmp_path))
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "a").write_bytes(b"1")
    first = await list_directory(root, "x")
    assert (list(first.files), first.directories) == (["a"], ("y",))
    (tmp_path / "x" / "a").write_bytes(b"22")
    assert (await list_directory(root, "x")).validator != first.validator
    with pytest.raises(NotFound):
        await list_directory(root, "none")
    with pytest.raises(LadingError):
        is_directory(FileRoot(prefix="/d", directory=str(tmp_path / "none")), "a")


async def test_files_below_a_root(it: TaskWorld, tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "d" / "empty").mkdir(parents=True)
    (files / "d" / "a").write_bytes(b"one")
    (files / "d" / "link").symlink_to("/etc/passwd")
    assert await content(it, await fetched(it, "file:///data/d/a")) == {"a": b"one"}
    assert await content(it, await fetched(it, "/data/d/a")) == {"a": b"one"}
    # The type that a client names is often wrong.
    assert await content(it, await fetched(it, "file:///data/d", type="FILE")) == {"a": b"one"}
    again = await fetched(it, "file:///data/d", type="DIRECTORY")
    assert (await mount(it, again))["path"] == ""
    (files / "d" / "a").write_bytes(b"two")
    assert await content(it, await fetched(it, "file:///data/d/a")) == {"a": b"two"}


@pytest.mark.parametrize("path", ["link", "linked/a", "none", "fifo"])
async def test_files_that_are_refused(it: TaskWorld, tmp_path: Path, path: str) -> None:
    files = tmp_path / "files"
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "a").write_bytes(b"secret")
    (files / "link").symlink_to(tmp_path / "beside" / "a")
    (files / "linked").symlink_to(tmp_path / "beside")
    os.mkfifo(files / "fifo")
    task = await fetched(it, f"file:///data/{path}")
    assert await it.state(task) == "SYSTEM_ERROR"


async def test_a_root_of_others(it: TaskWorld, tmp_path: Path) -> None:
    (tmp_path / "files" / "a").write_bytes(b"one")
    token = await it.world.user("bob")
    image = await it.world.ensure_image(token)
    task = {
        "executors": [{"image": image, "command": ["true"]}],
        "inputs": [{"path": "/in/a", "url": "/data/a"}],
    }
    made = await it.ok("POST", "tasks", task, token=token)
    await it.transfer()
    assert await it.state(made["id"]) == "SYSTEM_ERROR"
    outside = await it.task(inputs=[{"path": "/in/a", "url": "file:///etc/passwd"}])
    reply = await it.call("POST", "tasks", outside)
    assert reply.json["errors"][0]["pointer"] == "/inputs/0/url"
    for wrong in ("file:///data/../etc/passwd", "file:///data/%2e%2e/etc/passwd"):
        odd = await it.task(inputs=[{"path": "/in/a", "url": wrong}])
        assert (await it.call("POST", "tasks", odd)).status == 400


async def test_links_in_the_target_are_not_followed(it: TaskWorld, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "files" / "link").symlink_to(tmp_path / "beside")
    (tmp_path / "beside" / "a").write_bytes(b"mine")
    (tmp_path / "files" / "a").symlink_to(tmp_path / "beside" / "a")
    task = await delivered(it, {"path": "/out/a.txt", "url": "/data/link/x"})
    assert task["state"] == "SYSTEM_ERROR"
    task = await delivered(it, {"path": "/out/a.txt", "url": "/data/a"})
    assert task["state"] == "COMPLETE"
    assert written(tmp_path / "beside") == {"a": b"mine"}
    assert (tmp_path / "files" / "a").read_bytes() == b"one"


async def test_roots_for_reading(it: TaskWorld) -> None:
    task = await it.task(outputs=[{"path": "/out/a", "url": "/read/a"}])
    reply = await it.call("POST", "tasks", task)
    assert reply.json["errors"][0]["pointer"] == "/outputs/0/url"


async def test_temporary_files_are_removed(it: TaskWorld, tmp_path: Path) -> None:
    (tmp_path / "files" / "a").mkdir()
    task = await delivered(it, {"path": "/out/a.txt", "url": "/data/a"})
    assert task["state"] == "SYSTEM_ERROR"
    assert [one.name for one in (tmp_path / "files").iterdir()] == ["a"]
