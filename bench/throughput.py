"""How many containers a second, each with its log and output saved.

Every container writes its own number to its output. The clock runs from the first submission until
the end of the last one is heard; then the log and the output of each of them are read back.
"""

from __future__ import annotations

import asyncio
import time

from bench.figures import Figure, durations, throughput
from bench.requests import Outcome, Watch, inspect, lines_of, submit
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient

SCRIPT = 'echo "$0" > number'
LEAST = 40.0
_SUBMITTERS = 8
_READERS = 8


async def measure(
    client: ApiClient, watch: Watch, image: str, *, count: int, engine: str
) -> list[Figure]:
    """The rate over `count` no-op containers. Raises RuntimeError when one of them has not saved
    what it should.
    """
    began = time.time()
    uuids = await _submit_all(client, image, count)
    submitted = time.time()
    ends = [await watch.end(uuid) for uuid in uuids]
    seconds = max(ends) - began
    outcomes = await _inspect_all(client, uuids, ends)
    for number, outcome in enumerate(outcomes):
        _check(outcome, str(number))
    waits = [outcome.heard - outcome.queued for outcome in outcomes]
    # The promise is the native engine's; where there is a daemon it sets the pace.
    least = None if engine in ("docker", "podman") else LEAST
    note = (
        f"all submitted after {submitted - began:.1f} s; "
        f"log and output of all {count} read back and right"
    )
    return [
        throughput(f"Lading, {count} no-op containers", count, seconds, least=least, note=note),
        durations(
            f"Queued to Complete, {count} at once", waits, note="most of it is waiting in the queue"
        ),
    ]


async def _submit_all(client: ApiClient, image: str, count: int) -> list[str]:
    gate = asyncio.Semaphore(_SUBMITTERS)

    async def one(number: int) -> str:
        async with gate:
            return await submit(client, image, ["sh", "-c", SCRIPT, str(number)])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(count)]
    return [task.result() for task in tasks]


async def _inspect_all(client: ApiClient, uuids: list[str], ends: list[float]) -> list[Outcome]:
    blocks, gate = BlockClient(client.transport, client.token), asyncio.Semaphore(_READERS)

    async def one(uuid: str, heard: float) -> Outcome:
        async with gate:
            return await inspect(client, blocks, uuid, heard=heard)

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(one(uuid, heard)) for uuid, heard in zip(uuids, ends, strict=True)
        ]
    return [task.result() for task in tasks]


def _check(outcome: Outcome, number: str) -> None:
    if outcome.output != {"number": f"{number}\n"}:
        raise RuntimeError(f"container {number}: its output is {outcome.output}")
    if lines_of(outcome, "crunch-run.txt")[-1:] != ["Complete"]:
        raise RuntimeError(
            f"container {number}: its log is {sorted(outcome.log)}, without the final word Complete"
        )
