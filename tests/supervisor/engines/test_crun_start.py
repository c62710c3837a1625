from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import ContainerSpec, crun


def test_a_command_joins_its_cgroups_first(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    command = [*crun.joining([str(one) for one in files]), "echo", "started"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"started\n"
    assert [one.read_text() for one in files] == ["0\n", "0\n"]
    assert crun.joining([]) == []


def test_it_gets_the_streams_and_nothing_else() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as read:
        with os.fdopen(writing, "w") as write:
            spec = ContainerSpec(command=("true",), stdout=write.fileno())
            command = ["/bin/sh", "-c", "pwd; cat; env | grep -v ^PWD= | sort"]
            started = crun.spawn(spec, command, environment={"PATH": os.environ["PATH"]})
        assert started.wait() == 0
        assert read.read().split("\n")[:2] == ["/", f"PATH={os.environ['PATH']}"]


def test_a_thread_of_its_own_gives_its_answer_or_its_fault() -> None:
    assert crun.in_thread_of_its_own(threading.get_ident) != threading.get_ident()
    with pytest.raises(FileNotFoundError):
        crun.in_thread_of_its_own(Path("/none/there").stat)


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        ("executable file `x` not found in $PATH: No such file or directory", Failure.USER),
        ("exec container process `/x`: Exec format error", Failure.USER),
        ("mount `/a` to `b`: Permission denied", Failure.NODE),
    ],
)
def test_whose_fault_a_failed_start_is(said: str, failure: Failure) -> None:
    assert crun.failure(said).failure is failure


def test_its_log_tells_a_command_that_was_not_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(ExecutionError, match="install the package crun") as caught:
        crun.check_started(log)
    assert caught.value.failure is Failure.NODE
    log.write_text("")
    crun.check_started(log)
    log.write_text("executable file `x` not found\n")
    with pytest.raises(ExecutionError, match="not found"):
        crun.check_started(log)


def test_a_crun_is_found_by_its_arguments(tmp_path: Path) -> None:
    log = str(tmp_path / "crun.log")
    sleeping = "import time; time.sleep(600)"
    with (
        subprocess.Popen([sys.executable, "-c", sleeping, "--log", log]) as program,
        subprocess.Popen([sys.executable, "-c", sleeping, "--log", f"{log}2"]) as another,
    ):
        crun.kill_programs(log)
        assert program.wait(10) == -9
        assert another.poll() is None
        another.kill()
