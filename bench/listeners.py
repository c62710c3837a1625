"""What listeners for events cost each container: processor time of the server for one, with none
who listens, with hundreds of other users on websockets who may not read its events, and with
listeners who read all of them.

With `beside`, the interpreter of another environment, the same is measured with its Lading, in
turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.figures import Figure
from bench.requests import Watch, submit
from bench.service import SERVER_PID, add_image, connected, serving
from lading.client.api import ApiClient

MOST: Final = 1.0
"""Milliseconds of the server for a container that all listeners may cost."""
_USERS: Final = 100
_COMMAND: Final = ["sh", "-c", "date > out"]
_TICK: Final = 1000 / os.sysconf("SC_CLK_TCK")
_MODULE: Final = "lading.wiring.server"
_SUBSCRIBE: Final = '{"method": "subscribe", "filters": []}'
_PATIENCE: Final = 60.0


@dataclass
class _Side:
    """One Lading: its label, a client, tokens of users who may read nothing, and milliseconds by
    number of listeners, and whether they read the events.
    """

    label: str
    client: ApiClient
    watch: Watch
    image: str
    server: int
    tokens: Sequence[str] = ()
    taken: dict[tuple[int, bool], list[float]] = field(
        default_factory=dict[tuple[int, bool], list[float]]
    )


def measure(
    *,
    listeners: Sequence[int],
    readers: Sequence[int],
    containers: int,
    rounds: int,
    beside: str,
) -> list[Figure]:
    """The figures with each number of listeners who may not read the events, and of `readers`."""
    counts = [(0, False), *((count, False) for count in listeners)]
    counts += [(count, True) for count in readers]
    return asyncio.run(_measure(counts, containers, rounds, beside))


async def _measure(
    counts: Sequence[tuple[int, bool]], containers: int, rounds: int, beside: str
) -> list[Figure]:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        sides = []
        for label, python in (("", sys.executable), ("before, ", beside)):
            if python:
                (folder / (label or "this")).mkdir()
                data = folder / (label or "this") / "data"
                found = stack.enter_context(serving(data, python=python))
                sides.append(await _opened(stack, label, found))
        for _ in range(rounds):
            for count in counts:
                for side in sides:
                    side.taken.setdefault(count, []).append(await _round(side, *count, containers))
    return [figure for side in sides for figure in _figures(side)]


async def _opened(
    stack: contextlib.AsyncExitStack, label: str, environment: dict[str, str]
) -> _Side:
    image = await asyncio.to_thread(add_image, environment)
    client = await stack.enter_async_context(connected(environment))
    watch = Watch(client)
    follower = asyncio.create_task(watch.follow())
    stack.callback(follower.cancel)
    await watch.listening.wait()
    side = _Side(label, client, watch, image, _server(int(environment[SERVER_PID])))
    side.tokens = [await _user(client, number) for number in range(_USERS)]
    return side


async def _user(client: ApiClient, number: int) -> str:
    """A user who can read nothing of others; the token."""
    name = f"listener{number}"
    user = await client.create(
        "users", {"username": name, "email": f"{name}@example.org", "is_active": True}
    )
    token = await client.create("api_client_authorizations", {"owner_uuid": user["uuid"]})
    return f"v2/{token['uuid']}/{token['api_token']}"


async def _round(side: _Side, count: int, may_read: bool, containers: int) -> float:
    """Milliseconds of the server for a container, with so many listeners."""
    async with contextlib.AsyncExitStack() as stack:
        for number in range(count):
            token = side.client.token if may_read else side.tokens[number % _USERS]
            headers = {"Authorization": f"Bearer {token}"}
            listener = await stack.enter_async_context(
                side.client.transport.websocket("/websocket", headers=headers)
            )
            await listener.send(_SUBSCRIBE)
            answer = await listener.receive(_PATIENCE)
            if json.loads(answer or "{}") != {"status": 200}:
                raise RuntimeError(f"no subscription: {answer}")
        # What the handshakes have left.
        await asyncio.sleep(1)
        before = _processor(side.server)
        for _ in range(containers):
            await side.watch.end(
                await submit(side.client, side.image, _COMMAND, use_existing=False)
            )
        await asyncio.sleep(0.3)
        return (_processor(side.server) - before) / containers


def _figures(side: _Side) -> list[Figure]:
    none = statistics.median(side.taken[0, False])
    figures = []
    for (count, may_read), taken in side.taken.items():
        median = statistics.median(taken)
        more = median - none
        is_promised = count and not may_read
        figures.append(
            Figure(
                name=f"{side.label}server for a container, {count:,} listeners"
                + (" who read all" if may_read else ""),
                unit="ms",
                count=len(taken),
                p50=median,
                target=f"{MOST:g} ms more than with none" if is_promised else "",
                met=more <= MOST if is_promised else None,
                note=f"{more:+.2f} ms" if count else "",
            )
        )
    return figures


def _server(parent: int) -> int:
    """The process of the server below `lading up`."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (folder / "status").read_text()
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if f"PPid:\t{parent}\n" in status and _MODULE in words:
                return int(folder.name)
    raise RuntimeError(f"no server below process {parent}")


def _processor(process: int) -> float:
    """Milliseconds of processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    # utime and stime, the 14th and 15th field of the whole line.
    return (int(fields[11]) + int(fields[12])) * _TICK
