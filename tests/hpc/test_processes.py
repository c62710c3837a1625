"""The processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from lading.hpc import processes
from lading.hpc.processes import MARK, LiveProcess


def _tree(*rows: tuple[int, int]) -> list[LiveProcess]:
    return [LiveProcess(pid, parent, "x", 0) for pid, parent in rows]


def test_descendants_are_found_at_any_depth() -> None:
    tree = _tree((2, 1), (3, 2), (4, 3), (5, 1))
    assert set(processes.descendants([2], tree)) == {3, 4}
    assert set(processes.descendants([9], tree)) == set()


def test_a_process_is_told_from_one_that_has_ended() -> None:
    me = processes.look(os.getpid())
    assert me is not None
    assert me.parent == os.getppid()
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.look(child.pid) is None
    child.wait()
    assert processes.look(child.pid) is None


def test_marked_processes_are_found_and_ended() -> None:
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: f"m{os.getpid()}"})
    assert list(processes.marked(f"m{os.getpid()}")) == [child.pid]
    assert processes.marked("nobody") == {}
    processes.send([child.pid], signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    processes.send([child.pid], signal.SIGKILL)


def test_what_a_daemon_started_did_not_come_from_outside(tmp_path: Path) -> None:
    program = tmp_path / f"out{os.getpid()}"
    program.write_text("#!/bin/sh\necho up\nread line\n")
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    with (
        subprocess.Popen(
            [program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as foreign,
        subprocess.Popen(
            [program], env=environment | {MARK: "x"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as own,
    ):
        for one in (foreign, own):
            assert one.stdout is not None
            assert one.stdout.readline() == b"up\n"
        assert set(processes.started_outside(program.name)) == {foreign.pid}
        for one in (foreign, own):
            one.communicate(b"\n")


def test_what_ends_while_it_is_looked_at_did_not_come_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / f"out{os.getpid()}"
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o755)
    with subprocess.Popen([program], env={**os.environ, MARK: "x"}, stdin=subprocess.PIPE) as own:
        listed = processes.LiveProcess(own.pid, os.getpid(), program.name, 1)
        assert own.stdin is not None
        own.stdin.close()
        # Ended, and not collected: the kernel shows its name, and no environment any more.
        os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
        monkeypatch.setattr(processes, "everything", lambda: iter([listed]))
        assert processes.started_outside(program.name) == {}
