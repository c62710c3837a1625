from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

from lading.core.errors import Conflict, ExecutionError, Unavailable
from lading.supervisor.process.register import (
    Register,
    RegisteredContainer,
    RegisterEntry,
    SupervisorCondition,
)
from lading.supervisor.process.serving import ignore_probes
from lading.testing.supervising import CONTAINER

OTHER = f"{CONTAINER[:-1]}9"
ENTRY = RegisterEntry(CONTAINER, os.getpid(), "/run/x")


@pytest.fixture
def register(tmp_path: Path) -> Register:
    ignore_probes()
    return Register(tmp_path / "lock")


def nothing(entry: RegisterEntry) -> None:
    raise AssertionError(f"nothing of {entry} is to be cleaned")


def test_names_and_content_are_those_that_dispatchers_look_for(
    register: Register, tmp_path: Path
) -> None:
    descriptor, earlier = register.acquire(CONTAINER)
    assert earlier is None
    file = tmp_path / "lock" / f"crunch-run-{CONTAINER}.lock"
    assert (file.read_text(), oct(file.stat().st_mode)[-3:]) == ("", "700")
    register.write(descriptor, ENTRY)
    assert (
        file.read_text() == f'{{"UUID":"{CONTAINER}","PID":{os.getpid()},"RunDirectory":"/run/x"}}'
    )
    assert register.read(CONTAINER) == ENTRY
    register.release(CONTAINER, descriptor)
    assert [one.name for one in (tmp_path / "lock").iterdir()] == ["crunch-run-all.lock"]


def test_a_container_has_one_supervisor(register: Register) -> None:
    descriptor, _ = register.acquire(CONTAINER)
    with pytest.raises(Conflict, match="running already"):
        register.acquire(CONTAINER)
    os.close(descriptor)
    again, _ = register.acquire(CONTAINER)
    os.close(again)


def test_who_dies_leaves_word_of_its_run_directory(register: Register) -> None:
    descriptor, _ = register.acquire(CONTAINER)
    register.write(descriptor, ENTRY)
    os.close(descriptor)
    again, earlier = register.acquire(CONTAINER)
    assert earlier == ENTRY
    assert register.read(CONTAINER) is None
    os.close(again)


def test_the_living_are_listed_and_the_starting_are_not(register: Register) -> None:
    descriptor, _ = register.acquire(CONTAINER)
    assert register.look(nothing) == []
    register.write(descriptor, ENTRY)
    assert register.look(nothing) == [RegisteredContainer(CONTAINER, SupervisorCondition.LIVE)]
    assert register.look(nothing)[0].line == CONTAINER
    os.close(descriptor)


def test_a_dead_one_is_cleaned_once(register: Register) -> None:
    descriptor, _ = register.acquire(CONTAINER)
    register.write(descriptor, ENTRY)
    os.close(descriptor)
    cleaned: list[RegisterEntry] = []
    assert register.look(cleaned.append) == []
    assert register.look(cleaned.append) == []
    assert cleaned == [ENTRY]


def test_a_dead_one_that_cannot_be_cleaned_is_stale(register: Register) -> None:
    def fail(entry: RegisterEntry) -> None:
        raise ExecutionError("stuck")

    descriptor, _ = register.acquire(CONTAINER)
    register.write(descriptor, ENTRY)
    os.close(descriptor)
    assert [one.line for one in register.look(fail)] == [f"{CONTAINER} stale"]
    assert register.read(CONTAINER) == ENTRY


def test_one_that_died_before_it_said_anything_goes(register: Register, tmp_path: Path) -> None:
    os.close(register.acquire(CONTAINER)[0])
    assert register.look(nothing) == []
    assert not (tmp_path / "lock" / f"crunch-run-{CONTAINER}.lock").exists()


def test_a_lock_that_outlives_its_supervisor_is_stale(register: Register) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    descriptor, _ = register.acquire(CONTAINER)
    register.write(descriptor, RegisterEntry(CONTAINER, dead.pid))
    assert [one.condition for one in register.look(nothing)] == [SupervisorCondition.STALE]
    os.close(descriptor)


def test_other_files_and_other_containers_are_left_alone(
    register: Register, tmp_path: Path
) -> None:
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "crunch-run-x.lock").touch()
    os.close(register.acquire(CONTAINER)[0])
    assert register.look(nothing, only="zzzzz-dz642-000000000000002") == []
    assert len(list((tmp_path / "lock").iterdir())) == 3


def test_killing_what_is_not_there_succeeds(register: Register) -> None:
    assert register.kill(CONTAINER, signal.SIGTERM)
    descriptor, _ = register.acquire(CONTAINER)
    register.write(descriptor, RegisterEntry(CONTAINER, 1))
    os.close(descriptor)
    assert register.kill(CONTAINER, signal.SIGTERM)


def test_killing_waits_a_little(tmp_path: Path) -> None:
    register = Register(tmp_path / "lock", kill_time=0.0)
    descriptor, _ = register.acquire(CONTAINER)
    register.write(descriptor, ENTRY)
    assert not register.kill(CONTAINER, signal.SIGUSR1)
    os.close(descriptor)


def test_a_register_that_stays_busy_is_said_to_be(tmp_path: Path) -> None:
    register = Register(tmp_path / "lock", patience=0.0)
    os.close(register.acquire(CONTAINER)[0])
    with (tmp_path / "lock" / "crunch-run-all.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="another process holds it"):
            register.acquire(CONTAINER)


def test_marks_and_prices(register: Register, tmp_path: Path) -> None:
    assert (register.broken, register.read_prices()) == (False, b"")
    register.mark_broken("no space")
    register.write_prices(b"[]")
    assert (register.broken, register.read_prices()) == (True, b"[]")
    assert (tmp_path / "lock" / "crunch-run-broken").read_text() == "no space\n"


def test_a_sweep_clears_up_after_the_dead_and_leaves_the_living_alone(register: Register) -> None:
    dead, _ = register.acquire(OTHER)
    register.write(dead, RegisterEntry(OTHER, 1, "/run/dead"))
    os.close(dead)
    alive, _ = register.acquire(CONTAINER)
    process = subprocess.Popen(["sleep", "100"])
    register.write(alive, RegisterEntry(CONTAINER, process.pid, "/run/alive"))
    cleaned: list[RegisterEntry] = []
    register.sweep(cleaned.append)
    process.send_signal(0)
    assert [one.RunDirectory for one in cleaned] == ["/run/dead"]
    assert (register.read(OTHER), process.poll()) == (None, None)
    process.kill()
    process.wait()
    os.close(alive)
