"""How many containers a second, each with its log and output saved.

Every container writes its own number to its output. All are submitted by one call, as `lading map`
does and as HyperQueue gets its tasks. The clock runs from that call until the end of the last one
is heard; then the log and the output of each of them are read back.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bench.requests import Outcome, Watch, inspect, lines_of, request_body, submit_batch
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient

SCRIPT = 'echo "$0" > number'
LEAST = 40.0
_READERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Many containers at once. Seconds: until all were submitted, until the end of the last one was
    heard, and of each from Queued until its end was heard.
    """

    submitted: float
    seconds: float
    waits: list[float]


async def burst(client: ApiClient, watch: Watch, image: str, *, count: int) -> Burst:
    """Run `count` no-op containers at once. Raises RuntimeError when one of them has not saved what
    it should.
    """
    began = time.time()
    uuids = await submit_batch(
        client,
        [request_body(image, ["sh", "-c", SCRIPT, str(number)]) for number in range(count)],
    )
    submitted = time.time() - began
    ends = [await watch.end(uuid) for uuid in uuids]
    outcomes = await _inspect_all(client, uuids, ends)
    for number, outcome in enumerate(outcomes):
        _check(outcome, str(number))
    waits = [outcome.heard - outcome.queued for outcome in outcomes]
    return Burst(submitted=submitted, seconds=max(ends) - began, waits=waits)


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
