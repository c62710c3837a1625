from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.supervisor.logs import Log, Pump, StampedFile
from tests.supervisor.supervised import MOMENT, STAMP


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log", lambda: MOMENT)
    yield log
    log.close()


def test_a_stamp_is_put_where_a_line_starts(tmp_path: Path) -> None:
    moments = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number) for number in range(9))
    file = StampedFile(tmp_path / "f", lambda: next(moments))
    for part in (b"one", b" line\ntwo", b"", b"\n", b"three\n"):
        file.write(part)
    file.close()
    lines = (tmp_path / "f").read_text().splitlines()
    assert [(line[17:19], line[31:]) for line in lines] == [("00", "one line"), ("01", "two"), ("03", "three")]
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
    assert text.count(stamp) == whole.count(b"\n") + (0 if whole.endswith(b"\n") or not whole else 1)


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
