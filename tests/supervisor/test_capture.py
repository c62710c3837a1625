from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.caches.tree_cache import TreeCache
from lading.client.retry import NO_RETRY
from lading.core.containers.mounting.mount_plan import plan
from lading.core.containers.mounting.mount_steps import CollectionPath, GitTree, HostPath, Source
from lading.core.containers.output.plan import (
    CopyFile,
    CopyFiles,
    EmptyFile,
    Entry,
    OutputPlan,
    Refer,
)
from lading.core.data.manifest import counts, portable_data_hash
from lading.core.errors import ExecutionError, Failure
from lading.core.values import JsonObject
from lading.process.cancellation import Stop, never
from lading.process.confined import ConfinedTree
from lading.supervisor.capture import is_small, plan_capture, save_log, save_output
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.staging import Stage
from lading.supervisor.logs import Log
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import FakeServer
from tests.supervisor.supervised import MOMENT


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def inputs(server: FakeServer, tmp_path: Path) -> Inputs:
    transport = AsgiTransport(server)
    api = ApiClient(transport, "t", retry=NO_RETRY)
    return Inputs(
        api,
        BlockClient(transport, "t", retry=NO_RETRY),
        TreeCache(tmp_path / "trees", 1 << 30),
        no_git,
    )


async def test_what_is_planned_is_saved(server: FakeServer, inputs: Inputs, tmp_path: Path) -> None:
    pdh = server.add_collection({"d/x": b"x", "y": b"y"})
    (tmp_path / "small").write_bytes(b"small")
    (tmp_path / "large").write_bytes(b"l" * 300_000)
    items = (
        CopyFile("a/small", HostPath(str(tmp_path / "small"))),
        CopyFile("large", HostPath(str(tmp_path / "large"))),
        EmptyFile("e/.keep"),
        Refer("all", CollectionPath(pdh)),
        Refer("one", CollectionPath(pdh, "d/x")),
        Refer("sub", CollectionPath(pdh, "d")),
    )
    manifest = await save_output(
        OutputPlan(items), inputs=inputs, blocks=inputs.blocks, files=Plain()
    )
    server.store(manifest)
    assert server.files(portable_data_hash(manifest)) == {
        "a/small": b"small",
        "large": b"l" * 300_000,
        "e/.keep": b"",
        "all/d/x": b"x",
        "all/y": b"y",
        "one": b"x",
        "sub/x": b"x",
    }
    assert server.calls.count("PUT block") < 4
    assert "GET block" not in server.calls


async def test_a_collection_that_is_mounted_at_many_places_is_read_once(
    server: FakeServer, inputs: Inputs
) -> None:
    """200 mounts from one collection must not read its manifest each time."""
    pdh = server.add_collection({f"d{number % 5}/{number:04}": b"x" for number in range(1000)})
    items = tuple(
        Refer(f"m{number:03}", CollectionPath(pdh, f"d{number % 5}")) for number in range(200)
    )
    manifest = await save_output(
        OutputPlan(items), inputs=inputs, blocks=inputs.blocks, files=Plain()
    )
    assert counts(manifest) == (200 * 200, 200 * 200)
    assert [call for call in server.calls if call.startswith("GET")] == ["GET collections"]


async def test_saving_many_entries_lets_others_run(inputs: Inputs, tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"small")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    items = tuple(CopyFile(f"{number}", HostPath(str(tmp_path / "small"))) for number in range(640))
    await save_output(OutputPlan(items), inputs=inputs, blocks=inputs.blocks, files=Plain())
    counting.cancel()
    assert turns >= 40


async def test_a_file_that_is_gone_is_a_failure(inputs: Inputs, tmp_path: Path) -> None:
    items = OutputPlan((CopyFile("a", HostPath(str(tmp_path / "none"))),))
    with pytest.raises(ExecutionError, match="a cannot be read") as caught:
        await save_output(items, inputs=inputs, blocks=inputs.blocks, files=Plain())
    assert caught.value.failure is Failure.NODE


@pytest.mark.parametrize("count", [1, 100])
async def test_a_file_of_a_folder_that_is_gone_is_a_failure(
    inputs: Inputs, tmp_path: Path, count: int
) -> None:
    names = tuple(f"{number:03}" for number in range(count))
    items = OutputPlan((CopyFiles("d", HostPath(str(tmp_path)), names),))
    with pytest.raises(ExecutionError, match="d/000 cannot be read: No such file") as caught:
        await save_output(items, inputs=inputs, blocks=inputs.blocks, files=Plain())
    assert caught.value.failure is Failure.NODE


@pytest.mark.parametrize("count", [3, 100])
async def test_few_files_and_many(inputs: Inputs, tmp_path: Path, count: int) -> None:
    made = plan(
        {"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s")
    )
    stage = Stage(made)
    await stage.set(inputs, memory=False)
    for number in range(count):
        (Path(made.output_directory) / f"{number:03}").touch()
    found = await plan_capture(stage, [])
    assert is_small(found, files=stage) == (count < 64)
    manifest = await save_output(found, inputs=inputs, blocks=inputs.blocks, files=stage)
    assert counts(manifest) == (count, 0)
    await stage.close()


async def test_files_of_every_make(server: FakeServer, inputs: Inputs, tmp_path: Path) -> None:
    mounts: JsonObject = {
        "/out": {"kind": "tmp"},
        "/out/key": {"kind": "text", "content": "secret", "exclude_from_output": True},
    }
    made = plan(mounts, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s"))
    stage, output = Stage(made), Path(made.output_directory)
    await stage.set(inputs, memory=False)
    (output / "d").mkdir()
    for number in range(70):
        (output / "d" / f"{number:02}").write_bytes(b"%d" % number)
    (output / "d" / "hard").hardlink_to(output / "d" / "07")
    (output / "d" / "soft").symlink_to("08")
    os.mkfifo(output / "d" / "pipe")
    for name, size in {"hole": 200_000, "holes": 9 << 20}.items():
        with (output / "d" / name).open("wb") as file:
            file.truncate(size)
            file.write(b"begin")
    found = await plan_capture(stage, ["d/**"])
    server.store(
        manifest := await save_output(found, inputs=inputs, blocks=inputs.blocks, files=stage)
    )
    expected = {f"d/{number:02}": b"%d" % number for number in range(70)} | {
        "d/hard": b"7",
        "d/soft": b"8",
    }
    expected |= {"d/hole": b"begin" + bytes(199_995), "d/holes": b"begin" + bytes((9 << 20) - 5)}
    assert server.files(portable_data_hash(manifest)) == expected
    assert "pipe is neither" in found.special.sentences[0]
    await stage.close()


@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("count", [1, 100])
async def test_a_directory_that_becomes_a_link_after_it_was_looked_at(
    server: FakeServer, inputs: Inputs, tmp_path: Path, size: int, count: int
) -> None:
    made = plan(
        {"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s")
    )
    stage, output = Stage(made), Path(made.output_directory)
    await stage.set(inputs, memory=False)
    for top in (output / "d", tmp_path / "host"):
        (top / "e").mkdir(parents=True)
        for number in range(count):
            (top / "e" / f"{number:03}").write_bytes(top.name.encode() * size)
    found = await plan_capture(stage, [])
    (output / "d").rename(output / "was")
    (output / "d").symlink_to(tmp_path / "host")
    with pytest.raises(ExecutionError, match="cannot be read") as caught:
        await save_output(found, inputs=inputs, blocks=inputs.blocks, files=stage)
    assert caught.value.failure is Failure.NODE
    assert not any(b"host" in block for block in server.blocks.values())
    with pytest.raises(OSError):
        is_small(found, files=stage)
    await stage.close()


async def test_a_directory_that_becomes_a_link_while_it_is_looked_at(
    inputs: Inputs, tmp_path: Path
) -> None:
    made = plan(
        {"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s")
    )
    stage, output = Swapped(made), Path(made.output_directory)
    await stage.set(inputs, memory=False)
    (output / "d" / "e" / "f").mkdir(parents=True)
    (tmp_path / "host" / "e" / "f").mkdir(parents=True)
    (tmp_path / "host" / "e" / "f" / "secret").write_text("of the host")

    def swap() -> None:
        (output / "d").rename(output / "was")
        (output / "d").symlink_to(tmp_path / "host")

    stage.swap = swap
    planned = await plan_capture(stage, [])
    assert [item.name for item in planned.items] == ["d/e/.keep"]
    assert planned.omitted.sentences == ("/out/d/e/f has vanished",)
    await stage.close()


class Swapped(Stage):
    """A directory `d` is swapped for a link once `d/e` was looked at."""

    swap: Callable[[], object]

    def look(self, source: Source, *, stop: Stop = never) -> Entry | None:
        entry = super().look(source, stop=stop)
        if source.path.endswith("/d/e"):
            self.swap()
        return entry


async def test_a_large_output_is_looked_at_in_a_thread_and_that_can_be_stopped(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(
        {"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s")
    )
    stage, output = Stage(made), Path(made.output_directory)
    await stage.set(inputs, memory=False)
    for number in range(300):
        (output / f"d{number}").mkdir()
    assert len((await plan_capture(stage, [])).items) == 300
    looking, ended, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
    look = stage.look

    def slow(source: Source, *, stop: Stop = never) -> Entry | None:
        if threading.current_thread() is not threading.main_thread():
            loop.call_soon_threadsafe(looking.set)
            while not stop():
                pass
            ended.set()
        return look(source, stop=stop)

    monkeypatch.setattr(stage, "look", slow)
    task = asyncio.create_task(plan_capture(stage, []))
    await looking.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(ended.wait)
    await stage.close()


@pytest.mark.parametrize("size", [10, 300_000])
async def test_files_that_were_not_measured_are_counted_when_they_are_saved(
    server: FakeServer, inputs: Inputs, tmp_path: Path, size: int
) -> None:
    made = plan(
        {"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s")
    )
    stage, output = Stage(made), Path(made.output_directory)
    await stage.set(inputs, memory=False)
    for number in range(200):
        with (output / f"{number:03}").open("wb") as file:
            file.truncate(size)
    limit = 199 * size
    found = await plan_capture(stage, [], limit=limit)
    with pytest.raises(ExecutionError, match="an output may have .*MaxOutputSize") as caught:
        await save_output(
            found, inputs=inputs, blocks=inputs.blocks, files=stage, output_path="/out", limit=limit
        )
    assert caught.value.failure is Failure.USER
    await save_output(
        found,
        inputs=inputs,
        blocks=inputs.blocks,
        files=stage,
        output_path="/out",
        limit=200 * size,
    )
    await stage.close()


async def test_a_log_is_saved_with_what_the_disk_did_not_take(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    log = Log(tmp_path / "log", lambda: MOMENT)
    log.put("b", b"2")
    log.put("a", b"1")
    assert (await save_log(log, blocks=inputs.blocks)).endswith(" 0:1:a 1:1:b\n")
    log.stream("c").write(b"c\n")
    log.stream("c").tail = b"and more\n"
    server.store(manifest := await save_log(log, blocks=inputs.blocks))
    assert server.files(portable_data_hash(manifest))["c"].endswith(b" c\nand more\n")
    log.close()


async def test_an_output_directory_that_is_gone(inputs: Inputs, tmp_path: Path) -> None:
    made = plan(
        {"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s")
    )
    with pytest.raises(ExecutionError, match="/out does not exist"):
        await plan_capture(Stage(made), [])


async def test_a_file_of_holes_counts_with_all_its_bytes(inputs: Inputs, tmp_path: Path) -> None:
    made = plan(
        {"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s")
    )
    stage = Stage(made)
    await stage.set(inputs, memory=False)
    (Path(made.output_directory) / "d").mkdir()
    with (Path(made.output_directory) / "d" / "file").open("wb") as file:
        file.truncate(1 << 40)
    assert (await plan_capture(stage, [], limit=1 << 40)).items
    with pytest.raises(
        ExecutionError, match=r"have 1024.0 GiB or more, and an output may have 1023.0 GiB"
    ):
        await plan_capture(stage, [], limit=1023 << 30)


class Plain:
    """Files of the host, wherever they are."""

    def open_folder(self, source: Source) -> ConfinedTree:
        return ConfinedTree.open(source.path)

    def open_file(self, source: Source) -> int:
        with ConfinedTree.open(Path(source.path).parent) as tree:
            return tree.open_file(Path(source.path).name)


async def no_git(tree: GitTree, directory: Path) -> None:
    raise AssertionError(f"{tree} is not wanted in {directory}")
