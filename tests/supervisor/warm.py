"""The dispatcher's side of a real forkserver."""

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
_UNASKED = ("error", "idle", "ended", "preparing", "asking", "signalled")


@dataclass
class Parent:
    """A forkserver and the dispatcher's end of its socket."""

    run: Path
    process: subprocess.Popen[bytes]
    connection: socket.socket
    directory: Path
    is_asked: bool = False
    """Whether the next message belongs to `ask`, which may run in another thread."""

    def ask(self, op: str, **fields: Any) -> tuple[dict[str, Any], list[int]]:
        """One request and its answer."""
        self.is_asked = True
        try:
            self.connection.send(json.dumps({"op": op, "id": 7, **fields}).encode())
            message, descriptors = self.answer()
            while message.get("id") != 7 and message["op"] != "error":
                message, descriptors = self.answer()
        finally:
            self.is_asked = False
        return message, descriptors

    def answer(self) -> tuple[dict[str, Any], list[int]]:
        """The next message. A container that asks for its turn is told to go on."""
        data, descriptors, _, _ = socket.recv_fds(self.connection, 1 << 18, 250)
        message = json.loads(data)
        assert message.get("id") == 7 or message["op"] in _UNASKED
        if message["op"] == "asking":
            go = {"op": "signal", "id": 8, "uuid": message["uuid"], "signal": "CONT"}
            self.connection.send(json.dumps(go).encode())
        return message, descriptors

    def hear(self) -> None:
        """Take one message that nobody asked for; for the reader of an event loop."""
        if not self.is_asked and select.select([self.connection], [], [], 0)[0]:
            self.answer()

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
    command = [
        sys.executable,
        "-m",
        "lading.supervisor.process.forkserver",
        "--fd",
        str(theirs.fileno()),
        "--run",
        str(run),
    ]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
    theirs.close()
    return Parent(run, process, ours, directory)


def end(pidfd: int, number: signal.Signals = signal.SIGKILL) -> None:
    """End a process and wait for it."""
    signal.pidfd_send_signal(pidfd, number)
    assert select.select([pidfd], [], [], PATIENCE)[0]
    os.close(pidfd)
