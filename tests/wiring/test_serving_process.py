"""The record of the process that serves a data directory, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lading.core.errors import Conflict, Unavailable
from lading.wiring.directory import DataDirectory
from lading.wiring.serving_process import (
    ServingProcess,
    is_served,
    open_process,
    read_record,
    remove_record,
    start_serving,
    stop_serving,
    this_process,
    write_record,
)


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    found = DataDirectory(tmp_path)
    found.prepare()
    return found


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ignores the end of its parent's work."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def _record_of(pid: int, **changes: object) -> ServingProcess:
    text = Path(f"/proc/{pid}/stat").read_text()
    started = int(text.rpartition(")")[2].split()[19])
    return msgspec.structs.replace(this_process(), **{"pid": pid, "started": started, **changes})


def test_a_record_is_written_read_and_removed(directory: DataDirectory) -> None:
    process = this_process(log=Path("/l"), address="a:1")
    write_record(directory, process)
    assert read_record(directory) == process
    assert (directory.root / "up.json").stat().st_mode & 0o077 == 0
    remove_record(directory)
    remove_record(directory)
    assert read_record(directory) is None
    (directory.root / "up.json").write_text("{")
    assert read_record(directory) is None


def test_the_lock_says_whether_it_is_served(directory: DataDirectory) -> None:
    assert not is_served(directory)
    lock = directory.claim()
    assert is_served(directory)
    os.close(lock)
    assert not is_served(directory)


@pytest.mark.parametrize("changes", [{"started": 1}, {"boot": "another"}])
def test_a_process_with_the_same_pid_is_left_alone(
    directory: DataDirectory, other: subprocess.Popen[bytes], changes: dict[str, object]
) -> None:
    write_record(directory, _record_of(other.pid, **changes))
    assert stop_serving(directory, timeout=1) is None
    assert other.poll() is None


def test_the_recorded_process_is_stopped(
    directory: DataDirectory, other: subprocess.Popen[bytes]
) -> None:
    write_record(directory, _record_of(other.pid))
    stopped = stop_serving(directory, timeout=20)
    assert stopped is not None
    assert (stopped.pid, other.wait(20)) == (other.pid, -signal.SIGTERM)
    # Again is nothing.
    assert stop_serving(directory, timeout=1) is None
    assert open_process(stopped) is None


def test_one_that_does_not_end_is_named(directory: DataDirectory) -> None:
    script = "import signal, sys; signal.signal(15, signal.SIG_IGN); print(); sys.stdin.read()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        write_record(directory, _record_of(stubborn.pid, log="/logs"))
        with pytest.raises(Unavailable, match=f"process {stubborn.pid} has not ended .* /logs"):
            stop_serving(directory, timeout=0.01)
        stubborn.kill()


def test_what_serves_without_a_record_is_not_guessed(directory: DataDirectory) -> None:
    lock = directory.claim()
    with pytest.raises(Conflict, match="is served by a process that is not this machine's"):
        stop_serving(directory, timeout=1)
    os.close(lock)


def test_one_that_serves_already_is_found(directory: DataDirectory) -> None:
    lock = directory.claim()
    write_record(directory, this_process(address="a:1"))
    found = start_serving(directory, ["--no-such-option"])
    assert (found.is_new, found.process.pid) == (False, os.getpid())
    os.close(lock)


def test_a_start_that_fails_tells_its_last_message(directory: DataDirectory) -> None:
    with pytest.raises(Unavailable, match="did not start: .*--no-such-option.*log/up.log"):
        start_serving(directory, ["--no-such-option"])
    assert json.dumps(read_record(directory)) == "null"
