"""How far the code says that it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lading.hpc.layout import DaemonLayout
from lading.hpc.progress import Progress


@pytest.fixture
def layout(tmp_path: Path) -> DaemonLayout:
    made = DaemonLayout(tmp_path, "/root")
    made.make()
    return made


async def _say(layout: DaemonLayout, lines: bytes) -> None:
    """Say it, and wait until it was heard."""
    reader, writer = await asyncio.open_unix_connection(str(layout.progress.with_name("sock")))
    writer.write(lines)
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_the_last_line_counts_where_there_is_no_file(layout: DaemonLayout) -> None:
    told: list[float | None] = []
    progress = Progress(layout, tell=lambda: told.append(progress.percent()))
    await progress.open()
    try:
        assert progress.percent() is None
        await _say(layout, b"10\nnonsense\n\xff\n10\n20.5\n")
        await _say(layout, b"1000\n" + b"9" * 1000)
        assert told == [10.0, 20.5, 100.0]
        layout.progress.write_text("30\n")
        assert progress.percent() == 30.0
        layout.progress.write_text("soon\n")
        assert progress.percent() == 100.0
        assert layout.progress.with_name("sock").stat().st_mode & 0o777 == 0o777
    finally:
        progress.close()


async def test_a_socket_that_was_left_is_replaced(layout: DaemonLayout) -> None:
    for _ in range(2):
        progress = Progress(layout, tell=lambda: None)
        await progress.open()
        await _say(layout, b"1\n")
        progress.close()


async def test_what_is_in_the_way_is_a_fault(layout: DaemonLayout) -> None:
    layout.progress.with_name("sock").mkdir()
    progress = Progress(layout, tell=lambda: None)
    with pytest.raises(OSError, match="sock"):
        await progress.open()
    progress.close()
