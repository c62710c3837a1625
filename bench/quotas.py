"""What quotas cost with 100,000 requests of 200 users that wait: the same queue with a quota for
each user and without, measured in turns.

- The queue is read and planned as a dispatcher does, for a machine that takes some of it.
- One more request is committed, and the first container is locked, run and ended.

Both run in this process, without a network, so that the shares are those of the server.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure
from lading.core.quantities import format_time
from lading.core.resources import GIB, Resources
from lading.core.scheduling.batch_planner import plan
from lading.core.scheduling.planning import FleetWorker, Snapshot
from lading.dispatch.queue import Queue
from lading.testing.world import World, world

MOST_SHARE: Final = 1.10
_USERS: Final = 200
# Containers of each user that may run at a time.
_RUNNING: Final = 5
_WINDOW: Final = 1000
_WARM_UP: Final = 3
_MACHINE: Final = FleetWorker("machine", Resources(64, 256 * GIB))


def measure(*, waiting: int, rounds: int) -> list[Figure]:
    """The figures with so many requests that wait."""
    return asyncio.run(_measure(waiting, rounds))


async def _measure(waiting: int, rounds: int) -> list[Figure]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        plain, limited = [
            await stack.enter_async_context(world(made_folder(folder / name)))
            for name in ("plain", "limited")
        ]
        for one in (plain, limited):
            await fill(one, waiting)
        began = time.perf_counter()
        await _limit(limited)
        setting = time.perf_counter() - began
        planned = await in_turns(plan_first, plain, limited, rounds)
        lived = await in_turns(live, plain, limited, rounds)
    users = f"{waiting:,} waiting of {_USERS} users"
    return [
        share(f"plan with quotas, share of without, {users}", planned, MOST_SHARE),
        share(f"commit, lock, run and end with quotas, share of without, {users}", lived, None),
        Figure(
            name=f"set {_USERS} quotas, {waiting:,} waiting", unit="s", count=_USERS, rate=setting
        ),
    ]


def made_folder(folder: Path) -> Path:
    """A new directory."""
    folder.mkdir()
    return folder


def share(name: str, pairs: Sequence[tuple[float, float]], most: float | None) -> Figure:
    """The median of the second of each pair, as a part of that of the first; at most `most`."""
    plain, limited = (statistics.median(one[side] for one in pairs) for side in (0, 1))
    return Figure(
        name=name,
        unit="times",
        count=len(pairs),
        rate=limited / plain,
        target="" if most is None else f"at most {most:.2f}",
        met=None if most is None else limited / plain <= most,
        note=f"{plain * 1000:.2f} ms without, {limited * 1000:.2f} ms with (medians)",
    )


async def in_turns(
    act: Callable[[World], Awaitable[float]], plain: World, limited: World, rounds: int
) -> list[tuple[float, float]]:
    """The seconds of both, in turns; who is first changes."""
    found = []
    for number in range(rounds + _WARM_UP):
        sides = [plain, limited] if number % 2 else [limited, plain]
        seconds = {id(one): await act(one) for one in sides}
        if number >= _WARM_UP:
            found.append((seconds[id(plain)], seconds[id(limited)]))
    return found


async def fill(it: World, waiting: int) -> None:
    """A request of each user, copied in the database so often that `waiting` wait."""
    made = []
    image = await it.ensure_image()
    (stored,) = (
        await it.ok("GET", "collections", params={"filters": [["portable_data_hash", "=", image]]})
    )["items"]
    everybody = f"{it.cluster}-j7d0g-fffffffffffffff"
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": everybody,
        "head_uuid": stored["uuid"],
    }
    await it.ok("POST", "links", link)
    for number in range(_USERS):
        token = await it.user(f"user{number}")
        it.images[token] = image
        made.append((await it.submit("sh", "-c", f"echo {number}", token=token))["uuid"])
    await asyncio.to_thread(_multiply, it, made, waiting)


def _multiply(it: World, templates: Sequence[str], waiting: int) -> None:
    connection = sqlite3.connect(it.root / "db.sqlite")
    connection.row_factory = sqlite3.Row
    for number, uuid in enumerate(templates):
        request = dict(_one(connection, "container_requests", uuid))
        container = dict(_one(connection, "containers", request["container_uuid"]))
        rows = [
            _copy(it, request, container, number + _USERS * again)
            for again in range(1, max(1, waiting // _USERS))
        ]
        for table, side in (("containers", 0), ("container_requests", 1)):
            names = list(rows[0][side]) if rows else []
            marks = ", ".join("?" for _ in names)
            connection.executemany(
                f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})",
                [tuple(one[side].values()) for one in rows],
            )
    connection.commit()
    connection.execute("ANALYZE")
    connection.close()


def _one(connection: sqlite3.Connection, table: str, uuid: str) -> sqlite3.Row:
    sql = f"SELECT * FROM {table} WHERE uuid = ?"
    found: sqlite3.Row = connection.execute(sql, (uuid,)).fetchone()
    return found


def _copy(
    it: World, request: dict[str, Any], container: dict[str, Any], number: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A further request of the same user, and its container; newer by some milliseconds."""
    when = format_time(it.clock.moment + timedelta(milliseconds=number))
    times = {"created_at": when, "modified_at": when}
    uuids = [f"{one['uuid'][:12]}q{number:014d}" for one in (container, request)]
    keys = dict.fromkeys(("reuse_key", "broad_key"), f"{number:064x}")
    return (
        {
            **container,
            **times,
            **keys,
            "uuid": uuids[0],
            "priority": container["priority"] - number,
        },
        {**request, **times, "uuid": uuids[1], "container_uuid": uuids[0]},
    )


async def _limit(it: World) -> None:
    for token in it.tokens.values():
        user = (await it.ok("GET", "users/current", token=token))["uuid"]
        quota = {"subject_uuid": user, "containers": _RUNNING, "vcpus": 64, "ram": 256 * GIB}
        await it.ok("POST", "quotas", {"quota": quota})


async def plan_first(it: World) -> float:
    """Seconds to read the first of the queue and to plan them."""
    began = time.perf_counter()
    queue = Queue(token="")
    found = await it.ok(
        "GET",
        "containers",
        params={
            "filters": [["state", "=", "Queued"], ["priority", ">", 0]],
            "order": ["priority desc", "created_at asc", "uuid asc"],
            "select": list(queue.fields),
            "limit": _WINDOW,
            "count": "none",
        },
        token=it.dispatcher,
    )
    queue.merge(found["items"], ticket=queue.ticket(), now=0.0)
    decided = plan(Snapshot(queue=queue.entries(), workers=(_MACHINE,)))
    seconds = time.perf_counter() - began
    if not decided.starts:
        raise RuntimeError("nothing was planned, so nothing was measured")
    return seconds


async def live(it: World) -> float:
    """Seconds for one more request, and for the whole life of the first container."""
    (first,) = (
        await it.ok(
            "GET",
            "containers",
            params={
                "filters": [["state", "=", "Queued"], ["priority", ">", 0]],
                "order": ["priority desc"],
                "select": ["uuid"],
                "limit": 1,
                "count": "none",
            },
            token=it.dispatcher,
        )
    )["items"]
    it.clock.advance(1)
    spec = await it.spec(str(it.clock.moment), token=it.tokens["user0"])
    began = time.perf_counter()
    await it.ok("POST", "container_requests", spec, token=it.tokens["user0"])
    await it.run(first["uuid"])
    return time.perf_counter() - began
