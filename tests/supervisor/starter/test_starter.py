from __future__ import annotations

import asyncio
import fcntl
import subprocess
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.engines import Exec
from lading.supervisor.starter import starter
from lading.supervisor.starter.starter import Starter


@pytest.fixture
def made(tmp_path: Path) -> Starter:
    return Starter(tmp_path, tmp_path / "log")


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        ("", None),
        ('{"pid":42}\n', None),
        ('{"pid":42}\n{"ready":1}\n', 42),
        ('{"pid":42}\n{"ready":1}\n{"code":7}\n', 42),
    ],
)
def test_the_first_process_is_told_once_it_can_be_entered(
    made: Starter, tmp_path: Path, lines: str, first: int | None
) -> None:
    assert made.first is None
    status = tmp_path / "container.jsonl"
    status.write_text(lines)
    known = made.first
    assert known == first
    made.remove()
    assert not status.exists()


def test_only_the_container_that_holds_its_file_is_killed(made: Starter, tmp_path: Path) -> None:
    made.end()
    status = tmp_path / "container.jsonl"
    with subprocess.Popen(["sleep", "60"]) as process:
        status.write_text(f'{{"pid":{process.pid}}}\n')
        # Its number may be that of any process by now.
        made.end()
        assert process.poll() is None
        with status.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            made.end()
        # Nothing of it writes when its files are read.
        assert process.poll() == -9


async def test_a_number_that_another_process_has_by_now_gets_no_signal(
    made: Starter, tmp_path: Path
) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        (tmp_path / "container.jsonl").write_text(f'{{"pid":{process.pid}}}\n{{"ready":1}}\n')
        await asyncio.wait_for(made.stop(grace=0.05), 10)
        assert process.poll() is None
        process.kill()


async def test_a_container_that_is_gone_is_not_entered(made: Starter, tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="not running"):
        await made.execute(Exec(command=("x",)), join=(), directory=tmp_path)


async def test_a_container_that_never_began_is_stopped_within_its_grace(made: Starter) -> None:
    await asyncio.wait_for(made.stop(grace=0.01), 10)


def test_a_machine_without_it_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "lading-start"
    monkeypatch.setattr(starter, "PROGRAM", program)
    assert "was not built: there was no C compiler" in starter.fault()
    program.write_text("#!/bin/sh\necho this kernel has no openat2 >&2; exit 1\n")
    program.chmod(0o755)
    assert starter.fault() == "this kernel has no openat2"
    program.write_text("#!/bin/sh\necho lading-start 1\n")
    assert "is of another version of Lading: install Lading again" in starter.fault()
    program.write_text("not a program")
    assert "cannot be run" in starter.fault()
