"""Two gangs of two users on one machine: what a rank of the one finds of the other, and what
another user of the machine finds of both.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.reality import need_program, need_root
from tests.security.stranger import Stranger
from tests.system.cluster import LADING, Cluster, running_cluster

pytestmark = pytest.mark.system
CONFIG = "Local: {{VCPUs: 8, RAM: 4GiB}}\nContainers: {{StopGracePeriod: 2s, {engine}}}\n"
SCRIPT = Path(__file__).with_name("gang_attacker.py")
CANARY = "canary0of0the0gang0of0alice"
NOBODY = 65534
# What a rank of alice tells, which an attacker would have to guess, and then what it has.
TELL = """
echo "told address $(hostname -i)"; echo "told word $(cat /hpcaas/daemon/authorization)"
echo "told key $(sed -n 3p /root/.ssh/private_key)"
echo "told tls $(sed -n 3p /hpcaas/daemon/*.key)"
exec python3 /hpcaas/files/gang_attacker.py plant
"""
# As another user of the machine: reads below a directory, and of every process, what can be read.
LOOK = """
import json, os, sys
tries = found = 0
marks, guessed = json.load(sys.stdin)
marks = [one.encode() for one in marks]
paths = [os.path.join(folder, name) for folder, _, names in os.walk(sys.argv[1]) for name in names]
processes = [one for one in os.listdir("/proc") if one.isdigit() and int(one) != os.getpid()]
paths += [f"/proc/{one}/{name}" for one in processes for name in ("cmdline", "environ", "fd/0")]
paths += guessed
for path in paths:
    tries += 1
    try:
        with open(path, "rb") as file:
            data = file.read(1 << 20)
    except OSError:
        continue
    if any(mark in data for mark in marks):
        found += 1
        print("READ", path)
print("tries", tries)
"""


@dataclass
class Gangs:
    """A site with the gang of alice running, and mallory, who has a token."""

    cluster: Cluster
    alice: str
    mallory: str
    request: str = ""
    container: str = ""
    addresses: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)

    def lading(self, token: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [LADING, *words], env={**self.cluster.environment, "ARVADOS_API_TOKEN": token},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def processes(self) -> list[int]:
        """Processes of the gang of alice, by their control groups and command lines."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    shown = (folder / "cgroup").read_text() + (folder / "cmdline").read_text()
                except OSError:
                    continue
                if self.container in shown or "gang_attacker.py" in shown:
                    found.append(int(folder.name))
        return found


def _engine(request: pytest.FixtureRequest) -> str:
    if request.param == "native":
        return "RuntimeEngine: native"
    fixture, key = {
        "docker": ("docker_daemon", "DockerSocket"),
        "podman": ("podman_service", "PodmanSocket"),
    }[request.param]
    return f"RuntimeEngine: {request.param}, {key}: {request.getfixturevalue(fixture).socket}"


@pytest.fixture(scope="module", params=["native", "docker", "podman"])
def gangs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gangs]:
    need_root()
    for program in ("sshd", "ip", "crun"):
        need_program(program)
    data = tmp_path_factory.mktemp("gangs") / "data"
    with running_cluster(data, CONFIG.format(engine=_engine(request))) as cluster:
        stranger = Stranger(cluster)
        alice, mallory = (
            stranger.token(owner=stranger.user(name)) for name in ("alice", "mallory")
        )
        made = Gangs(cluster, alice, mallory)
        for token in (made.alice, made.mallory):
            added = made.lading(token, "image", "hpc", "python3", "hostname", "cat", "sed")
            assert added.returncode == 0, added.stderr
        with _running(made):
            yield made


@contextmanager
def _running(gangs: Gangs) -> Iterator[None]:
    """The gang of alice, from the moment when both ranks have told of themselves to its end."""
    command = [LADING, "hpc", "run", "--size", "2", "--launcher", "all", "--file", str(SCRIPT)]
    command += ["--param", f"SHOWN={CANARY}", "--no-reuse", "--", "sh", "-c", TELL]
    environment = {**gangs.cluster.environment, "ARVADOS_API_TOKEN": gangs.alice}
    log = gangs.cluster.data.parent / "alice.log"
    with (
        log.open("w") as file,
        subprocess.Popen(
            command, env=environment, stdout=file, stderr=subprocess.STDOUT
        ) as running,
    ):
        try:
            until = time.monotonic() + 120
            while len(told := re.findall(r"told (\w+) (\S+)", log.read_text())) < 8:
                assert time.monotonic() < until, log.read_text()
                assert running.poll() is None, log.read_text()
                time.sleep(0.1)
            gangs.addresses = sorted({text for kind, text in told if kind == "address"})
            gangs.secrets = sorted({text for kind, text in told if kind != "address"})
            found = gangs.lading(gangs.alice, "request", "show", "last", "--json")
            record = json.loads(found.stdout)
            gangs.request, gangs.container = record["uuid"], record["container_uuid"]
            yield
        finally:
            running.terminate()
            running.wait(60)


def _machine() -> list[str]:
    """The addresses of this machine."""
    shown = subprocess.run(["ip", "-j", "addr"], capture_output=True, text=True, check=True)
    return [
        one["local"] for device in json.loads(shown.stdout) for one in device.get("addr_info", ())
    ]


@pytest.mark.attack(
    "a rank looks for the addresses, names, processes, memory, files and services of another gang"
)
def test_from_inside(gangs: Gangs, tmp_path: Path) -> None:
    host, port = gangs.cluster.address.rsplit(":", 1)
    with socket.create_server(("", 0)) as service:
        near = service.getsockname()[1]
        container = gangs.container
        plan = {
            "canary": list(CANARY[::-1]),
            "addresses": gangs.addresses,
            "marks": [one[::-1] for one in gangs.secrets],
            "names": [
                *(f"{container}-{rank}" for rank in range(4)),
                *(f"container-{rank}.{container}" for rank in range(4)),
                *("host.docker.internal", "gateway.docker.internal"),
                *("metadata.google.internal", "container-2", "container_2"),
                *(container, gangs.request),
            ],
            "pids": gangs.processes(),
            "services": [
                [address, number] for address in {*_machine(), host}
                # Port 22 of the loopback is the rank's own.
                for number in (near, int(port), 2375, 5000, 22)
                if number != 22 or address not in ("127.0.0.1", "::1")
            ],
        }  # fmt: skip
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        done = gangs.lading(
            gangs.mallory, "hpc", "run", "--size", "2", "--launcher", "first", "--no-reuse",
            "--file", str(SCRIPT), "--file", str(tmp_path / "plan.json"), "--",
            "python3", "/hpcaas/files/gang_attacker.py", "/hpcaas/files/plan.json",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(next(one for one in done.stdout.splitlines() if one.startswith("{")))
    assert said["broken"] == []
    assert said["tries"] > 1000
    assert len(gangs.processes()) >= 2


@pytest.mark.attack(
    "another user of the machine reads files, environments and command lines for keys of gangs"
)
def test_from_the_machine(gangs: Gangs) -> None:
    for uid in (NOBODY, 1000):
        # Paths that this user could not list, but may guess.
        guessed = [
            f"{parent}/{name}" for folder in ("run", "outposts", "annex", "live", "cache")
            for parent, _, names in os.walk(gangs.cluster.data / folder) for name in names
        ][:5000]  # fmt: skip
        looked = subprocess.run(
            ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", sys.executable, "-c",
             LOOK, str(gangs.cluster.data)],
            input=json.dumps([gangs.secrets, guessed]), capture_output=True, text=True,
            check=True, cwd="/",
        )  # fmt: skip
        lines = looked.stdout.split("\n")
        assert [one for one in lines if one.startswith("READ")] == []
        assert int(lines[-2].split()[1]) > 100
    # Nobody, not even root, finds the keys in a command line.
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.parent.name != str(os.getpid()):
            try:
                shown = path.read_bytes()
            except OSError:
                continue
            assert not any(secret.encode() in shown for secret in gangs.secrets), shown


@pytest.mark.attack("a user asks the API for every part of the records and logs of another's gang")
def test_the_log_of_a_gang_has_no_keys(gangs: Gangs) -> None:
    files = ("stdout.txt", "stderr.txt", "crunch-run.txt", "node-info.txt")
    for name in files:
        shown = gangs.lading(gangs.alice, "request", "logs", gangs.request, "--file", name).stdout
        # The command of alice prints them; nothing else may.
        others = [one for one in shown.splitlines() if "told" not in one]
        assert not [one for one in others if any(secret in one for secret in gangs.secrets)]
    calls = [("why",), ("logs",), ("cancel",), ("rerun",), ("change", "--priority", "0"),
             *(("logs", "--file", name) for name in files)]  # fmt: skip
    for first, *more in [("show",), *calls]:
        for uuid in (gangs.request, gangs.container):
            done = gangs.lading(gangs.mallory, "request", first, uuid, *more)
            assert done.returncode != 0, (first, more, done.stdout)
            assert CANARY not in done.stdout + done.stderr
    assert len(gangs.processes()) >= 2
