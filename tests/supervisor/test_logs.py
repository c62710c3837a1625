from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.supervisor.logs import RECORD, Log, Pump, StampedFile
from tests.supervisor.supervised import MOMENT, STAMP


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log", lambda: MOMENT)
    yield log
    log.close()


def test_a_stamp_is_put_where_a_line_starts(tmp_path: Path) -> None:
    moments = iter(
        datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number) for number in range(9)
    )
    file = StampedFile(tmp_path / "f", lambda: next(moments))
    for part in (b"one", b" line\ntwo", b"", b"\n", b"three\n"):
        file.write(part)
    file.close()
    lines = (tmp_path / "f").read_text().splitlines()
    assert [(line[17:19], line[31:]) for line in lines] == [
        ("00", "one line"),
        ("01", "two"),
        ("03", "three"),
    ]
    assert file.size == (tmp_path / "f").stat().st_size


@given(st.lists(st.binary(max_size=8).map(lambda data: data.replace(b"x", b"\n"))))
def test_the_text_is_kept_and_every_line_is_stamped_once(parts: list[bytes]) -> None:
    path = Path("/dev/shm") / f"stamped-{os.getpid()}"
    path.unlink(missing_ok=True)
    file = StampedFile(path, lambda: MOMENT)
    for part in parts:
        file.write(part)
    file.close()
    text = path.read_bytes()
    path.unlink()
    stamp = STAMP.encode() + b" "
    whole = b"".join(parts)
    assert text.replace(stamp, b"") == whole
    assert text.count(stamp) == whole.count(b"\n") + (
        0 if whole.endswith(b"\n") or not whole else 1
    )


def test_tokens_are_blotted_out(log: Log) -> None:
    log.say("got v2/zzzzz-gj3su-000000000000001/" + "a" * 50)
    assert "aaaa" not in (log.directory / "crunch-run.txt").read_text()
    assert log.size("crunch-run.txt") > 0
    assert log.size("stdout.txt") == 0
    assert log.grown.is_set()


async def test_a_pump_moves_what_arrives(log: Log) -> None:
    pump = Pump(log, "stdout.txt")
    os.write(pump.writing, b"hello\n")
    pump.handed_over()
    pump.handed_over()
    assert await pump.finish(5.0)
    assert (log.directory / "stdout.txt").read_text() == f"{STAMP} hello\n"


async def test_a_pipe_that_stays_open_is_given_up(log: Log) -> None:
    pump = Pump(log, "stdout.txt")
    other = os.dup(pump.writing)
    assert not await pump.finish(0.0)
    os.close(other)
    log.put("x", b"y")
    assert (log.directory / "x").read_bytes() == b"y"


async def test_output_beyond_the_limit_is_read_and_dropped(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", lambda: MOMENT, limit=100)
    pump = Pump(log, "stdout.txt")
    os.write(pump.writing, b"x" * 200)
    while not log.no_room("stdout.txt"):
        await asyncio.sleep(0)
    for _ in range(40):
        os.write(pump.writing, b"y" * 1000)
        await asyncio.sleep(0)
    assert await pump.finish(5.0)
    log.say("still here")
    log.close()
    kept = (tmp_path / "log" / "stdout.txt").read_text().splitlines()
    assert kept == [
        f"{STAMP} " + "x" * 200,
        f"{STAMP} [the log keeps 100 bytes of this with its time stamps: "
        "further output is not kept]",
    ]
    said = (tmp_path / "log" / "crunch-run.txt").read_text()
    assert said == f"{STAMP} 40000 bytes of stdout.txt were not kept\n{STAMP} still here\n"


async def test_a_disk_that_fills_up_ends_the_log_and_not_the_container(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", lambda: MOMENT)
    (tmp_path / "log" / "stdout.txt").symlink_to("/dev/full")
    pump, stream = Pump(log, "stdout.txt"), log.stream("stdout.txt")
    os.write(pump.writing, b"x\n")
    while not stream.tail:
        await asyncio.sleep(0)
    assert log.tails() == {"stdout.txt": f"{STAMP} x\n".encode()}
    os.write(pump.writing, b"y" * 65_536)
    while not stream.closed:
        await asyncio.sleep(0)
    os.write(pump.writing, b"z")
    assert await pump.finish(5.0)
    assert (stream.size, pump.dropped) == (0, 1)
    log.close()


def test_room_is_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "log", lambda: MOMENT, look_every=1)
    assert log.no_room("stdout.txt") == ""
    log.stream("stdout.txt").write(b"x")
    assert log.no_room("stdout.txt") == ""
    monkeypatch.setattr(
        os, "statvfs", lambda path: os.statvfs_result((1, 1, 100, 1, 1, 1, 1, 1, 1, 1))
    )
    log.stream("stdout.txt").write(b"x")
    assert "the disk has no room" in log.no_room("stdout.txt")
    log.close()


def test_the_record_is_written_once(log: Log) -> None:
    log.put_record({})
    assert not (log.directory / RECORD).exists()
    log.put_record({"uuid": "x"})
    log.put_record({"uuid": "y"})
    assert json.loads((log.directory / RECORD).read_text()) == {"uuid": "x"}


def test_a_file_that_cannot_be_written_is_left_out(log: Log) -> None:
    (log.directory / "x").mkdir()
    log.put("x", b"y")
    assert (log.directory / "x").is_dir()
