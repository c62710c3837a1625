"""Containers that have IPv6 addresses and no others: ssh, host file and Open MPI between them.
`make hpc` runs it.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.client.images.from_host import this_host
from lading.client.images.hpc import INIT, build_hpc
from lading.core.errors import Unavailable
from lading.hpc.daemon_client import DaemonClient
from lading.hpc.package import write_package
from lading.hpc.plan import Identity, make_identity, make_ssh_keys
from tests.reality import need_ipv6, need_program, need_root

pytestmark = [pytest.mark.system, pytest.mark.long]
EXAMPLES = Path(__file__).parents[2] / "examples" / "mpi"
BRIDGE = f"lading6b{os.getpid() % 100_000}"
NET = f"fd00:77:{os.getpid() % 0xFFFF:x}:"
_BEGIN = """set -e
mount -t tmpfs tmpfs {top}
mkdir {top}/upper {top}/work {top}/whole
mount -t overlay overlay -o lowerdir={image},upperdir={top}/upper,workdir={top}/work {top}/whole
mount -t proc proc {top}/whole/proc
mount --rbind /dev {top}/whole/dev
mount -t devpts devpts {top}/whole/dev/pts
mount -t tmpfs tmpfs {top}/whole/dev/shm
mount -t sysfs -o ro sysfs {top}/whole/sys
hostname container-{rank}
echo ready
read go
ip link set lo up
exec chroot {top}/whole {init}
"""


@dataclass
class Container:
    """One that runs the image's first process."""

    rank: int
    identity: Identity

    @property
    def address(self) -> str:
        """Its only one."""
        return f"{NET}:{self.rank + 1:x}"

    @contextmanager
    def running(self, image: Path, top: Path) -> Iterator[DaemonClient]:
        """In namespaces of its own, connected to the bridge, until the end of the block."""
        script = _BEGIN.format(top=top, image=image, rank=self.rank, init=INIT)
        secrets = {
            "TLS_PUBLIC_CERT": self.identity.certificate,
            "TLS_PRIVATE_KEY": self.identity.key,
            "AUTHORIZATION": self.identity.authorization,
        }
        alone = [
            "unshare",
            "--net",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            script,
        ]
        process = subprocess.Popen(
            alone,
            env={"PATH": os.environ["PATH"], **secrets},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == b"ready\n"
            self._connect(process.pid)
            process.stdin.write(b"go\n")
            process.stdin.close()
            yield DaemonClient(self.address, self.identity)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _connect(self, pid: int) -> None:
        cable = f"{BRIDGE}r{self.rank}"[-15:]
        child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", child)
        _ip("link", "set", cable, "master", BRIDGE, "up")
        inside = ["nsenter", "--net", f"--target={child}"]
        _run(*inside, "ip", "addr", "add", f"{self.address}/64", "dev", "eth0", "nodad")
        _run(*inside, "ip", "link", "set", "eth0", "up")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The unpacked image of HPC containers, with a program."""
    need_root()
    need_ipv6()
    for name in ("mpicc", "mpirun", "sshd", "ip", "nsenter", "unshare"):
        need_program(name)
    program, root = tmp_path / "allreduce", tmp_path / "image"
    _run("mpicc", "-O2", "-o", str(program), str(EXAMPLES / "allreduce.c"))
    daemon = io.BytesIO()
    write_package(daemon)
    (tmp_path / "layers").mkdir()
    build_hpc(
        [str(program)], tmp_path / "layers", host=this_host(os.environ), daemon=daemon.getvalue()
    )
    root.mkdir()
    for layer in sorted(
        (tmp_path / "layers").glob("*.tar"), key=lambda one: one.name == "cluster.tar"
    ):
        if layer.name != "image.tar":
            with tarfile.open(layer) as opened:
                _extract(opened, root)
    for name in ("proc", "sys", "dev", "run", "tmp"):
        (root / name).mkdir(exist_ok=True)
    return root


@pytest.fixture
def bridge() -> Iterator[None]:
    _ip("link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
    try:
        _ip("addr", "add", f"{NET}:ffff/64", "dev", BRIDGE, "nodad")
        _ip("link", "set", BRIDGE, "up")
        yield
    finally:
        _ip("link", "delete", BRIDGE)


def test_mpi_over_ipv6_alone(image: Path, bridge: None, tmp_path: Path) -> None:
    containers = [
        Container(rank, make_identity(f"c{rank}", now=datetime.now(UTC))) for rank in range(3)
    ]
    with ExitStack() as stack:
        callers = []
        for one in containers:
            top = tmp_path / f"container-{one.rank}"
            top.mkdir()
            callers.append(stack.enter_context(one.running(image, top)))
        said, log = asyncio.run(_mpirun(callers))
    serial = sum(n * n for n in range(1, 12346))
    assert log.splitlines()[-1] == f"3 ranks: {serial}, serial: {serial}"
    assert sorted(log.splitlines()[:3]) == [f"container-{rank}" for rank in range(3)]
    assert (said["codeStatus"], said["codeExitStatus"]) == ("Stopped", 0)


async def _mpirun(callers: list[DaemonClient]) -> tuple[dict[str, Any], str]:
    keys = make_ssh_keys()
    addresses = {
        str(rank): one.host if rank % 2 else f"[{one.host}]:22" for rank, one in enumerate(callers)
    }
    async with asyncio.timeout(120):
        for rank, one in enumerate(callers):
            settings: dict[str, object] = {
                "worldRank": rank, "worldSize": len(callers), "sshAddresses": addresses,
                "sshPrivateKey": keys.private, "sshPublicKey": keys.public, "codeName": "/bin/sh",
                "codeArguments": ["-c", "mpirun hostname && mpirun allreduce 12345"],
                "childFailurePolicy": "direct",
            }  # fmt: skip
            await _when_up(one)
            await one.tell("/v1/daemon-configuration", {"daemonParameters": settings})
        await callers[0].command("start")
        known, said = "", dict[str, Any]()
        while said.get("codeStatus") not in ("Stopped", "Error", "Killed"):
            known, said = await callers[0].follow(known, wait=10)
        log = await callers[0].log("stdout", 0)
    for one in callers:
        one.close()
    return said, log.decode()


async def _when_up(one: DaemonClient) -> None:
    while True:
        try:
            await one.ask("/v1/heartbeat")
        except Unavailable:
            await asyncio.sleep(0.05)
        else:
            return


def _extract(archive: tarfile.TarFile, root: Path) -> None:
    # Python 3.11.3 and older has no filters; the archive is ours.
    if hasattr(tarfile, "fully_trusted_filter"):
        archive.extractall(root, filter="fully_trusted")
    else:
        archive.extractall(root)
