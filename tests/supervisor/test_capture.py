from __future__ import annotations

from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.retry import NO_RETRY
from lading.client.trees import TreeCache
from lading.core.errors import ExecutionError, Failure
from lading.core.manifest import portable_data_hash
from lading.core.mountplan import Collection, plan
from lading.core.output import CopyFile, Mark, OutputPlan, Refer
from lading.supervisor.capture import plan_capture, save_files, save_output
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


async def test_what_is_planned_is_saved(server: FakeServer, inputs: Inputs, tmp_path: Path) -> None:
    pdh = server.add_collection({"d/x": b"x", "y": b"y"})
    (tmp_path / "small").write_bytes(b"small")
    (tmp_path / "large").write_bytes(b"l" * 300_000)
    items = (
        CopyFile("a/small", str(tmp_path / "small")),
        CopyFile("large", str(tmp_path / "large")),
        Mark("e/.keep"),
        Refer("all", Collection(pdh)),
        Refer("one", Collection(pdh, "d/x")),
        Refer("sub", Collection(pdh, "d")),
    )
    manifest = await save_output(OutputPlan(items), inputs=inputs, blocks=inputs.blocks)
    server._store(manifest)
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


async def test_a_file_that_is_gone_is_a_failure(inputs: Inputs, tmp_path: Path) -> None:
    items = OutputPlan((CopyFile("a", str(tmp_path / "none")),))
    with pytest.raises(ExecutionError, match="a cannot be read") as caught:
        await save_output(items, inputs=inputs, blocks=inputs.blocks)
    assert caught.value.failure is Failure.NODE


@pytest.mark.parametrize("count", [3, 100])
async def test_few_files_and_many(inputs: Inputs, tmp_path: Path, count: int) -> None:
    made = plan({"/out": {"kind": "tmp"}}, secret_mounts={}, output_path="/out", scratch=str(tmp_path / "s"))
    stage = Stage(made)
    await stage.set(inputs, memory=False)
    for number in range(count):
        (Path(made.output_directory) / f"{number:03}").touch()
    found = await plan_capture(stage, [])
    assert len(found.items) == count
    await stage.close()


async def test_a_flat_directory(server: FakeServer, inputs: Inputs, tmp_path: Path) -> None:
    directory = tmp_path / "log"
    directory.mkdir()
    (directory / "b").write_bytes(b"2")
    (directory / "a").write_bytes(b"1")
    manifest = await save_files(directory, blocks=inputs.blocks)
    assert manifest.endswith(" 0:1:a 1:1:b\n")
