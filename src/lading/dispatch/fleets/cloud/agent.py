"""The dispatcher's agent on a VM: starts supervisors there and reports their ends.

It is sent over ssh as one argument of `python3 -c`, and writes one JSON message per line. Only the
standard library of Python 3.9 may be used, as a VM need not have anything else.

    check DIR            one line about the machine: Python, architecture, C library, engines,
                         runners in DIR, broken
    install DIR HASH     a tar archive on standard input becomes DIR/runner~HASH if its sha256 is
                         HASH
    serve DIR HASH ENGINE
                         keep the forkserver of the supervisors of that runner, which imports the
                         engine before it forks; relay between it and standard streams

`serve` relays requests to the forkserver (`supervisor.process.forkserver` documents them) and its
answers back. The descriptors in the answers stay here: when one shows that a supervisor has ended,
{"op":"ended","uuid":U} is sent at once. A ping is answered here; a prepared supervisor that asks
for its turn may continue at once; the history of {"op":"prices"} is written to a file, and the
supervisors get a signal to read it; {"op":"tail"} asks for the end of their log. When standard
input ends, the forkserver ends; supervisors continue.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import select
import shutil
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

LIMIT = 1 << 20
"""Bytes of the largest message: an assignment with a container record in it has a few KiB, and a
socket buffer of this size takes any of them whole."""
TAIL = 64 << 10
"""Bytes of the supervisors' log that an answer has: its end."""
ENGINES = ("crun", "docker", "podman")
SBIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main(arguments: list[str]) -> int:
    """Carry out the command in the arguments; the exit code."""
    verb, directory = arguments[0], arguments[1]
    os.environ["PATH"] = os.environ.get("PATH", "") + ":" + SBIN
    if verb == "check":
        say(check(directory))
        return 0
    if verb == "install":
        return install(directory, arguments[2])
    return AgentBridge(directory, arguments[2], arguments[3]).serve()


def say(message: dict[str, Any]) -> None:
    """Send one message."""
    os.write(1, json.dumps(message).encode() + b"\n")


def check(directory: str) -> dict[str, Any]:
    """Facts about this VM."""
    names = [path.name for path in Path(directory).glob("runner~*") if path.is_dir()]
    return {
        "op": "checked",
        "python": list(sys.version_info[:3]),
        "machine": platform.machine(),
        "libc": platform.libc_ver()[1],
        "engines": [name for name in ENGINES if shutil.which(name)],
        "root": os.geteuid() == 0,
        "runners": sorted(name.partition("~")[2] for name in names),
        "broken": broken(directory),
    }


def broken(directory: str) -> str:
    """Reason that this machine can no longer run containers, or ""."""
    try:
        text = Path(directory, "locks", "crunch-run-broken").read_text()
        return text[:500].strip() or "no reason is given"
    except OSError:
        return ""


def tail(directory: str) -> str:
    """The end of the supervisors' log, or ""."""
    try:
        with Path(directory, "supervisors.log").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            return file.read(TAIL).decode(errors="replace")
    except OSError:
        return ""


def unremoved(directory: str) -> int:
    """Number of directories that could not be removed yet (`lading.process.removal`)."""
    places = (Path(directory, "removed"), Path(directory, "cache", "removed"))
    return sum(len(list(entry.iterdir())) for entry in places if entry.is_dir())


def images(directory: str) -> list[str]:
    """The images that are unpacked here, by their portable data hashes."""
    return sorted(path.stem for path in Path(directory, "cache", "images").glob("*.json"))


def install(directory: str, name: str) -> int:
    """Unpack the archive on standard input; 3 if its hash is wrong."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    target = Path(directory, "runner~" + name)
    packed, draft = Path(directory, f"{os.getpid()}.tgz"), Path(directory, f"{os.getpid()}.part")
    digest = hashlib.sha256()
    try:
        with packed.open("wb") as file:
            while True:
                piece = os.read(0, LIMIT)
                if not piece:
                    break
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != name:
            say(
                {
                    "op": "refused",
                    "error": "the runner arrived damaged: its hash is " + digest.hexdigest(),
                }
            )
            return 3
        with tarfile.open(packed) as archive:
            # The dispatcher's own archive: its hash was checked above.
            archive.extractall(draft)  # nosec B202
        if not target.is_dir():
            draft.rename(target)
        say({"op": "installed", "runner": name})
        return 0
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if packed.exists():
            packed.unlink()


class AgentBridge:
    """Relay between the dispatcher and the forkserver."""

    def __init__(self, directory: str, name: str, engine: str) -> None:
        self.directory = directory
        self.engine = engine
        self.runner = Path(directory, "runner~" + name)
        self.poll = select.poll()
        self.watched: dict[int, str] = {}
        self.pending = b""
        self.ours: socket.socket
        self.warm: subprocess.Popen[bytes]

    def serve(self) -> int:
        """Relay until either side is gone; 1 if it was the forkserver."""
        self.start()
        self.poll.register(0, select.POLLIN)
        self.poll.register(self.ours, select.POLLIN)
        try:
            while True:
                for descriptor, _ in self.poll.poll():
                    if descriptor == 0:
                        if not self.hear():
                            return 0
                    elif descriptor == self.ours.fileno():
                        if not self.answer():
                            return 1
                    else:
                        self.ended(descriptor)
        finally:
            self.ours.close()
            self.warm.wait()

    def start(self) -> None:
        """Start the forkserver."""
        for name in ("run", "cache", "locks"):
            Path(self.directory, name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [
            str(self.runner / "bin/python"), "-m", "lading.supervisor.process.forkserver",
            "--fd", str(theirs.fileno()), "--run", str(Path(self.directory, "run")),
            "--engine", self.engine,
        ]  # fmt: skip
        log = os.open(
            Path(self.directory, "supervisors.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        self.warm = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(theirs.fileno(),),
            cwd="/",
        )
        os.close(log)
        theirs.close()
        self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LIMIT)

    def hear(self) -> bool:
        """Pass requests on; False when there will be none any more."""
        piece = os.read(0, LIMIT)
        if not piece:
            return False
        *lines, self.pending = (self.pending + piece).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request.get("op") == "ping":
                say(
                    {
                        "op": "pong",
                        "id": request.get("id"),
                        "broken": broken(self.directory),
                        "unremoved": unremoved(self.directory),
                        "images": images(self.directory),
                    }
                )
            elif request.get("op") == "tail":
                say({"op": "tail", "id": request.get("id"), "text": tail(self.directory)})
            elif request.get("op") == "prices":
                self.price(request["history"])
                say({"op": "priced", "id": request.get("id")})
            else:
                self.ours.send(line)
        return True

    def price(self, history: list[Any]) -> None:
        """Write a price history to the file that supervisors read, and signal each of them."""
        place = Path(self.directory, "locks", "crunch-run-prices.json")
        part = place.with_name(place.name + "~")
        part.write_text(json.dumps(history))
        part.rename(place)
        for uuid in self.watched.values():
            self.ours.send(json.dumps({"op": "signal", "uuid": uuid, "signal": "USR2"}).encode())

    def answer(self) -> bool:
        """Pass an answer back without its descriptors; False when the forkserver is gone."""
        data, descriptors, _, _ = socket.recv_fds(self.ours, LIMIT, 253)
        if not data:
            return False
        message = json.loads(data)
        if message.get("op") == "ended":
            for descriptor in [
                number for number, uuid in self.watched.items() if uuid == message["uuid"]
            ]:
                self.unwatch(descriptor)
        if message.get("op") == "asking":
            # The dispatcher reserves the resources of the container on the machine during the
            # preparation: no other container may have taken it.
            self.ours.send(
                json.dumps({"op": "signal", "uuid": message["uuid"], "signal": "CONT"}).encode()
            )
        live = (
            [message["uuid"]]
            if message.get("op") == "started"
            else [item["uuid"] for item in message.get("live", [])]
        )
        os.write(1, data + b"\n")
        # `strict` is not known to Python 3.9.
        for uuid, descriptor in zip(live, descriptors):  # noqa: B905
            if uuid in self.watched.values():
                os.close(descriptor)
                continue
            self.watched[descriptor] = uuid
            self.poll.register(descriptor, select.POLLIN)
        return True

    def ended(self, descriptor: int) -> None:
        """A supervisor has ended."""
        say({"op": "ended", "uuid": self.unwatch(descriptor)})

    def unwatch(self, descriptor: int) -> str:
        """Stop watching a process; return its container."""
        self.poll.unregister(descriptor)
        os.close(descriptor)
        return self.watched.pop(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
