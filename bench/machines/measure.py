"""How the rate grows with dispatchers and with server processes, all on one PostgreSQL.

Two kinds of containers. *Real* ones run on made-up machines (`site`) of two slots each; all share
the processors of this machine, so that they are the limit and not the server. *Made-up* ones run
nothing (`made_up`): the server is the limit. In each round every number of dispatchers and servers
has a burst; the clock runs from the first submission until the end of the last one is heard.

Rates are sums over all dispatchers. Beside a rate stands the processor time of one container: of
the servers, of PostgreSQL, and as client that of dispatchers, supervisors, containers and the
program that submits and listens. The last rows are the rates at which one server process would
fill a core, by its time for one container.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figure, absent, percentile
from bench.machines.site import Site, Spent, serving_site
from bench.requests import Watch, inspect, submit
from bench.service import add_image, connected
from bench.throughput import SCRIPT
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from tests.postgres import BINARIES, running_postgres

_DURABLE = ("-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB", "-c", "max_connections=100")
_SUBMITTERS = 8
_WARM_UP = 20
_INSPECTED = 5
_SLOTS = 8
"""Containers that a dispatcher which runs nothing has at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Containers of a burst of either kind, the numbers of dispatchers and of servers, rounds."""

    rounds: int
    real: int
    made_up: int
    dispatchers: Sequence[int] = (1, 2, 4, 8)
    servers: Sequence[int] = (1, 2, 4)


@dataclass
class _Row:
    """What was measured of one number of dispatchers and servers: rates, and of one container the
    processor time in seconds: of servers, database and all others; the servers' busy share.
    """

    name: str
    count: int
    rates: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    database: list[float] = field(default_factory=list)
    client: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    def add(self, seconds: float, used: Spent, own: float) -> None:
        """One burst."""
        self.rates.append(self.count / seconds)
        self.server.append(used.servers / self.count)
        self.database.append(used.database / self.count)
        self.client.append((used.dispatchers + own) / self.count)
        self.busy.append(used.servers / seconds)

    def figure(self) -> Figure:
        """Its row: medians over the rounds."""
        return Figure(
            name=self.name,
            unit="/s",
            count=self.count * len(self.rates),
            rate=percentile(self.rates, 0.5),
            server=percentile(self.server, 0.5) * 1000,
            database=percentile(self.database, 0.5) * 1000,
            client=percentile(self.client, 0.5) * 1000,
            note=f"servers busy {percentile(self.busy, 0.5):.2f} cores",
        )

    def limit(self) -> Figure:
        """The rate at which a server process would fill a core, by its processor time."""
        # Less than a tick of the kernel in all was not measured.
        server = percentile(self.server, 0.5)
        return Figure(
            name=f"a server process fills a core at, {self.name}",
            unit="/s",
            count=self.count * len(self.rates),
            rate=1 / server if server else None,
        )


def measure(*, sizes: Sizes) -> list[Figure]:
    """The figures. Raises RuntimeError when a server, dispatcher or container fails."""
    if not (BINARIES / "postgres").exists():
        return [absent("dispatchers on one PostgreSQL", "PostgreSQL is not installed")]
    most = max(sizes.dispatchers)
    real = [_Row(_named(count, "real"), sizes.real) for count in sizes.dispatchers]
    light = [_Row(_named(count, "made up"), sizes.made_up) for count in sizes.dispatchers]
    wide = [_Row(_of_servers(count, most), sizes.made_up) for count in sizes.servers]
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        postgres = stack.enter_context(running_postgres(_DURABLE))
        for number in range(sizes.rounds):
            with serving_site(work / f"one{number}", postgres, servers=1) as site:
                for count, row in _turned(sizes.dispatchers, real, number):
                    with site.joined(count):
                        asyncio.run(_burst(site, row))
                for count, row in _turned(sizes.dispatchers, light, number):
                    with site.joined(count, made_up_slots=_SLOTS):
                        asyncio.run(_burst(site, row))
            for count, row in _turned(sizes.servers, wide, number):
                with (
                    serving_site(work / f"many{number}-{count}", postgres, servers=count) as site,
                    site.joined(most, made_up_slots=_SLOTS),
                ):
                    asyncio.run(_burst(site, row))
    return [row.figure() for row in (*real, *light, *wide)] + [row.limit() for row in light]


def _named(dispatchers: int, kind: str) -> str:
    return f"{dispatchers} dispatcher{'s' if dispatchers > 1 else ''}, {kind} containers"


def _of_servers(servers: int, dispatchers: int) -> str:
    many = f"{servers} server process{'es' if servers > 1 else ''}"
    return f"{many}, {dispatchers} dispatchers, made up containers"


def _turned(counts: Sequence[int], rows: Sequence[_Row], number: int) -> list[tuple[int, _Row]]:
    """Both in pairs, backwards in every second round."""
    pairs = list(zip(counts, rows, strict=True))
    return pairs[::-1] if number % 2 else pairs


async def _burst(site: Site, row: _Row) -> None:
    """One burst, after a small one that does not count."""
    image = await asyncio.to_thread(add_image, site.environment)
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(_client(site, address)) for address in site.addresses
        ]
        watch = Watch(clients[0])
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        await _run(clients, watch, image, _WARM_UP)
        before, own = await asyncio.to_thread(site.spent), sum(os.times()[:2])
        began = time.time()
        uuids, last = await _run(clients, watch, image, row.count)
        seconds, mine = last - began, sum(os.times()[:2]) - own
        used = (await asyncio.to_thread(site.spent)).since(before)
        row.add(seconds, used, mine)
        blocks = BlockClient(clients[0].transport, clients[0].token)
        for number in range(0, row.count, max(1, row.count // _INSPECTED)):
            outcome = await inspect(clients[0], blocks, uuids[number], heard=last)
            if outcome.output != {"number": f"{number}\n"}:
                raise RuntimeError(f"container {number}: its output is {outcome.output}")
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@contextlib.asynccontextmanager
async def _client(site: Site, address: str) -> AsyncIterator[ApiClient]:
    async with connected(site.environment | {"ARVADOS_API_HOST": address}) as client:
        yield client


async def _run(
    clients: Sequence[ApiClient], watch: Watch, image: str, count: int
) -> tuple[list[str], float]:
    """Submit to all servers in turns, wait for all ends: the uuids, and when the last was heard."""
    gate = asyncio.Semaphore(_SUBMITTERS)

    async def one(number: int) -> str:
        async with gate:
            client = clients[number % len(clients)]
            return await submit(client, image, ["sh", "-c", SCRIPT, str(number)])

    uuids = await asyncio.gather(*(one(number) for number in range(count)))
    return list(uuids), max([await watch.end(uuid) for uuid in uuids])
