from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.inputs.collection_source import Inputs
from lading.supervisor.inputs.staging import Stage
from lading.testing.supervising import FakeServer
from tests.supervisor.inputs.stages import planned


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("/in/x", "no directory 'x'"),
        ("/in/d", ""),
        ("/in/none", "no directory 'none'"),
        ("/in/d/e", "no directory"),
    ],
)
async def test_a_mount_inside_a_read_only_one_needs_a_place(
    server: FakeServer, inputs: Inputs, tmp_path: Path, target: str, fault: str
) -> None:
    pdh = server.add_collection({"x": b"x", "d/y": b"y"})
    stage = Stage(
        planned(
            tmp_path,
            {"/in": {"kind": "collection", "portable_data_hash": pdh}, target: {"kind": "tmp"}},
        )
    )
    if not fault:
        await stage.set(inputs, memory=False)
    else:
        with pytest.raises(
            ExecutionError,
            match=f"mounts\\[{target}\\]: lies inside the read-only mount /in.*{fault}",
        ):
            await stage.set(inputs, memory=False)
    await stage.close()


async def test_laying_out_a_copy_ends_when_nobody_wants_it(
    server: FakeServer, inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pdh = server.add_collection({f"{number:04}": b"x" for number in range(50)})
    made = planned(
        tmp_path, {"/out/copy": {"kind": "collection", "portable_data_hash": pdh, "writable": True}}
    )
    stage, begun, go = Stage(made), asyncio.Event(), threading.Event()
    loop, sendfile = asyncio.get_running_loop(), os.sendfile

    def wait(*given: Any) -> int:
        loop.call_soon_threadsafe(begun.set)
        go.wait()
        return sendfile(*given)

    monkeypatch.setattr(os, "sendfile", wait)
    task = asyncio.create_task(stage.set(inputs, memory=False))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(list(Path(made.output_directory, "copy").iterdir())) == 1
    await stage.close()


async def test_a_stream_is_not_written_through_a_link(inputs: Inputs, tmp_path: Path) -> None:
    made = planned(tmp_path, {"stdout": {"kind": "file", "path": "/out/said"}})
    Path(made.output_directory).mkdir(parents=True)
    (Path(made.output_directory) / "said").symlink_to(tmp_path / "host")
    with pytest.raises(ExecutionError, match="symbolic link"):
        await Stage(made).set(inputs, memory=False)
    assert not (tmp_path / "host").exists()
