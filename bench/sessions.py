"""Many sessions in a running container at once, some of them moving data, and what the other calls
of the API feel.

Each session is SSH through the API, as `lading shell` makes it; most only hold a shell open, a few
read bytes from the container, whose own command computes meanwhile, and every byte is counted.
Beside them a client asks for its user about 90 times a second: the floor is the same without
sessions. The memory is the most that the server ever had (VmHWM), its processor time that of
passing bytes on and of answering. The clients stand for other machines: those of the sessions run
at low priority, so that what their ends of SSH cost is not taken from the server, and the one that
asks at the priority of the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh

from bench.figures import Figure, durations, percentile
from bench.service import add_image, connected, serving
from lading.client.api import ApiClient
from lading.client.servers.environment import Server, find_server
from lading.net.http_upgrade import LIMIT, parse_url, switch, trusting
from lading.net.pipes import Pipe, join
from lading.wiring.process import come_before

MEMORY = 300.0
SLOWER = 2.0
_LIMIT = 300.0
_SECONDS = 5.0
_AT_ONCE = 10
_LOW, _HIGH = 5, -20
_PAUSE = 0.01
_FEWEST = 300


def measure(*, sessions: int, movers: int, size: int) -> list[Figure]:
    """`sessions` at once, `movers` of which read `size` bytes each. Raises RuntimeError when a byte
    is missing.
    """
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        data = Path(folder) / "data"
        with serving(data) as environment:
            return asyncio.run(_lading(environment, data, sessions, movers, size))


async def _lading(
    environment: dict[str, str], data: Path, sessions: int, movers: int, size: int
) -> list[Figure]:
    image = await asyncio.to_thread(add_image, environment)
    os.nice(_LOW)
    server = await asyncio.to_thread(find_server, environment, Path("/nonexistent"))
    async with connected(environment) as client:
        uuid = await _start(client, image)
        alone = await _ask(environment, asyncio.create_task(asyncio.sleep(_SECONDS)))
        async with AsyncExitStack() as open_:
            gate = asyncio.Semaphore(_AT_ONCE)

            async def one() -> asyncssh.SSHClientConnection:
                async with gate:
                    return await open_.enter_async_context(entered(server, uuid))

            began = time.monotonic()
            held = await asyncio.gather(*(one() for _ in range(sessions)))
            opening = time.monotonic() - began
            for connection in held:
                await connection.create_process("read line", encoding=None)
            began, used = time.monotonic(), _processor(data)
            moving = asyncio.gather(*(_read(one, size) for one in held[:movers]))
            beside = await _ask(environment, moving)
            moved, seconds = sum(await moving), time.monotonic() - began
            used, memory = _processor(data) - used, _memory(data)
        await client.action("container_requests", uuid, "cancel")
    if moved != movers * size:
        raise RuntimeError(f"{moved} of {movers * size} bytes came out of the sessions")
    before, during = percentile(alone, 0.99), percentile(beside, 0.99)
    return [
        Figure(name="sessions opened", unit="/s", count=sessions, rate=sessions / opening),
        Figure(
            name=f"{movers} sessions read {size / 1e6:g} MB each", unit="MB/s", count=movers,
            rate=moved / seconds / 1e6,
        ),
        Figure(
            name="processor time of the server meanwhile, for each GB", unit="s", count=1,
            rate=used / (moved / 1e9),
        ),
        Figure(
            name=f"memory of the server, {sessions} sessions", unit="MB", count=1, rate=memory,
            target=f"<= {MEMORY:g} MB", met=memory <= MEMORY,
        ),
        durations("other calls, no sessions", alone),
        Figure(
            name="other calls, beside them", unit="ms", count=len(beside),
            p50=percentile(beside, 0.5) * 1000, p99=during * 1000,
            target=f"p99 <= {SLOWER:g} times", met=during <= SLOWER * before,
        ),
    ]  # fmt: skip


async def _start(client: ApiClient, image: str) -> str:
    """A request whose container runs, and computes all the while, as containers do: a line of zeros
    has no end.
    """
    made = await client.create(
        "container_requests",
        {
            "state": "Committed", "priority": 500, "container_image": image, "use_existing": False,
            "command": ["sh", "-c", "read line < /dev/zero"], "output_path": "/out", "cwd": "/out",
            "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
            "runtime_constraints": {"vcpus": 1, "ram": 1 << 30},
        },
    )  # fmt: skip
    async with asyncio.timeout(_LIMIT):
        while (await client.get("containers", made["container_uuid"]))["state"] != "Running":
            await asyncio.sleep(0.05)
    return str(made["uuid"])


@asynccontextmanager
async def entered(server: Server, uuid: str) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """An SSH connection into the container of a request."""
    tls = trusting(server.authorities, insecure=server.insecure)
    pipe = await parse_url(f"https://{server.address}", tls).open()
    headers = {"Authorization": f"Bearer {server.token}"}
    path = f"/arvados/v1/connect/{uuid}/ssh"
    await switch(pipe, path, "ssh", host=server.address, headers=headers, form={})
    ours, theirs = socket.socketpair()
    joined = asyncio.create_task(
        join(pipe, Pipe(*await asyncio.open_connection(sock=theirs, limit=LIMIT)))
    )
    try:
        async with asyncssh.connect(
            "container", sock=ours, known_hosts=None, username="root", client_keys=None, config=None
        ) as connection:
            yield connection
    finally:
        await joined


async def _read(connection: asyncssh.SSHClientConnection, size: int) -> int:
    """How many bytes come."""
    got = 0
    async with connection.create_process(f"head -c {size} /dev/zero", encoding=None) as process:
        while data := await process.stdout.read(1 << 18):
            got += len(data)
    return got


async def _ask(environment: dict[str, str], until: asyncio.Future[Any]) -> list[float]:
    """How long each of many small calls takes, one after the other, until something is done.

    They come from a process of their own, so that what the sessions cost their clients is not in
    it.
    """
    pipe = asyncio.subprocess.PIPE
    asking = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.sessions", stdin=pipe, stdout=pipe, env=environment
    )
    async with asyncio.timeout(_LIMIT):
        await until
        said, _ = await asking.communicate(b"enough")
    return [float(one) for one in json.loads(said)]


async def _keep_asking() -> list[float]:
    come_before(_HIGH)
    took: list[float] = []
    enough = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with connected(dict(os.environ)) as client:
        while not enough.done() or len(took) < _FEWEST:
            began = time.monotonic()
            await client.get("users", "current")
            took.append(time.monotonic() - began)
            await asyncio.sleep(_PAUSE)
    return took


def _memory(data: Path) -> float:
    """MB that the server process ever had."""
    return (
        int((_server(data) / "status").read_text().partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    )


def _processor(data: Path) -> float:
    """Seconds that the server process has used."""
    fields = (_server(data) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _server(data: Path) -> Path:
    """The server process in /proc. Raises RuntimeError."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "lading.wiring.server" in line and str(data) in line:
            return place
    raise RuntimeError("the server is not there")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_keep_asking())))
