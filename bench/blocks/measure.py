"""PUT and GET of 64 MiB blocks through a real server, each round beside the floor; and the memory
of many at once.

The promise is for the server: over its local socket, from a client that does nothing but move
bytes. HTTPS, and Lading's own client (which hashes what it sends and what it gets, as every client
must), are there to be compared.

The floor hashes each file and writes it durably; and reads it, from the kernel's memory, and hashes
it. The server reads what was put last, from wherever it left that.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from bench.blocks.floor import Floor
from bench.blocks.raw import RawClient
from bench.figures import Figure, absent
from bench.service import connected, serving
from lading.client.blocks import BlockClient
from lading.config.server import API

SIZE = 64 << 20
SHARE = 0.7
_AT_ONCE = 20
_CLIENTS_AT_ONCE = 4
_OTHER_MEMORY = 400 << 20


@dataclass
class Samples:
    """Seconds for a block, by what was done."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, seconds: list[float]) -> None:
        """Some more."""
        self.seconds.setdefault(name, []).extend(seconds)

    def rate(self, name: str) -> float:
        """MB/s at the median."""
        return SIZE / 1e6 / statistics.median(self.seconds[name])

    def figure(self, name: str, floor: str, *, promised: bool = False) -> Figure:
        """A row, with its share of the floor."""
        share = self.rate(name) / self.rate(floor)
        return Figure(
            name=name,
            unit="MB/s",
            count=len(self.seconds[name]),
            rate=self.rate(name),
            target=f">= {SHARE:.0%} of the floor" if promised else "",
            met=share >= SHARE if promised else None,
            note="" if name == floor else f"{share:.0%} of the floor",
        )


def measure(*, rounds: int = 2, blocks: int = 3) -> list[Figure]:
    """All rows; `blocks` new blocks in each of the rounds."""
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        try:
            floor = Floor(work)
        except (OSError, RuntimeError) as error:
            return [absent("PUT and GET of 64 MiB blocks", str(error))]
        with serving(work / "data") as environment:
            samples = Samples()
            for _ in range(rounds):
                with _fresh(work, blocks) as files:
                    _round(floor, files, environment, samples)
            return [*_figures(samples), _memory(environment)]


def _figures(samples: Samples) -> list[Figure]:
    put, get = "floor: hash and write", "floor: read and hash"
    return [
        samples.figure(put, put),
        samples.figure("PUT, local socket", put, promised=True),
        samples.figure("PUT, HTTPS", put),
        samples.figure("put by BlockClient, HTTPS", put),
        samples.figure(f"put by BlockClient, {_CLIENTS_AT_ONCE} at once", put),
        samples.figure(get, get),
        samples.figure("GET, local socket", get, promised=True),
        samples.figure("GET, HTTPS", get),
        samples.figure("get by BlockClient, HTTPS", get),
        samples.figure(f"get by BlockClient, {_CLIENTS_AT_ONCE} at once", get),
    ]


@contextmanager
def _fresh(work: Path, count: int) -> Iterator[list[Path]]:
    """Files of new random bytes: a block that is there already is not written again."""
    files = [work / f"source-{number}" for number in range(count)]
    for path in files:
        path.write_bytes(os.urandom(SIZE))
    yield files
    for path in files:
        path.unlink()


def _round(floor: Floor, files: list[Path], environment: dict[str, str], samples: Samples) -> None:
    token, address = environment["ARVADOS_API_TOKEN"], environment["ARVADOS_API_HOST"]
    local = files[0].parent / "data" / "api.sock"
    samples.add("floor: hash and write", floor.put(files))
    samples.add("floor: read and hash", floor.get(files))
    data = [bytearray(path.read_bytes()) for path in files]
    with RawClient.local(local, token) as client:
        _raw(client, data, "local socket", samples)
    with RawClient.https(address, token) as client:
        _raw(client, _others(data), "HTTPS", samples)
    asyncio.run(_own_client(environment, _others(data), 1, "HTTPS", samples))
    asyncio.run(
        _own_client(
            environment, _others(data), _CLIENTS_AT_ONCE, f"{_CLIENTS_AT_ONCE} at once", samples
        )
    )


def _others(data: list[bytearray]) -> list[bytearray]:
    """Another last byte makes other blocks of them."""
    for one in data:
        one[-1] = (one[-1] + 1) % 256
    return data


def _raw(client: RawClient, data: list[bytearray], where: str, samples: Samples) -> None:
    hashes = [hashlib.md5(one, usedforsecurity=False).hexdigest() for one in data]
    locators: list[str] = []
    pairs = zip(hashes, data, strict=True)
    puts = [_timed(lambda pair=pair: locators.append(client.put(*pair))) for pair in pairs]  # type: ignore[misc]
    samples.add(f"PUT, {where}", puts)
    samples.add(f"GET, {where}", [_timed(lambda text=text: client.get(text)) for text in locators])  # type: ignore[misc]


async def _own_client(
    environment: dict[str, str], data: list[bytearray], at_once: int, where: str, samples: Samples
) -> None:
    async with connected(environment) as client:
        blocks, gate = BlockClient(client.transport, client.token), asyncio.Semaphore(at_once)

        async def put(one: bytearray) -> str:
            async with gate:
                return await blocks.put(one)

        async def get(locator: str) -> bytes:
            async with gate:
                return await blocks.get(locator)

        began = perf_counter()
        locators = await asyncio.gather(*(put(one) for one in data))
        between = perf_counter()
        await asyncio.gather(*(get(one) for one in locators))
        ended = perf_counter()
    samples.add(f"put by BlockClient, {where}", [(between - began) / len(data)] * len(data))
    samples.add(f"get by BlockClient, {where}", [(ended - between) / len(data)] * len(data))


def _memory(environment: dict[str, str]) -> Figure:
    """The most memory that the server ever had, with many blocks on their way both ways at once."""
    token, address = environment["ARVADOS_API_TOKEN"], environment["ARVADOS_API_HOST"]

    zeros = bytes(SIZE - 8)
    begun = hashlib.md5(zeros, usedforsecurity=False)

    def both_ways(number: int) -> None:
        digest, end = begun.copy(), number.to_bytes(8, "big")
        digest.update(end)
        with RawClient.https(address, token) as client:
            client.get(client.put(digest.hexdigest(), zeros, end))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(both_ways, range(_AT_ONCE)))
    peak = _peak(address)
    limit = API().MaxKeepBlobBuffers * SIZE + _OTHER_MEMORY
    return Figure(
        name=f"memory of the server, {_AT_ONCE} blocks at once",
        unit="MB",
        count=_AT_ONCE,
        rate=peak / 1e6,
        target=f"<= {limit / 1e6:.0f} MB",
        met=peak <= limit,
    )


def _peak(address: str) -> int:
    """VmHWM of the server process that listens on an address, in bytes."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes().split(b"\0")
            lines = status.read_text().splitlines()
        except OSError:
            continue
        if b"lading.wiring.server" in command and address.encode() in command:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    raise RuntimeError("the server is gone")


def _timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began
