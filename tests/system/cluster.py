"""A real `lading up` for system tests: on a free port, watched, killed in parts, checked for what
it left.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

LADING = str(Path(sys.executable).with_name("lading"))
_TELLING = 60.0
_ENDING = 15.0
"""Seconds for what has ended to be tidied up."""


@dataclass
class Cluster:
    """One `lading up` and its data directory."""

    data: Path
    address: str
    process: subprocess.Popen[str] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    around: dict[str, str] = field(default_factory=dict)
    """Further variables of `lading up` itself."""

    def start(self) -> float:
        """Start it; seconds until it said that it is ready."""
        began = time.monotonic()
        command = [LADING, "up", "--data", str(self.data), "--listen", self.address]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | self.around
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        seconds = time.monotonic() - began
        assert "ready" in line, f"lading up said {line!r}"
        exported = (
            text.removeprefix("export ") for text in (self.data / "env").read_text().splitlines()
        )
        self.environment = os.environ | dict(text.split("=", 1) for text in exported)
        return seconds

    def stop(self) -> int:
        """Send TERM and wait; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def lading(
        self, *arguments: str, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run one `lading` command as a user would."""
        done = subprocess.run(
            [LADING, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"lading {' '.join(arguments)}: {done.stderr}"
        return done

    def decisions(self, *words: str) -> str:
        """What dispatchers decided about the last request, once these words are in it: they tell it
        once a second.
        """
        until = time.monotonic() + _TELLING
        while True:
            told = self.lading("request", "logs", "--dispatch", "last").stdout
            if all(one in told for one in words):
                return told
            assert time.monotonic() < until, f"{words} are not all in {told!r}"
            time.sleep(0.1)

    def pids(self, role: str) -> list[int]:
        """Live processes of this cluster in a role: server, dispatcher, warm-parent or
        supervisor.
        """
        assert self.process is not None
        if role == "supervisor":
            return sorted(self._supervisors())
        parent = (
            self.process.pid if role != "warm-parent" else next(iter(self.pids("dispatcher")), -1)
        )
        mark = {
            "server": "lading.wiring.server",
            "dispatcher": "lading.wiring.dispatcher",
            "warm-parent": "forkserver",
        }[role]
        return [pid for pid in _children(parent) if mark in _command_line(pid)]

    def _supervisors(self) -> Iterator[int]:
        for lock in (self.data / "run").glob("*/lock"):
            try:
                text = lock.read_text()
                pid = int(text.split('"PID"')[1].strip(": ").split("}")[0].split(",")[0])
            except (OSError, IndexError, ValueError):
                continue
            if is_alive(pid):
                yield pid

    def run_directories(self) -> list[str]:
        """Containers that still have a run directory."""
        return sorted(path.name for path in (self.data / "run").iterdir() if path.is_dir())


def free_address() -> str:
    """A loopback address with a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def running_cluster(
    data: Path, config: str = "", around: Mapping[str, str] | None = None, address: str = ""
) -> Iterator[Cluster]:
    """A cluster that is stopped at the end, and must leave no process, mount or control group
    behind.
    """
    data.mkdir(parents=True, exist_ok=True)
    if config:
        (data / "config.yml").write_text(config)
    cluster = Cluster(data, address or free_address(), around=dict(around or {}))
    cluster.start()
    try:
        yield cluster
    finally:
        if cluster.process is not None:
            # A supervisor reports the end of its container to the server, and without a server it
            # waits for the next one, under the command line of the forkserver.
            _wait(lambda: not cluster.pids("supervisor"))
            cluster.stop()
    # A supervisor tidies up after it has reported the end of its container.
    _wait(lambda: not left_mounts(data) and not left_processes(data))
    assert left_mounts(data) == set()
    assert left_processes(data) == []
    assert left_cgroups(json.loads((data / "secrets.json").read_text())["cluster_id"]) == []


def _wait(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + _ENDING
    while not is_done() and time.monotonic() < until:
        time.sleep(0.1)


def left_mounts(data: Path) -> set[str]:
    """Mounts of the data directory in the mount namespace of any live process."""
    found = set()
    for process in Path("/proc").iterdir():
        # Also while it ends.
        with suppress(OSError):
            table = (process / "mountinfo").read_text()
            found |= {line for line in table.splitlines() if f"{data}/" in line}
    return found


def left_processes(data: Path) -> list[str]:
    """Command lines of live processes that name the data directory."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and is_alive(int(path.name)) and int(path.name) != os.getpid():
            line = _command_line(int(path.name))
            if str(data) in line:
                found.append(line)
    return found


def processes_naming(*words: str) -> list[int]:
    """Live processes whose command line has all of these words."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [
        pid for pid in pids if all(word in _command_line(pid) for word in words) and is_alive(pid)
    ]


def left_cgroups(cluster_id: str) -> list[str]:
    """Control groups that still exist for containers of a cluster."""
    found = []
    # Unlike `Path.glob`, `os.walk` passes over a group that is removed meanwhile.
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        if folder.endswith("/lading"):
            found += [f"{folder}/{name}" for name in names if name.startswith(f"{cluster_id}-")]
            names.clear()
    return found


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _children(parent: int) -> list[int]:
    try:
        text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split() if is_alive(int(word))]


def _command_line(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""
