from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lading.core.errors import Conflict
from lading.supervisor import journal
from lading.supervisor.journal import LockHolder


def test_the_lock_has_one_holder(tmp_path: Path) -> None:
    run = tmp_path / "run" / "x"
    held = journal.acquire_lock(run)
    assert journal.is_held(run)
    with pytest.raises(Conflict, match="already"):
        journal.acquire_lock(run)
    journal.release_lock(held)
    assert not journal.is_held(run)


def test_the_holder_says_who_it_is(tmp_path: Path) -> None:
    held = journal.acquire_lock(tmp_path)
    assert journal.read_holder(tmp_path) is None
    journal.write_holder(held, LockHolder(UUID="u", PID=5))
    assert journal.read_holder(tmp_path) == LockHolder(UUID="u", PID=5)
    assert (tmp_path / "lock").read_text() == '{"UUID":"u","PID":5}'
    journal.release_lock(held)
    assert journal.acquire_lock(tmp_path) > 0
    assert journal.read_holder(tmp_path) is None


def test_nothing_there_is_not_held(tmp_path: Path) -> None:
    assert not journal.is_held(tmp_path / "none")
    assert journal.read_holder(tmp_path / "none") is None


def test_a_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    held = journal.acquire_lock(tmp_path)
    command = ["/bin/sh", "-c", "echo up; read line"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        journal.release_lock(held)
        assert not journal.is_held(tmp_path)
        child.communicate(b"\n")
