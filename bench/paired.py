"""`python -m bench.paired CHECKOUT`: this checkout beside another one, in turns, so that both see
the same machine.

A `lading up` of each checkout runs all the time. One container of this one follows one of the
other, in an order that changes; then bursts of containers, also in turns. The table has the shares
of this checkout in the figures of the other one. A checkout needs an environment of its own in
`.venv` (`scripts/setup.sh`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench.engines import ENGINES, configured
from bench.figures import percentile
from bench.latency import COMMAND
from bench.requests import Watch, inspect, submit
from bench.service import SERVER_PID, add_image, connected, serving
from bench.steps import STEPS, moments
from bench.throughput import SCRIPT
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient

_WARM_UP = 10
_TICK = 1000 / os.sysconf("SC_CLK_TCK")
# An upper bound of the parts of a server that a container may start.
_ROUNDS_OF_CHILDREN = 20


@dataclass
class Side:
    """One checkout: its server and what was measured; durations in milliseconds."""

    name: str
    client: ApiClient
    watch: Watch
    image: str
    server: int
    traces: list[dict[str, float]] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def main() -> int:
    """Measure both sides; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.paired", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument(
        "checkout", type=Path, help="the other checkout, with its environment in .venv"
    )
    parser.add_argument(
        "--containers", type=int, default=200, help="containers of each side, one at a time"
    )
    parser.add_argument("--bursts", type=int, default=8, help="bursts of each side")
    parser.add_argument("--burst", type=int, default=60, help="containers of a burst")
    parser.add_argument(
        "--config", default="", help="configuration file of this checkout's server, as JSON"
    )
    parser.add_argument(
        "--engine", choices=ENGINES, default="auto", help="what runs the containers"
    )
    options = parser.parse_args()
    other = options.checkout / ".venv/bin/python"
    if not other.exists():
        print(
            f"{other} does not exist; run scripts/setup.sh test in {options.checkout}",
            file=sys.stderr,
        )
        return 2
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        environments, images = [], []
        for name, python in (("other", str(other)), ("this", sys.executable)):
            config = stack.enter_context(configured(options.engine))
            (work / name).mkdir()
            if name == "this":
                config = options.config or config
            served = serving(work / name / "data", config=config, python=python)
            environment = stack.enter_context(served)
            environments.append(environment)
            images.append(add_image(environment, python=python))
        asyncio.run(_measure(environments, images, options))
    return 0


async def _measure(
    environments: Sequence[dict[str, str]], images: Sequence[str], options: argparse.Namespace
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        sides: list[Side] = []
        followers = []
        names = ("other", "this")
        for name, environment, image in zip(names, environments, images, strict=True):
            client = await stack.enter_async_context(connected(environment))
            watch = Watch(client)
            followers.append(asyncio.create_task(watch.follow()))
            await watch.listening.wait()
            sides.append(Side(name, client, watch, image, int(environment[SERVER_PID])))
        for number in range(_WARM_UP + options.containers):
            for side in sides if number % 2 else reversed(sides):
                await _one(side, counted=number >= _WARM_UP)
        for number in range(options.bursts):
            for side in sides if number % 2 else reversed(sides):
                await _burst(side, options.burst)
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
    print("\n".join(_table(*sides)))


async def _one(side: Side, *, counted: bool) -> None:
    uuid = await submit(side.client, side.image, COMMAND)
    blocks = BlockClient(side.client.transport, side.client.token)
    outcome = await inspect(side.client, blocks, uuid, heard=await side.watch.end(uuid))
    if counted:
        side.traces.append({**moments(outcome), "heard": outcome.heard})


async def _burst(side: Side, count: int) -> None:
    used, began = processor_time(side.server), time.time()
    submitted = [
        submit(side.client, side.image, ["sh", "-c", SCRIPT, str(number)])
        for number in range(count)
    ]
    ends = [await side.watch.end(uuid) for uuid in await asyncio.gather(*submitted)]
    side.rates.append(count / (max(ends) - began))
    # What follows an end still belongs to the burst.
    await asyncio.sleep(0.3)
    side.processor.append((processor_time(side.server) - used) / count)


def processor_time(root: int) -> float:
    """Milliseconds of processor time of a process, all its descendants, and all that they have
    waited for.
    """
    children: dict[int, list[int]] = {}
    times: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
                times[int(entry.name)] = sum(map(int, fields[11:15]))
    total, level = 0, [root]
    for _ in range(_ROUNDS_OF_CHILDREN):
        total += sum(times.get(pid, 0) for pid in level)
        level = [child for pid in level for child in children.get(pid, ())]
    return total * _TICK


def _table(other: Side, this: Side) -> list[str]:
    lines = [f"{'what':80}{'other':>10}{'this':>10}{'share':>8}"]
    for what, first, last in (
        ("Queued to user code", "created", "command"),
        ("Queued to Complete", "created", "heard"),
    ):
        for name, share in (("p10", 0.1), ("p50", 0.5), ("p99", 0.99)):
            lines.append(
                _row(
                    f"{what}, {name} of {len(this.traces)}, ms",
                    *_spans(other, this, first, last, share),
                )
            )
    lines.append("median of each step, ms:")
    for (before, _), (moment, what) in pairwise(STEPS[1:]):
        lines.append(_row(f"  {what}"[:78], *_spans(other, this, before, moment, 0.5)))
    for what, mine, theirs in (
        ("containers a second in a burst, median", this.rates, other.rates),
        ("processor time of a container, median, ms", this.processor, other.processor),
    ):
        if mine:
            lines.append(_row(what, percentile(theirs, 0.5), percentile(mine, 0.5)))
    return lines


def _spans(other: Side, this: Side, first: str, last: str, share: float) -> list[float]:
    sides = (other.traces, this.traces)
    return [
        percentile([one[last] - one[first] for one in traces], share) * 1000 for traces in sides
    ]


def _row(what: str, other: float, this: float) -> str:
    return f"{what:80}{other:10.1f}{this:10.1f}{100 * this / other:7.0f}%"


if __name__ == "__main__":
    sys.exit(main())
