"""A forkserver of the tests: speaks the protocol of `lading.supervisor.process.forkserver`, runs
processes that only wait.

Its processes end by TERM, leaving their run directory behind, or by USR1, clearing it away as a
tidy supervisor does. `--behave` and the assignment's field `behave` make it break its word in one
way.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--behave", default="")
    options = parser.parse_args()
    sock = socket.socket(fileno=options.fd)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data = sock.recv(1 << 20)
        if not data or options.behave == "leave":
            return
        if options.behave == "babble":
            sock.send(b"not JSON")
        request = json.loads(data)
        handle = {
            "start": start, "list": listing, "clean": clean, "signal": send, "resume": resume,
        }[request["op"]]  # fmt: skip
        if options.behave != f"silent {request['op']}":
            handle(sock, request, options)


def answer(
    sock: socket.socket, request: dict[str, Any], *, fds: tuple[int, ...] = (), **fields: Any
) -> None:
    socket.send_fds(sock, [json.dumps({"id": request["id"], **fields}).encode()], fds)
    for descriptor in fds:
        os.close(descriptor)


def start(sock: socket.socket, request: dict[str, Any], options: argparse.Namespace) -> None:
    assignment = request["assignment"]
    uuid, behave = assignment["container_uuid"], assignment.get("behave")
    if behave == "refuse":
        answer(sock, request, op="refused", uuid=uuid, error="told to refuse")
        return
    # One that is said to have ended is heard of by nobody any more: it goes with this process.
    pid = fork(sock, Path(assignment["run_directory"]), tied=str(behave).startswith("end"))
    if behave == "die":
        sys.exit(1)
    if behave == "forget the descriptor":
        answer(sock, request, op="started", uuid=uuid, pid=pid)
        return
    if behave == "late":
        sock.recv(1 << 20)
    told = json.dumps({"op": "ended", "uuid": uuid}).encode()
    idle = json.dumps({"op": "idle", "uuid": uuid}).encode()
    if behave == "end at once":
        sock.send(told)
    if behave == "idle at once":
        sock.send(idle)
    answer(sock, request, op="started", uuid=uuid, pid=pid, fds=(os.pidfd_open(pid),))
    if behave == "end":
        sock.send(told)
    if behave == "idle":
        sock.send(idle)
    for word in ("preparing", "asking"):
        if behave in (word, "asking"):
            sock.send(json.dumps({"op": word, "uuid": uuid}).encode())


def resume(sock: socket.socket, request: dict[str, Any], options: argparse.Namespace) -> None:
    uuid = request["uuid"]
    if not options.behave.startswith("resume") or not (options.run / uuid).exists():
        answer(sock, request, op="refused", uuid=uuid, error="nothing was handed over")
        return
    if options.behave == "resume and leave":
        sys.exit(1)
    pid = fork(sock, options.run / uuid, tied=False)
    answer(sock, request, op="resumed", uuid=uuid, pid=pid, fds=(os.pidfd_open(pid),))


def fork(sock: socket.socket, folder: Path, *, tied: bool) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    pid = os.fork()
    if pid == 0:
        os.setsid()
        sock.close()
        if tied:
            ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
        signal.sigwait({signal.SIGUSR1})
        shutil.rmtree(folder)
        os._exit(0)
    os.write(lock, str(pid).encode())
    os.close(lock)
    return pid


def send(sock: socket.socket, request: dict[str, Any], options: argparse.Namespace) -> None:
    folder = options.run / request["uuid"]
    if delivered := folder.exists() and held(folder):
        os.kill(int((folder / "lock").read_text()), signal.Signals[f"SIG{request['signal']}"])
    answer(sock, request, op="signalled", uuid=request["uuid"], delivered=delivered)


def listing(sock: socket.socket, request: dict[str, Any], options: argparse.Namespace) -> None:
    if options.behave == "no list":
        answer(sock, request, op="error", error="told not to")
        return
    live: list[str] = []
    dead: list[str] = []
    for folder in sorted(options.run.iterdir()):
        (live if held(folder) else dead).append(folder.name)
    for uuid in live:
        pid = int((options.run / uuid / "lock").read_text())
        fds = (os.pidfd_open(pid),)
        answer(
            sock,
            request,
            op="listed",
            live=[{"uuid": uuid, "pid": pid}],
            dead=[],
            more=True,
            fds=fds,
        )
    answer(sock, request, op="listed", live=[], dead=dead, more=False)


def held(folder: Path) -> bool:
    with (folder / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def clean(sock: socket.socket, request: dict[str, Any], options: argparse.Namespace) -> None:
    error = "told not to" if options.behave == "no clean" else ""
    if not error:
        shutil.rmtree(options.run / request["uuid"], ignore_errors=True)
    answer(sock, request, op="cleaned", uuid=request["uuid"], error=error)


if __name__ == "__main__":
    main()
