"""A terminal or a pipe that is closed while a command shows something: the command ends without a
traceback, and what it submitted goes on.
"""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.reality import need_program, need_root
from tests.system.cluster import LADING, Cluster, running_cluster

pytestmark = pytest.mark.system
PATIENCE = 120.0
# It writes long after the terminal has gone, and then succeeds.
SCRIPT = "for number in 1 2 3 4 5; do echo line $number; sleep 1.5; done; : "
COMMANDS = {
    "run": ("run", "--image", "tools:1", "--name"),
    "map": ("map", "--image", "tools:1", "-i", "/etc/hostname", "--name"),
    "wait": ("wait",),
    "logs": ("request", "logs", "-f"),
    "top": ("top", "--name"),
    "top --json": ("top", "--json", "--name"),
}
# All commands of a test wait side by side.
SITE = "Local: {VCPUs: 16, RAM: 16GiB}"
SUBMITS = ("run", "map")
# These tell of the work at its end only: their exit code is that of the work, read or not.
WORK_ALONE = ("map", "wait")
# The shell ignores SIGHUP, as nohup does, and leaves the streams where they are.
# Tests may themselves be started where SIGHUP is ignored, and children inherit that.
HEARING = ("env", "--default-signal=HUP")
IGNORING = ("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    for program in ("crun", "setsid"):
        need_program(program)
    with running_cluster(tmp_path_factory.mktemp("terminal") / "data", SITE) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "seq", "sleep")
        yield running


class Command:
    """A command whose output somebody reads until it is left."""

    def __init__(self, cluster: Cluster, kind: str, name: str) -> None:
        self.cluster, self.name = cluster, name
        script = ("--", "sh", "-c", SCRIPT + name)
        if kind not in SUBMITS:
            cluster.lading("run", "--detach", "--image", "tools:1", "--name", name, *script)
        self.words = [LADING, *COMMANDS[kind], name, *(script if kind in SUBMITS else ())]
        self.is_silent = kind in ("map", "wait")

    def in_terminal(self, *before: str, errors: Path | None = None) -> int:
        """Close its terminal, with standard error elsewhere if `errors` is given; its exit code."""
        ours, theirs = pty.openpty()
        with open(errors, "wb") if errors else contextlib.nullcontext() as file:
            process = subprocess.Popen(
                ["setsid", "--ctty", *HEARING, *before, *self.words],
                env=self.cluster.environment, stdin=theirs, stdout=theirs, stderr=file or theirs,
            )  # fmt: skip
        os.close(theirs)
        return self._leave(process, ours)

    def in_pipe(self, errors: Path | None = None) -> int:
        """Close the pipe that has its output, standard error too without `errors`; its exit
        code.
        """
        ours, theirs = os.pipe()
        with open(errors, "wb") if errors else contextlib.nullcontext() as file:
            process = subprocess.Popen(
                self.words, env=self.cluster.environment, stdin=subprocess.DEVNULL,
                stdout=theirs, stderr=file or theirs,
            )  # fmt: skip
        os.close(theirs)
        return self._leave(process, ours)

    def _leave(self, process: subprocess.Popen[bytes], ours: int) -> int:
        until(self._is_submitted)
        if not self.is_silent:
            assert select.select([ours], [], [], PATIENCE)[0]
            assert os.read(ours, 1)
        os.close(ours)
        return process.wait(PATIENCE)

    def _is_submitted(self) -> bool:
        listed = self.cluster.lading("request", "list", "--json", "--name", f"{self.name}*")
        return self.name in listed.stdout


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def check_success(cluster: Cluster, name: str) -> None:
    """Raises CalledProcessError unless all of this name succeed."""
    cluster.lading("wait", "--name", f"{name}*")


def side_by_side(kinds: Iterable[str], leave: Callable[[str], int]) -> dict[str, int]:
    """The exit code of each command that is left."""
    names = [*kinds]
    with ThreadPoolExecutor(len(names)) as threads:
        return dict(zip(names, threads.map(leave, names), strict=True))


def test_a_terminal_is_closed(cluster: Cluster) -> None:
    def leave(kind: str) -> int:
        return Command(cluster, kind, f"hangup-{kind.replace(' ', '')}").in_terminal()

    assert side_by_side(COMMANDS, leave) == dict.fromkeys(COMMANDS, -signal.SIGHUP)
    check_success(cluster, "hangup-")


@pytest.mark.parametrize("where", ["terminal", "file"])
def test_a_terminal_is_closed_and_sighup_is_ignored(
    cluster: Cluster, where: str, tmp_path: Path
) -> None:
    def leave(kind: str) -> int:
        name = f"ignored-{where}-{kind.replace(' ', '')}"
        errors = tmp_path / kind if where == "file" else None
        return Command(cluster, kind, name).in_terminal(*IGNORING, errors=errors)

    assert side_by_side(COMMANDS, leave) == {
        kind: 0 if kind in WORK_ALONE else 1 for kind in COMMANDS
    }
    assert not tracebacks(tmp_path)
    check_success(cluster, f"ignored-{where}-")


@pytest.mark.parametrize("where", ["pipe", "file"])
def test_a_pipe_is_closed(cluster: Cluster, where: str, tmp_path: Path) -> None:
    def leave(kind: str) -> int:
        name = f"pipe-{where}-{kind.replace(' ', '')}"
        errors = tmp_path / kind if where == "file" else None
        return Command(cluster, kind, name).in_pipe(errors)

    assert side_by_side(COMMANDS, leave) == {
        kind: 0 if kind in WORK_ALONE else 141 for kind in COMMANDS
    }
    assert not tracebacks(tmp_path)
    check_success(cluster, f"pipe-{where}-")


def test_streams_that_were_never_open(cluster: Cluster) -> None:
    def leave(kind: str) -> int:
        words = Command(cluster, kind, f"never-{kind}").words
        shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words]
        return subprocess.run(shell, env=cluster.environment, check=False).returncode

    kinds = ("run", "map", "wait", "logs")
    assert side_by_side(kinds, leave) == dict.fromkeys(kinds, 0)


def tracebacks(folder: Path) -> list[str]:
    """The commands whose standard error has one."""
    return [path.name for path in folder.iterdir() if b"Traceback" in path.read_bytes()]
