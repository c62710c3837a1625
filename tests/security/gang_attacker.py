"""Run in a rank of one gang: looks for another gang on the machine in every way it knows.

`gang_attacker.py PLAN`: PLAN is a JSON file with `canary` and `marks` (keys; reversed, so that the
search does not find itself), `addresses`, `names`, `pids` and `services` of the others. Prints one
JSON document: the number of tries, and a line for each that did not hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

KEY = 0x4C414431
"""Key of the other gang's shared memory."""
_TIMEOUT = 0.7
_MOST = 1 << 20
_ROOTS = ("/out", "/tmp", "/hpcaas", "/dev/shm", "/dev/mqueue", "/run", "/var", "/root", "/etc")


def plant(canary: str) -> None:
    """What a rank of the other gang has: memory, sockets, files and a port with its canary."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    memory = libc.shmat(libc.shmget(KEY, 4096, 0o1666), None, 0)
    ctypes.memmove(memory, canary.encode(), len(canary))
    for name in ("/dev/shm/shown", "/tmp/shown", "/out/shown"):
        Path(name).write_text(canary)
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0{canary}")
    abstract.listen()
    server = socket.create_server(("0.0.0.0", 5555))
    while True:
        connection, _ = server.accept()
        with contextlib.suppress(OSError):
            connection.sendall(canary.encode())
        connection.close()


class Attack:
    """The tries, and those that did not hold."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.canary = "".join(plan["canary"])[::-1]
        self.tries = 0
        self.broken: list[str] = []

    def note(self, name: str, *, broken: bool) -> None:
        self.tries += 1
        if broken:
            self.broken.append(name)

    def reach(self, target: tuple[str, int]) -> str:
        """What a port says, with its certificate; "" where nothing answers."""
        try:
            with socket.create_connection(target, timeout=_TIMEOUT) as plain:
                if target[1] != 443:
                    plain.settimeout(_TIMEOUT)
                    return plain.recv(200).decode(errors="replace") or "open"
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                with context.wrap_socket(plain) as encrypted:
                    shown = encrypted.getpeercert(binary_form=True) or b""
                    return hashlib.sha256(shown).hexdigest()
        except OSError:
            return ""

    def addresses(self) -> None:
        """Every address of the other gang, and those around one's own."""
        own = {f"10.77.{high}.{low}" for high in (0, 255) for low in range(1, 255)}
        ports = [22, 443, 5555]
        targets = [(host, port) for host in {*own, *self.plan["addresses"]} for port in ports]
        marks = (self.canary,)
        with ThreadPoolExecutor(100) as pool:
            for target, said in zip(targets, pool.map(self.reach, targets), strict=True):
                is_other = target[0] in self.plan["addresses"] and target[0] not in own
                self.note(
                    f"{target} says {said[:60]}",
                    broken=any(one in said for one in marks) or (is_other and bool(said)),
                )

    def services(self) -> None:
        """Services of the machine, at each of its addresses."""
        targets = {(host, int(port)) for host, port in self.plan["services"]}
        # Where the machine would be in the network of this gang.
        near = {
            socket.gethostbyname(socket.gethostname()).rpartition(".")[0] + end
            for end in (".1", ".254")
        }
        near |= set(Path("/etc/hosts").read_text().split())
        ports = {port for _, port in targets} - {22}
        own = socket.gethostbyname(socket.gethostname()).rpartition(".")[0]
        targets |= {(host, port) for host in near if host.startswith(own) for port in ports}
        with ThreadPoolExecutor(100) as pool:
            for target, said in zip(targets, pool.map(self.reach, targets), strict=True):
                self.note(f"machine {target} says {said[:60]}", broken=bool(said))

    def names(self) -> None:
        """Names of the other gang, its containers and the machine."""

        def resolve(name: str) -> set[str]:
            try:
                return {str(one[4][0]) for one in socket.getaddrinfo(name, 22)}
            except OSError:
                return set()

        # At once: a network without a way out answers no name server, after seconds for each.
        with ThreadPoolExecutor(100) as pool:
            for name, found in zip(
                self.plan["names"], pool.map(resolve, self.plan["names"]), strict=True
            ):
                self.note(f"{name} is {found}", broken=bool(found))

    def ssh(self) -> None:
        """Log in at the others with the key of this gang."""
        for host in self.plan["addresses"]:
            for user in ("root", "mpi"):
                command = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"]
                command += ["-o", "ConnectTimeout=1", f"{user}@{host}", "hostname; cat /out/shown"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.note(f"ssh {user}@{host}: {done.stdout}", broken=self.canary in done.stdout)

    def processes(self) -> None:
        """Signals to, and files of, processes of the others by their numbers on the machine."""
        for number in map(int, self.plan["pids"]):
            if Path(f"/proc/{number}").exists():
                with contextlib.suppress(OSError):
                    shown = Path(f"/proc/{number}/environ").read_bytes()
                    self.note(f"environment of {number}", broken=self.canary.encode() in shown)
                continue
            for signal_number in (0, signal.SIGKILL):
                try:
                    os.kill(number, signal_number)
                except OSError:
                    self.note(f"signal to {number}", broken=False)
                else:
                    self.note(f"signal to {number}", broken=True)

    def files(self) -> None:
        """Every file that is seen: those of processes, mounts, memory, directories."""
        marks = [one[::-1].encode() for one in (self.canary[::-1], *self.plan["marks"])]
        for path in self._seen():
            try:
                with path.open("rb") as file:
                    data = file.read(_MOST)
            except OSError:
                data = b""
            self.note(f"file {path}", broken=any(mark in data for mark in marks))

    def _seen(self) -> Iterator[Path]:
        own = os.getpid()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != own:
                yield from (folder / one for one in ("cmdline", "environ", "mountinfo", "cgroup"))
        for name in (
            "net/unix",
            "net/tcp",
            "net/arp",
            "sysvipc/shm",
            "sysvipc/msg",
            "keys",
            "mounts",
        ):
            yield Path("/proc") / name
        for root in _ROOTS:
            for parent, _, names in os.walk(root):
                for path in (Path(parent, name) for name in names):
                    if path.is_file() and path.name != Path(sys.argv[-1]).name:
                        yield path

    def memory(self) -> None:
        """System V memory, abstract sockets and message queues of the others."""
        libc = ctypes.CDLL(None)
        libc.shmat.restype = ctypes.c_void_p
        for key in (KEY, *range(1, 20)):
            number = libc.shmget(key, 0, 0)
            self.note(f"shared memory {key:x}", broken=number >= 0)
        for number in range(20):
            self.note(
                f"memory {number}",
                broken=libc.shmat(number, None, 0o10000) not in (-1, None, 2**64 - 1),
            )
        for name in (self.canary, *(f"lading-{number}" for number in range(10))):
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(f"\0{name}")
                except OSError:
                    self.note(f"abstract {name}", broken=False)
                else:
                    self.note(f"abstract {name}", broken=True)


def main(path: str) -> None:
    """Every kind of try, then the document."""
    attack = Attack(json.loads(Path(path).read_text()))
    for kind in ("addresses", "services", "names", "ssh", "processes", "files", "memory"):
        getattr(attack, kind)()
    json.dump({"tries": attack.tries, "broken": attack.broken}, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1] == "plant":
        plant(os.environ["SHOWN"])
    main(sys.argv[1])
