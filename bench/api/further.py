"""What happens beside single calls: the cascade of priorities, previews, listeners on events, roles
of a thousand.

No promises but one: taking a role away from a thousand members takes 50 ms at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed

from bench.api.http import Run, drive, get, linked, metered, post
from bench.api.places import Place
from bench.api.process import Server
from bench.api.sample import INPUTS, LOCKERS, Site, body
from bench.api.sample import name as sample_name
from bench.figures import Figure, calls, durations
from lading.core import ids
from lading.core.records.permissions import NAMES, Level
from lading.core.records.record_types import GROUPS, LINKS
from lading.core.records.record_types import USERS as USER_TYPE
from lading.store import permission_queries, records
from lading.store.database import Database, Transaction

_REQUESTS: Final = "/arvados/v1/container_requests"
_CONTAINERS: Final = "/arvados/v1/containers"
_FRESH: Final = 20_000_000
_CHILDREN: Final = 200
_LISTENERS: Final = 10
MEMBERS: Final = 1000


async def further(place: Place, server: Server, *, count: int) -> list[Figure]:
    """All of them."""
    return [
        await _preview(place, server, count),
        *await _cascade(place, server),
        *await _listened(place, server, count=20 * count),
        *await _roles(place),
    ]


async def _preview(place: Place, server: Server, count: int) -> Figure:
    bodies = [body(sample_name(_FRESH + one), one % INPUTS) for one in range(count)]
    asked = [post(f"{_REQUESTS}/preview", place.site.token("alice"), one) for one in bodies]
    return calls("preview of something new", await drive(server, asked, connections=1))


async def _cascade(place: Place, server: Server) -> list[Figure]:
    """A running container with two hundred requests of its own: its priority changes, and so do
    theirs.
    """
    admin, locker = place.directory.secrets().admin_token, place.site.token("locker 0")
    parent = await _one(server, post(_REQUESTS, place.site.token("alice"), _fresh(0)))
    uuid = parent["container_uuid"]
    await _one(server, post(f"{_CONTAINERS}/{uuid}/lock", locker))
    await _one(server, post(f"{_CONTAINERS}/{uuid}", locker, {"state": "Running"}, method="PUT"))
    given = {"requesting_container_uuid": uuid, "owner_uuid": place.site.alice}
    asked = [post(_REQUESTS, admin, _fresh(1 + one, **given)) for one in range(_CHILDREN)]
    children = await drive(server, asked, connections=8)
    path = f"{_REQUESTS}/{parent['uuid']}"
    changes = [
        post(
            path,
            place.site.token("alice"),
            {"container_request": {"priority": 400 + one}},
            method="PUT",
        )
        for one in range(20)
    ]
    changed = await drive(server, changes, connections=1)
    child = await _one(
        server, get(f"{_CONTAINERS}/{children.replies[0].json()['container_uuid']}", admin)
    )
    if child["priority"] <= 0:
        raise RuntimeError("the priority of a child did not follow")
    return [
        calls("create and commit as a child of a running container", children),
        calls(f"change of priority that {_CHILDREN} children follow", changed),
    ]


async def _listened(place: Place, server: Server, *, count: int) -> list[Figure]:
    """Commits while nobody listens, and while dispatchers and users do: each hears of all that it
    may read.
    """
    figures = []
    for part, who in enumerate(("nobody", f"{_LISTENERS} dispatchers", f"{_LISTENERS} users")):
        # A container and a request are made, and a decision is noted; dispatchers hear of
        # containers.
        changes = count * (1 if part == 1 else 3)
        holders = [
            f"locker {one % LOCKERS}" if part == 1 else "alice"
            for one in range(_LISTENERS * bool(part))
        ]
        bodies = [_fresh((part + 1) * 100_000 + one) for one in range(count)]
        async with _hearing(server, [place.site.token(one) for one in holders]) as heard:
            asked = [post(_REQUESTS, place.site.token("alice"), one) for one in bodies]
            run = await drive(server, asked, connections=16)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while any(one < changes for one in heard):
                        await asyncio.sleep(0.01)
        kept = sum(one == changes for one in heard)
        note = (
            f"{kept} heard of all {changes} changes; who did not keep up is told to list anew"
            if heard
            else ""
        )
        figures.append(calls(f"create and commit, {who} listening", run, note=note))
    return figures


@contextlib.asynccontextmanager
async def _hearing(server: Server, tokens: list[str]) -> AsyncIterator[list[int]]:
    """Listeners, and how many events each has heard."""
    heard = [0] * len(tokens)

    async def listen(number: int, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in socket:
                heard[number] += b"event_type" in (
                    message if isinstance(message, bytes) else message.encode()
                )

    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        listening = []
        for number, token in enumerate(tokens):
            uri = f"ws://bench/websocket?api_token={token}"
            socket = await stack.enter_async_context(unix_connect(str(server.socket), uri))
            await socket.send('{"method":"subscribe"}')
            await socket.recv()
            listening.append(tasks.create_task(listen(number, socket)))
        yield heard
        for one in listening:
            one.cancel()


async def _roles(place: Place) -> list[Figure]:
    """A role with a thousand members is made a member of another, and is not any more, in a
    database of its own.
    """
    times: dict[str, list[float]] = {"gained": [], "lost": []}
    async with place.scratch() as database:
        site = Site("bench")
        async with database.writing() as tx:
            ends = await _members(tx, site)
        for _ in range(20):
            times["gained"].append(await _timed(database, ends, made=True))
            times["lost"].append(await _timed(database, ends, made=False))
    return [
        durations(
            f"{MEMBERS} members of a role {what} another",
            seconds,
            p50_limit=50.0 if what == "lost" else None,
        )
        for what, seconds in times.items()
    ]


async def _members(tx: Transaction, site: Site) -> dict[str, str]:
    system = ids.system_user(site.cluster)
    role, other = (site.uuid(GROUPS.infix, one) for one in ("role", "other"))
    for uuid in (role, other):
        group = {"uuid": uuid, "owner_uuid": system, "name": uuid, "group_class": "role"}
        await records.insert(tx, GROUPS, group)
        await permission_queries.follow_insert(tx, GROUPS, group)
    for number in range(MEMBERS):
        user = {"uuid": site.user(number), "owner_uuid": system}
        await records.insert(tx, USER_TYPE, user)
        await permission_queries.follow_insert(tx, USER_TYPE, user)
        link = _link(site, site.user(number), role)
        await records.insert(tx, LINKS, link)
        await permission_queries.follow_insert(tx, LINKS, link)
    return _link(site, role, other)


def _link(site: Site, tail: str, head: str) -> dict[str, str]:
    ends = {
        "tail_uuid": tail,
        "head_uuid": head,
        "link_class": permission_queries.PERMISSION,
        "name": NAMES[Level.READ],
    }
    return {
        "uuid": site.uuid(LINKS.infix, tail, head),
        "owner_uuid": ids.system_user(site.cluster),
        **ends,
    }


async def _timed(database: Database, link: dict[str, str], *, made: bool) -> float:
    began = time.perf_counter()
    async with database.writing() as tx:
        if made:
            await records.insert(tx, LINKS, link)
            await permission_queries.follow_insert(tx, LINKS, link)
        else:
            await records.delete(tx, LINKS, link["uuid"])
            await permission_queries.follow_removal(tx, LINKS, link)
    return time.perf_counter() - began


async def _one(server: Server, request: bytes) -> dict[str, Any]:
    run = Run()
    async with linked(server.socket, 1) as links:
        with metered(server, run):
            run.replies.append(await links[0].call(request))
    for reply in run.answers(200):
        return dict(reply.json())
    raise RuntimeError("not answered")


def _fresh(number: int, **more: object) -> dict[str, Any]:
    return body(
        sample_name(_FRESH + 1_000_000 + number), number % INPUTS, use_existing=False, **more
    )
