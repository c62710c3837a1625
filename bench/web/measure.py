"""All measurements of the page on one database after another."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Coroutine
from typing import Final

import uvloop

from bench.api.places import Place, has_postgres, postgres_place, sqlite_place
from bench.api.process import CLIENT_CORE, Server, api, on_core
from bench.figures import Figure, absent
from bench.web.browser import measure as measure_paints
from bench.web.browser import measure_live
from bench.web.lists import measure as measure_lists
from bench.web.open_pages import measure as measure_pages
from bench.web.open_pages import measure_users

Part = Callable[[Place, Server], Coroutine[None, None, list[Figure]]]
PARTS: Final[dict[str, Part]] = {
    "lists": measure_lists,
    "browser": measure_paints,
    "live": measure_live,
    "pages": measure_pages,
    "users": measure_users,
}


def measure(
    *, count: int, databases: Collection[str], parts: Collection[str] = tuple(PARTS)
) -> list[Figure]:
    """Figures of each database with `count` finished requests."""
    figures: list[Figure] = []
    if "sqlite" in databases:
        with sqlite_place(count) as place:
            figures += _measured(place, parts)
    if "postgresql" in databases and not has_postgres():
        figures.append(absent("postgresql", "is not installed (Debian package postgresql)"))
    elif "postgresql" in databases:
        with postgres_place(count) as place:
            figures += _measured(place, parts)
    return figures


def _measured(place: Place, parts: Collection[str]) -> list[Figure]:
    figures: list[Figure] = []
    place.warm()
    for part in parts:
        # A server of its own: what one part has used of memory is not that of the next.
        with api(place) as server, on_core(CLIENT_CORE):
            figures += _run(PARTS[part](place, server))
    place.sweep()
    return [dataclasses.replace(one, name=f"{place.name}: {one.name}") for one in figures]


def _run(work: Coroutine[None, None, list[Figure]]) -> list[Figure]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
