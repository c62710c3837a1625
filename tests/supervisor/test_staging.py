from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.retry import NO_RETRY
from lading.client.trees import TreeCache
from lading.core.errors import ExecutionError, Failure
from lading.core.mountplan import Collection, Host, MountPlan, plan
from lading.core.output import DirectoryEntry, FileEntry, LinkEntry, SpecialEntry
from lading.supervisor import linux
from lading.supervisor.staging import Inputs, Stage
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import FakeServer


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def inputs(server: FakeServer, tmp_path: Path) -> Inputs:
    transport = AsgiTransport(server)
    api = ApiClient(transport, "t", retry=NO_RETRY)
    return Inputs(api, BlockClient(transport, "t", retry=NO_RETRY), TreeCache(tmp_path / "trees", 1 << 30))


def planned(tmp_path: Path, mounts: dict[str, Any]) -> MountPlan:
    given = {"/out": {"kind": "tmp"}, **mounts}
    return plan(given, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s"))


async def staged(tmp_path: Path, inputs: Inputs, mounts: dict[str, Any], *, memory: bool = False) -> Stage:
    stage = Stage(planned(tmp_path, mounts))
    await stage.set(inputs, memory=memory)
    return stage


async def test_everything_is_made(server: FakeServer, inputs: Inputs, tmp_path: Path) -> None:
    pdh = server.add_collection({"d/x": b"x"})
    mounts = {
        "/in": {"kind": "collection", "portable_data_hash": pdh, "path": "d"},
        "/text": {"kind": "text", "content": "t"},
        "/out/deep/note": {"kind": "text", "content": "n"},
        "/out/copy": {"kind": "collection", "portable_data_hash": pdh, "writable": True},
        "/out/file": {"kind": "collection", "portable_data_hash": pdh, "path": "d/x", "writable": True},
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
    assert (at["/out"] / "o" / "out").read_bytes() == b"12"
    assert server.calls.count("GET collections") == 1
    await stage.close()
    await stage.close()


@pytest.mark.parametrize(
    ("mount", "fault"),
    [
        ({"portable_data_hash": "acbd18db4cc2f85cedef654fccc4a4d8+3"}, "collection acbd18db4cc2f85cedef654fccc4a4d8"),
        ({"path": "none"}, "has no 'none'"),
    ],
)
async def test_a_missing_input_is_named(
    server: FakeServer, inputs: Inputs, tmp_path: Path, mount: dict[str, str], fault: str
) -> None:
    pdh = server.add_collection({"x": b"x"})
    stage = Stage(planned(tmp_path, {"/in": {"kind": "collection", "portable_data_hash": pdh, **mount}}))
    with pytest.raises(ExecutionError, match=fault) as caught:
        await stage.set(inputs, memory=False)
    assert caught.value.failure is Failure.USER
    await stage.close()


@pytest.mark.parametrize(("number", "failure"), [(errno.ENOSPC, Failure.DISK), (errno.EACCES, Failure.USER)])
async def test_what_the_disk_refuses_is_told(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, failure: Failure
) -> None:
    def refuse(self: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ExecutionError) as caught:
        await Stage(planned(tmp_path, {})).set(inputs, memory=False)
    assert caught.value.failure is failure


async def test_looking_does_not_follow_links(server: FakeServer, inputs: Inputs, tmp_path: Path) -> None:
    pdh = server.add_collection({"x": b"x"})
    stage = await staged(tmp_path, inputs, {"/in": {"kind": "collection", "portable_data_hash": pdh}})
    output = Path(stage.plan.output_directory)
    (output / "link").symlink_to("/etc")
    os.mkfifo(output / "fifo")
    assert stage.look(Host(str(output / "link"))) == LinkEntry("/etc")
    assert stage.look(Host(str(output / "fifo"))) == SpecialEntry()
    assert stage.look(Host(str(output / "none"))) is None
    assert stage.look(Collection(pdh)) == DirectoryEntry(("x",))
    assert stage.look(Collection(pdh, "x")) == FileEntry()
    assert stage.look(Collection(pdh, "x/y")) is None
    await stage.close()


async def test_a_directory_in_memory(inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted: list[tuple[str, ...]] = []
    monkeypatch.setattr(linux, "mount", lambda *what: mounted.append(what))
    ram = {"kind": "tmp", "device_type": "ram"}
    await staged(tmp_path, inputs, {"/a": {**ram, "capacity": 7}, "/b": ram}, memory=True)
    assert [what[3] for what in mounted] == ["mode=2777,size=7", "mode=2777"]
