"""Where the time of one container goes, step by step, by what it left: its record, its log, and its
own words.

The container runs `date +%s%N`, so that it says itself when its command began. All times are on the
clock of this machine: of the server (created), of the supervisor (the lines of crunch-run.txt), of
the command, and of the client, who sent the request and heard of its end. The figure of a step is
the median over all containers.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from bench.figures import Figure, percentile
from bench.latency import COMMAND
from bench.requests import Outcome, Watch, inspect, lines_of, submit
from bench.service import add_image, connected, serving
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.core.quantities import parse_time

_WARM_UP = 5
_LOG = "crunch-run.txt"
STEPS = (
    ("sent", ""),
    ("created", "the server commits request and container, and tells the dispatcher"),
    ("begun", "the dispatcher plans, locks and has a supervisor forked, which begins its log"),
    ("known", "the supervisor reads the record and the container's token"),
    (
        "prepared",
        (
            "mounts, image layers, the bundle; crun goes as far as the command; "
            "the record becomes Running"
        ),
    ),
    ("command", "the command is let go, and begins"),
    ("ended", "the command ends, and crun with it; its streams are read to the end"),
    (
        "heard",
        (
            "output and log are stored, durably; the record becomes Complete, the request Final; "
            "the client hears"
        ),
    ),
)
"""The moments in their order, each with what happens until then."""


def measure(*, count: int) -> list[Figure]:
    """A row for each step, and the whole. Raises RuntimeError when a container did not end as it
    should.
    """
    with (
        tempfile.TemporaryDirectory(prefix="lading-bench-") as folder,
        serving(Path(folder) / "data") as environment,
    ):
        traces = asyncio.run(_trace(environment, count))
    rows = []
    for (before, _), (moment, what) in pairwise(STEPS):
        spans = [trace[moment] - trace[before] for trace in traces]
        rows.append(_row(what, spans))
    return [
        *rows,
        _row(
            "from the request until its end is heard",
            [one["heard"] - one["sent"] for one in traces],
        ),
    ]


def _row(name: str, spans: Sequence[float]) -> Figure:
    half, most = (percentile(spans, share) * 1000 for share in (0.5, 0.99))
    return Figure(name=name, unit="ms", count=len(spans), p50=half, p99=most)


async def _trace(environment: dict[str, str], count: int) -> list[dict[str, float]]:
    image = await asyncio.to_thread(add_image, environment)
    async with connected(environment) as client:
        watch = Watch(client)
        following = asyncio.create_task(watch.follow())
        await watch.listening.wait()
        traces = [await _one(client, watch, image) for _ in range(_WARM_UP + count)]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return traces[_WARM_UP:]


async def _one(client: ApiClient, watch: Watch, image: str) -> dict[str, float]:
    sent = time.time()
    uuid = await submit(client, image, COMMAND)
    heard = await watch.end(uuid)
    outcome = await inspect(client, BlockClient(client.transport, client.token), uuid, heard=heard)
    return {"sent": sent, "heard": heard, **moments(outcome)}


def moments(outcome: Outcome) -> dict[str, float]:
    """When what happened to a container, in seconds since 1970. Raises RuntimeError when its log
    does not say it.
    """
    said = [line.partition(" ") for line in outcome.log.get(_LOG, "").splitlines()]
    printed = lines_of(outcome, "stdout.txt")

    def when(words: str) -> float:
        for stamp, _, text in said:
            if text.startswith(words):
                return parse_time(stamp).timestamp()
        raise RuntimeError(
            f"the saved log has no line that begins with {words!r}; "
            f"it has {[one[2] for one in said]}"
        )

    if not said or len(printed) != 1:
        raise RuntimeError(
            f"the saved log lacks what the container printed; it has {sorted(outcome.log)}"
        )
    return {
        "created": outcome.queued,
        "begun": parse_time(said[0][0]).timestamp(),
        "known": when("image "),
        "prepared": when("starting the command"),
        "command": int(printed[0]) / 1e9,
        "ended": when("the command ended"),
    }
