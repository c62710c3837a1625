"""Very many requests: created through the API, held in memory, run, and cancelled all at once.

`bench.queue` fills the databases; these are the parts that change them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, absent, durations, throughput
from bench.requests import request_body, submit_batch
from bench.service import SERVER_PID, connected, serving
from lading.client.api import ApiClient
from lading.core.quantities import format_time

BATCH: Final = 1000
MOST_READ: Final = 50.0
"""Milliseconds of a call (p99) while a million requests are cancelled."""
_LIMIT: Final = 1800.0
_STATES: Final = [["state", "=", "Committed"]]


async def create(environment: dict[str, str], image: str, count: int) -> list[Figure]:
    """Create so many requests, a thousand in a call, each with a container of its own."""
    one = request_body(image, ["true"])
    taken = []
    async with connected(environment) as client:
        for _ in range(0, count, BATCH):
            began = time.perf_counter()
            await submit_batch(client, [one] * BATCH)
            taken.append(time.perf_counter() - began)
    made = len(taken) * BATCH
    return [
        throughput(f"created through the API, {BATCH:,} in a call", made, sum(taken)),
        durations(f"a call that creates {BATCH:,}", taken, note=memory_of(environment)),
    ]


def memory_of(environment: dict[str, str]) -> str:
    """The most memory that each process of `lading up` has had, in megabytes."""
    found = sorted((name, int(peak) >> 10) for name, peak in _peaks(int(environment[SERVER_PID])))
    return "most memory: " + ", ".join(f"{name} {megabytes} MB" for name, megabytes in found)


def _peaks(parent: int) -> Iterator[tuple[str, str]]:
    """The name and the largest resident size (KiB) of each process below `parent`."""
    for folder in Path("/proc").glob("[0-9]*"):
        # A process may end meanwhile.
        with suppress(OSError, IndexError):
            lines = (folder / "status").read_text().splitlines()
            fields = dict(line.split(":", 1) for line in lines)
            if int(fields["PPid"]) == parent:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                # `python -m lading.wiring.server`
                module = words[words.index("-m") + 1] if "-m" in words else fields["Name"]
                name = module.strip().rpartition(".")[2]
                yield name, fields["VmHWM"].split()[0]


async def cancel_all(environment: dict[str, str], *, within: float) -> list[Figure]:
    """Cancel all requests that wait, and read and write meanwhile. `within`: seconds promised."""
    reads: dict[str, list[float]] = {"list": [], "why": [], "create a link": []}
    async with connected(environment) as client, asyncio.timeout(_LIMIT):
        (newest,) = await client.list("container_requests", filters=_STATES, limit=1)
        began = time.perf_counter()
        body: dict[str, Any] = {"filters": []}
        one = await client.action("container_requests", None, "cancel_matching", body=body)
        while not one["finished_at"]:
            for what, seconds in reads.items():
                start = time.perf_counter()
                await _call(client, what, newest["uuid"])
                seconds.append(time.perf_counter() - start)
            one = await client.action(
                "container_requests", None, "cancellation", method="GET", id=one["id"]
            )
            await asyncio.sleep(0.1)
        taken = time.perf_counter() - began
    if one["error"] or one["cancelled"] != one["total"]:
        raise RuntimeError(f"the cancellation ended early: {one}")
    rate = one["cancelled"] / taken
    figure = durations(
        f"cancel all, {one['total']:,} waiting",
        [taken],
        p99_limit=within * 1000,
        note=f"{rate:,.0f} a second; {memory_of(environment)}",
    )
    return [
        figure,
        *(
            durations(f"{what}, while all are cancelled", seconds, p99_limit=MOST_READ)
            for what, seconds in reads.items()
        ),
    ]


async def _call(client: ApiClient, what: str, uuid: str) -> None:
    match what:
        case "list":
            await client.list("container_requests", filters=_STATES, limit=20, select=["uuid"])
        case "why":
            await client.action("container_requests", uuid, "why", method="GET")
        case _:
            await client.create("links", {"link_class": "bench", "name": "bench"})


def pace(data: Path, seconds: float) -> tuple[int, float]:
    """Containers that end while `lading up` runs, and in how many seconds; without the first."""
    with serving(data) as environment:
        return asyncio.run(_pace(environment, seconds))


async def _pace(environment: dict[str, str], seconds: float) -> tuple[int, float]:
    async with connected(environment) as client, asyncio.timeout(_LIMIT):
        since = format_time(datetime.now(UTC))
        while not await _ended(client, since):
            await asyncio.sleep(0.1)
        # The first ones start with cold caches.
        await asyncio.sleep(2)
        began, since = time.perf_counter(), format_time(datetime.now(UTC))
        await asyncio.sleep(seconds)
        return await _ended(client, since), time.perf_counter() - began


async def _ended(client: ApiClient, since: str) -> int:
    filters = [["state", "=", "Complete"], ["finished_at", ">", since]]
    answer = await client.request(
        "GET", "containers", params={"filters": filters, "limit": 0, "count": "exact"}
    )
    return int(answer["items_available"])


def paces(long: Path, short: Path, *, turns: int, seconds: float) -> list[Figure]:
    """Containers a second with a long queue and with a short one, in turns."""
    found: dict[Path, list[tuple[int, float]]] = {long: [], short: []}
    for _ in range(turns):
        for data, taken in found.items():
            taken.append(pace(data, seconds))
    rates = {
        data: sum(count for count, _ in taken) / sum(each for _, each in taken)
        for data, taken in found.items()
    }
    if not rates[short]:
        return [absent("containers a second", "none ended with a short queue")]
    counts = {data: sum(count for count, _ in taken) for data, taken in found.items()}
    share = rates[long] / rates[short]
    return [
        Figure(name="containers a second, short queue", unit="/s", count=counts[short],
               rate=rates[short]),
        Figure(name="containers a second, long queue", unit="/s", count=counts[long],
               rate=rates[long], target=">= 90 % of the short queue's", met=share >= 0.9,
               note=f"{share:.2f} of the short queue's, in turns"),
    ]  # fmt: skip
