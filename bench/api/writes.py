"""Commits without and with reuse, and locks that twenty compete for."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from bench.api.http import Link, Run, drive, get, linked, metered, post
from bench.api.places import Place
from bench.api.process import Server
from bench.api.sample import INPUTS, LOCKERS, body
from bench.api.sample import name as sample_name
from bench.api.templates import usable
from bench.figures import Figure, calls

_REQUESTS: Final = "/arvados/v1/container_requests"
_CONTAINERS: Final = "/arvados/v1/containers"
_FRESH: Final = 5_000_000
"""Samples from this number on are not in the database."""
_LEAST: Final = {"sqlite": 800.0, "postgresql": 400.0}


async def create(place: Place, server: Server, *, count: int) -> list[Figure]:
    """Requests that are committed as they are made: first without a look for earlier work, then
    with one.
    """
    token, figures = place.site.token("alice"), []
    for number, (what, use_existing) in enumerate(
        (("not sought", False), ("sought, none found", True))
    ):
        bodies = (
            body(
                sample_name(_FRESH + number * count + one), one % INPUTS, use_existing=use_existing
            )
            for one in range(count)
        )
        requests = [post(_REQUESTS, token, {"container_request": one}) for one in bodies]
        run = await drive(server, requests, connections=16)
        for reply in run.replies:
            made = reply.json()
            if made["state"] != "Committed" or not made["container_uuid"]:
                raise RuntimeError(f"not committed: {made}")
        figures.append(calls(f"create and commit, reuse {what}", run, least=_LEAST[place.name]))
    return figures


async def reuse(place: Place, server: Server, *, count: int) -> list[Figure]:
    """Requests whose work was done before, by any of the filled containers."""
    token, draw = place.site.token("alice"), random.Random(1)
    numbers = (
        number for number in iter(lambda: draw.randrange(place.count), None) if usable(number)
    )
    bodies = (
        body(sample_name(number), number % INPUTS)
        for number, _ in zip(numbers, range(count), strict=False)
    )
    run = await drive(
        server,
        [post(_REQUESTS, token, {"container_request": one}) for one in bodies],
        connections=4,
    )
    for reply in run.replies:
        made = reply.json()
        if made["state"] != "Final" or not made["output_uuid"] or not made["log_uuid"]:
            raise RuntimeError(f"not reused: {made}")
    name = f"commit satisfied by reuse, of {place.count:,} containers"
    return [calls(name, run, least=500.0, p99_limit=15.0)]


async def lock(place: Place, server: Server, *, count: int) -> list[Figure]:
    """Twenty dispatchers lock what waits, each in an order of its own, leaving out what others were
    heard to have.

    Then all of them lock the same containers at the same time. Raises RuntimeError when one was
    locked twice.
    """
    token, draw = place.site.token("alice"), random.Random(2)
    tokens = [place.site.token(f"locker {number}") for number in range(LOCKERS)]
    bodies = (
        body(sample_name(2 * _FRESH + one), one % INPUTS, use_existing=False)
        for one in range(count + 100)
    )
    made = await drive(server, [post(_REQUESTS, token, one) for one in bodies], connections=16)
    uuids = [str(reply.json()["container_uuid"]) for reply in made.replies]
    queue, contested = uuids[:count], uuids[count:]
    taken: Counter[str] = Counter()
    run = Run()

    def order() -> Iterator[str]:
        for uuid in draw.sample(queue, len(queue)):
            if uuid not in taken:
                yield uuid

    async def locker(link: Link, token: str, uuids: Iterator[str]) -> None:
        for uuid in uuids:
            began = time.perf_counter()
            reply = await link.call(post(f"{_CONTAINERS}/{uuid}/lock", token))
            run.latencies.append(time.perf_counter() - began)
            run.replies.append(reply)
            taken[uuid] += reply.status == 200

    async with linked(server.socket, LOCKERS) as links:
        with metered(server, run):
            await asyncio.gather(
                *(
                    locker(*one)
                    for one in zip(links, tokens, (order() for _ in tokens), strict=True)
                )
            )
        won, lost = sum(taken.values()), run.count - sum(taken.values())
        await asyncio.gather(
            *(
                locker(*one)
                for one in zip(links, tokens, map(iter, [contested] * LOCKERS), strict=True)
            )
        )
    for _ in run.answers(200, 422):
        pass
    twice = [uuid for uuid in uuids if taken[uuid] != 1]
    if twice:
        raise RuntimeError(
            f"{len(twice)} containers have not one winner, such as {twice[0]}: {taken[twice[0]]}"
        )
    locked = await drive(
        server,
        [get(f"{_CONTAINERS}/{one}", tokens[0]) for one in draw.sample(uuids, 50)],
        connections=4,
    )
    if any(reply.json()["state"] != "Locked" for reply in locked.replies):
        raise RuntimeError("a container whose lock was acknowledged is not Locked")
    run.latencies, run.replies = run.latencies[: won + lost], run.replies[: won + lost]
    note = (
        f"{won} locked by {LOCKERS}, {lost} attempts came second; "
        "then 100 wanted by all at once: one winner each"
    )
    return [calls("lock", run, least=1000.0, done=won, note=note)]
