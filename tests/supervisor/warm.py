"""The dispatcher's side of a real warm parent."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lading.testing.supervising import CONTAINER, SUPERVISOR_TOKEN

PATIENCE = 180.0


@dataclass
class Parent:
    """A warm parent and the dispatcher's end of its socket."""

    run: Path
    process: subprocess.Popen[bytes]
    connection: socket.socket
    directory: Path

    def ask(self, op: str, **fields: Any) -> tuple[dict[str, Any], list[int]]:
        """One request and its answer."""
        self.connection.send(json.dumps({"op": op, "id": 7, **fields}).encode())
        message, descriptors = self.answer()
        while message["op"] in ("idle", "ended"):
            message, descriptors = self.answer()
        return message, descriptors

    def answer(self) -> tuple[dict[str, Any], list[int]]:
        data, descriptors, _, _ = socket.recv_fds(self.connection, 1 << 18, 250)
        message = json.loads(data)
        assert message.get("id") == 7 or message["op"] in ("error", "idle", "ended")
        return message, descriptors

    def start(self, uuid: str = CONTAINER, **changes: Any) -> tuple[dict[str, Any], list[int]]:
        """Start a supervisor that waits for a server that is not there."""
        assignment = {
            "container_uuid": uuid,
            "supervisor_token": SUPERVISOR_TOKEN,
            "run_directory": str(self.run / uuid),
            "cache_directory": str(self.directory / "cache"),
            "api_socket": str(self.directory / "none.sock"),
            "engine": "docker",
            **changes,
        }
        return self.ask("start", assignment=assignment)


def start_parent(directory: Path) -> Parent:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(PATIENCE)
    run = directory / "run"
    run.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "lading.supervisor.zygote", "--fd", str(theirs.fileno()), "--run", str(run)]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
    theirs.close()
    return Parent(run, process, ours, directory)


def end(pidfd: int, number: signal.Signals = signal.SIGKILL) -> None:
    """End a process and wait for it."""
    signal.pidfd_send_signal(pidfd, number)
    assert select.select([pidfd], [], [], PATIENCE)[0]
    os.close(pidfd)
