from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lading.client.blocks import BlockClient
from lading.client.retry import NO_RETRY
from lading.core.containers.mounting.mount_steps import CollectionPath, HostPath, KeepTree
from lading.core.containers.output.plan import DirectoryEntry, FileEntry, LinkEntry, SpecialEntry
from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.supervisor import linux
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.keep_mount import KeepMount
from lading.supervisor.inputs.staging import Stage
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import FakeServer
from tests.supervisor.inputs.stages import planned, staged


class Mount:
    """Stands for a KeepMount: a directory that was filled before, under another name for the
    engine.
    """

    def __init__(self, view: Path, error: Unavailable | None = None) -> None:
        self.is_open = False
        self.whole = False
        self.said: list[str] = []
        self.noted: list[str] = []
        self._view, self._error = view, error

    async def open(self, *, shows_all: bool) -> None:
        if self._error:
            raise self._error
        self.is_open, self.whole = True, shows_all

    def note(self, lines: Iterable[str]) -> None:
        self.noted += lines

    def place(self, source: CollectionPath | KeepTree) -> Path:
        return self._view / (
            source.path if isinstance(source, KeepTree) else f"{source.pdh}/{source.path}"
        )

    def shown(self, path: Path) -> Path:
        return (
            Path("/shown") / path.relative_to(self._view)
            if path.is_relative_to(self._view)
            else path
        )

    def say(self, text: str) -> None:
        self.said.append(text)


def _mounted(root: Path, pdh: str, *, error: Unavailable | None = None) -> tuple[KeepMount, Mount]:
    (root / "view" / pdh / "d").mkdir(parents=True)
    (root / "view" / pdh / "d" / "x").write_text("mounted")
    mount = Mount(root / "view", error)
    return cast(KeepMount, mount), mount


async def test_large_collections_are_mounted(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    large, small = (
        server.add_collection({"d/x": b"x" * 100}),
        server.add_collection({"d/x": b"small"}),
    )
    mounts = {
        "/large": {"kind": "collection", "portable_data_hash": large, "path": "d"},
        "/small": {"kind": "collection", "portable_data_hash": small},
        "/out/copy": {"kind": "collection", "portable_data_hash": large, "writable": True},
        "stdin": {"kind": "collection", "portable_data_hash": large, "path": "d/x"},
    }
    keep, mount = _mounted(tmp_path, large)
    stage = Stage(planned(tmp_path, mounts))
    await stage.set(replace(inputs, large=50), memory=False, keep=keep)
    at = {bind.target: bind.source for bind in stage.binds}
    assert at["/large"] == f"/shown/{large}/d"
    assert Path(at["/small"], "d", "x").read_text() == "small"
    assert Path(at["/out"], "copy", "d", "x").read_text() == "mounted"
    assert os.read(stage.stdin, 100) == b"mounted"
    assert stage.look(CollectionPath(large, "d")) == DirectoryEntry(("x",), frozenset(("x",)))
    assert (mount.is_open, mount.whole) == (True, False)
    await stage.close()


async def test_a_large_collection_that_is_laid_out_already_is_not_mounted(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    pdh = server.add_collection({"d/x": b"x" * 100})
    mounts = {"/in": {"kind": "collection", "portable_data_hash": pdh}}
    await (await staged(tmp_path, inputs, mounts)).close()
    keep, mount = _mounted(tmp_path, pdh)
    stage = Stage(planned(tmp_path, mounts))
    await stage.set(replace(inputs, large=50), memory=False, keep=keep)
    assert not mount.is_open
    await stage.close()


async def test_where_nothing_can_be_mounted_large_ones_are_laid_out(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    pdh = server.add_collection({"d/x": b"x" * 100})
    keep, mount = _mounted(tmp_path, pdh, error=Unavailable("no /dev/fuse"))
    stage = Stage(planned(tmp_path, {"/in": {"kind": "collection", "portable_data_hash": pdh}}))
    await stage.set(replace(inputs, large=50), memory=False, keep=keep)
    assert Path(stage.binds[0].source, "d", "x").read_bytes() == b"x" * 100
    assert any("not mounted, downloaded" in line for line in mount.noted)
    assert mount.said == [
        "large inputs are laid out on disk, as they cannot be mounted: no /dev/fuse"
    ]
    await stage.close()


async def test_a_file_mount_and_standard_input_of_other_mounts(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    pdh = server.add_collection({"d/x": b"x"})
    collection = {"kind": "collection", "portable_data_hash": pdh}
    mounts = {
        "/in": collection,
        "/again": {"kind": "file", "path": "/in/d"},
        "/copy": {**collection, "writable": True},
        "stdin": {"kind": "file", "path": "/copy/d/x"},
    }
    stage = await staged(tmp_path, inputs, mounts)
    at = {bind.target: bind for bind in stage.binds}
    assert (Path(at["/again"].source, "x").read_text(), at["/again"].readonly) == ("x", True)
    assert (Path(at["/copy"].source, "d", "x").read_text(), at["/copy"].readonly) == ("x", False)
    assert os.read(stage.stdin, 100) == b"x"
    await stage.close()


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/in/d/none", "has no 'd/none'"),
        ("/in/d", "not a regular file"),
        ("/out/none", "not there when the command begins"),
    ],
)
async def test_standard_input_that_is_no_file(
    server: FakeServer, inputs: Inputs, tmp_path: Path, path: str, fault: str
) -> None:
    pdh = server.add_collection({"d/x": b"x"})
    mounts = {
        "/in": {"kind": "collection", "portable_data_hash": pdh},
        "stdin": {"kind": "file", "path": path},
    }
    with pytest.raises(ExecutionError, match=rf"mounts\[stdin\]: .*{fault}") as caught:
        await staged(tmp_path, inputs, mounts)
    assert caught.value.failure is Failure.INPUT


async def test_a_file_mount_of_what_is_not_there(inputs: Inputs, tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="not there when the command begins"):
        await staged(tmp_path, inputs, {"/a": {"kind": "file", "path": "/out/x"}})


@pytest.mark.parametrize(("memory", "size"), [(False, 5), (True, None)])
async def test_an_engine_that_sees_no_mounts_of_ours_makes_memory_itself(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: bool, size: int | None
) -> None:
    monkeypatch.setattr(linux, "mount", lambda *_: None)
    stage = await staged(
        tmp_path,
        inputs,
        {"/t": {"kind": "tmp", "device_type": "ram", "capacity": 5}},
        memory=memory,
    )
    assert {bind.target: bind.memory for bind in stage.binds} == {"/out": None, "/t": size}
    await stage.close()


async def test_the_tree_of_all_collections(inputs: Inputs, tmp_path: Path) -> None:
    keep, mount = _mounted(tmp_path, "by_id")
    stage = Stage(planned(tmp_path, {"/keep": {"kind": "keep"}}))
    await stage.set(inputs, memory=False, keep=keep)
    assert {bind.target: bind.source for bind in stage.binds}["/keep"] == "/shown"
    assert mount.whole
    await stage.close()


async def test_a_tree_of_all_collections_that_cannot_be_mounted(
    inputs: Inputs, tmp_path: Path
) -> None:
    keep, _ = _mounted(tmp_path, "by_id", error=Unavailable("no /dev/fuse"))
    stage = Stage(planned(tmp_path, {"/keep": {"kind": "keep"}}))
    with pytest.raises(
        ExecutionError, match="a keep mount cannot be made here: no /dev/fuse"
    ) as caught:
        await stage.set(inputs, memory=False, keep=keep)
    assert caught.value.failure is Failure.NODE
    with pytest.raises(ExecutionError, match="the tree of all collections is not mounted"):
        await Stage(planned(tmp_path, {"/keep": {"kind": "keep"}})).set(inputs, memory=False)


async def test_everything_is_made(server: FakeServer, inputs: Inputs, tmp_path: Path) -> None:
    pdh = server.add_collection({"d/x": b"x"})
    mounts = {
        "/in": {"kind": "collection", "portable_data_hash": pdh, "path": "d"},
        "/text": {"kind": "text", "content": "t"},
        "/out/deep/note": {"kind": "text", "content": "n"},
        "/out/copy": {"kind": "collection", "portable_data_hash": pdh, "writable": True},
        "/out/file": {
            "kind": "collection",
            "portable_data_hash": pdh,
            "path": "d/x",
            "writable": True,
        },
        "stdin": {"kind": "collection", "portable_data_hash": pdh, "path": "d/x"},
        "stdout": {"kind": "file", "path": "/out/o/out"},
        "stderr": {"kind": "file", "path": "/out/o/out"},
    }
    stage = await staged(tmp_path, inputs, mounts)
    at = {bind.target: Path(bind.source) for bind in stage.binds}
    assert (at["/in"] / "x").read_text() == "x"
    assert at["/text"].stat().st_mode & 0o777 == 0o444
    assert (at["/out"] / "deep" / "note").stat().st_mode & 0o777 == 0o777
    assert (at["/out"] / "copy" / "d" / "x").stat().st_mode & 0o777 == 0o777
    assert (at["/out"] / "file").read_text() == "x"
    assert at["/out"].stat().st_mode & 0o7777 == 0o2777
    assert os.read(stage.stdin, 9) == b"x"
    os.write(stage.stdout, b"1")
    os.write(stage.stderr, b"2")
    os.write(stage.stdout, b"3")
    assert (at["/out"] / "o" / "out").read_bytes() == b"123"
    assert server.calls.count("GET collections") == 1
    await stage.close()
    await stage.close()


@pytest.mark.parametrize(
    ("mount", "fault"),
    [
        (
            {"portable_data_hash": "acbd18db4cc2f85cedef654fccc4a4d8+3"},
            "collection acbd18db4cc2f85cedef654fccc4a4d8",
        ),
        ({"path": "none"}, "has no 'none'"),
    ],
)
async def test_a_missing_input_is_named(
    server: FakeServer, inputs: Inputs, tmp_path: Path, mount: dict[str, str], fault: str
) -> None:
    pdh = server.add_collection({"x": b"x"})
    stage = Stage(
        planned(tmp_path, {"/in": {"kind": "collection", "portable_data_hash": pdh, **mount}})
    )
    with pytest.raises(ExecutionError, match=fault) as caught:
        await stage.set(inputs, memory=False)
    assert caught.value.failure is Failure.INPUT
    await stage.close()


class Meeting:
    """Passes calls on to a server, those for blocks once `parties` of them wait."""

    def __init__(self, server: FakeServer, parties: int) -> None:
        self._server = server
        self._barrier = asyncio.Barrier(parties)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if "collections" not in scope["path"]:
            async with asyncio.timeout(20), self._barrier:
                pass
        await self._server(scope, receive, send)


async def test_small_collections_are_laid_out_several_at_a_time(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    pdhs = [server.add_collection({"x": b"%d" % number}) for number in range(4)]
    inputs.blocks = BlockClient(AsgiTransport(Meeting(server, 2)), "t", retry=NO_RETRY)
    mounts = {
        f"/in/{number}": {"kind": "collection", "portable_data_hash": pdh}
        for number, pdh in enumerate(pdhs)
    }
    stage = await staged(tmp_path, inputs, mounts)
    assert [(Path(bind.source) / "x").read_bytes() for bind in stage.binds if bind.readonly] == [
        b"%d" % number for number in range(4)
    ]
    await stage.close()


async def test_a_large_collection_is_laid_out_after_the_small_ones(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    large = server.add_collection({"x": bytes((16 << 20) + 1)})
    small = server.add_collection({"x": b"1"})
    held = list[bool]()
    server.on_call = lambda name: held.append(inputs.cache.holds(small)) if "block" in name else 0
    mounts = {
        f"/in/{pdh}": {"kind": "collection", "portable_data_hash": pdh} for pdh in (large, small)
    }
    stage = await staged(tmp_path, inputs, mounts)
    assert held == [False, True]
    await stage.close()


@pytest.mark.parametrize(
    ("number", "failure"), [(errno.ENOSPC, Failure.DISK), (errno.EACCES, Failure.USER)]
)
async def test_what_the_disk_refuses_is_told(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, failure: Failure
) -> None:
    def refuse(self: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ExecutionError) as caught:
        await Stage(planned(tmp_path, {})).set(inputs, memory=False)
    assert caught.value.failure is failure


async def test_looking_does_not_follow_links(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    pdh = server.add_collection({"x": b"x"})
    stage = await staged(
        tmp_path, inputs, {"/in": {"kind": "collection", "portable_data_hash": pdh}}
    )
    output = Path(stage.plan.output_directory)
    (output / "link").symlink_to("/etc")
    os.mkfifo(output / "fifo")
    assert stage.look(HostPath(str(output / "link"))) == LinkEntry("/etc")
    assert stage.look(HostPath(str(output / "fifo"))) == SpecialEntry()
    assert stage.look(HostPath(str(output / "none"))) is None
    assert stage.look(CollectionPath(pdh)) == DirectoryEntry(("x",), frozenset(("x",)))
    assert stage.look(CollectionPath(pdh, "x")) == FileEntry(1)
    assert stage.look(CollectionPath(pdh, "x/y")) is None
    await stage.close()


async def test_a_directory_in_memory(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted: list[tuple[str, ...]] = []
    monkeypatch.setattr(linux, "mount", lambda *what: mounted.append(what))
    ram = {"kind": "tmp", "device_type": "ram"}
    await staged(tmp_path, inputs, {"/a": {**ram, "capacity": 7}, "/b": ram}, memory=True)
    assert [what[3] for what in mounted] == ["mode=2777,size=7", "mode=2777"]


async def test_a_mount_whose_place_is_occupied_is_taken_apart(
    tmp_path: Path, inputs: Inputs
) -> None:
    text = {"kind": "text", "content": "x", "writable": True}
    mounts = {"/out": {"kind": "tmp"}, "/in": {"kind": "tmp", "unless_occupied": True}}
    stage = await staged(tmp_path, inputs, {**mounts, "/in/a": text})
    assert stage.has_optional
    stage.settle(lambda _: False)
    assert [bind.target for bind in stage.binds] == ["/in", "/out"]
    stage.settle(lambda _: True)
    assert [(bind.target, bind.readonly) for bind in stage.binds] == [
        ("/in/a", False),
        ("/out", False),
    ]
    assert stage.binds[0].source.endswith("/a")
    await stage.close()
