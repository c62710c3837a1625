"""How long one container waits: Queued to user code, and Queued to Complete, one at a time.

User code says itself when it began: the container runs `date +%s%N` and the saved log has what it
printed. Queued is the record's creation time, Complete is when a client has heard of it; all three
are on the clock of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.daemon_floor import DaemonFloor
from bench.figures import Figure, durations
from bench.requests import Outcome, Watch, inspect, lines_of, submit
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient

COMMAND = ["date", "+%s%N"]
P50_LIMIT = 12.0
P99_LIMIT = 25.0
END_P50_LIMITS = {"docker": 1000.0, "podman": 1000.0}
"""Milliseconds until the end of a container whose daemon takes most of them; others have no such
promise.
"""
_WARM_UP = 5


async def singles(
    client: ApiClient, watch: Watch, image: str, *, count: int, floor: DaemonFloor | None = None
) -> tuple[list[float], list[float]]:
    """Seconds from Queued to user code, and until the end is heard, of `count` containers one at a
    time, after some that warm up caches and do not count.

    `floor`: the engine's daemon, whose own containers are measured in turns with these.
    """
    blocks = BlockClient(client.transport, client.token)
    starts, ends = [], []
    for number in range(_WARM_UP + count):
        uuid = await submit(client, image, COMMAND)
        outcome = await inspect(client, blocks, uuid, heard=await watch.end(uuid))
        if number >= _WARM_UP:
            starts.append(user_code(outcome) - outcome.queued)
            ends.append(outcome.heard - outcome.queued)
        if floor is not None:
            await floor.measure(counted=number >= _WARM_UP)
    return starts, ends


def figures(starts: Sequence[float], ends: Sequence[float], *, engine: str) -> list[Figure]:
    """The rows of both, with the promises for an engine."""
    has_daemon = engine in END_P50_LIMITS
    note = "log and output saved, end heard by a client"
    return [
        durations(
            "Queued to user code, one at a time",
            starts,
            p50_limit=None if has_daemon else P50_LIMIT,
            p99_limit=None if has_daemon else P99_LIMIT,
        ),
        durations(
            "Queued to Complete, one at a time",
            ends,
            p50_limit=END_P50_LIMITS.get(engine),
            note=note,
        ),
    ]


def user_code(outcome: Outcome) -> float:
    """When the container says that it ran. Raises RuntimeError when its saved log does not say
    it.
    """
    printed = lines_of(outcome, "stdout.txt")
    if len(printed) != 1 or not printed[0].isdigit():
        raise RuntimeError(f"the saved log lacks what the container printed; it has {outcome.log}")
    return int(printed[0]) / 1e9
