"""WES with many runs: their list and their states, as clients poll them."""

from __future__ import annotations

import asyncio
import functools
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, durations, throughput
from bench.queue import multiply
from bench.service import add_image, connected, serving
from bench.tes import timed
from lading.client.api import ApiClient
from lading.core.wes.mapping import PROPERTY

MOST: Final = 50.0
"""Milliseconds that the list or the state of a run may take (p99)."""
_PREFIX: Final = "/ga4gh/wes/v1/"
# Calls for each figure of the list, and clients that poll at the same time.
_CALLS: Final = 200
_TOGETHER: Final = 8
# What a request of a run has of its form.
_FORM: Final = {"workflow_type": "CWL", "workflow_type_version": "v1.2", "workflow_url": "a.cwl"}


def measure(*, runs: int) -> list[Figure]:
    """The figures with so many runs."""
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        data = Path(folder) / "data"
        with serving(data) as environment:
            template = asyncio.run(_make(environment, add_image(environment)))
        multiply(data / "db.sqlite", template, runs)
        with serving(data) as environment:
            return asyncio.run(_poll(environment, runs))


async def _make(environment: dict[str, str], image: str) -> str:
    """A request that is a run; its uuid."""
    request = {
        "command": ["true"],
        "container_image": image,
        "mounts": {"/out": {"kind": "tmp", "capacity": 0}},
        "output_path": "/out",
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 28},
        "properties": {PROPERTY: _FORM},
        "priority": 1,
        "state": "Committed",
    }
    async with connected(environment) as api:
        return str((await api.create("container_requests", request, select=["uuid"]))["uuid"])


async def _poll(environment: dict[str, str], runs: int) -> list[Figure]:
    async with connected(environment) as api:
        names, pages = await walk(api)
        if len(names) < runs:
            raise RuntimeError(f"the pages of the list have {len(names)} runs of {runs}")
        firsts = [await timed(functools.partial(_call, api, "runs")) for _ in range(_CALLS)]
        calls = [functools.partial(_call, api, f"runs/{name}/status") for name in names]
        states = [await timed(call) for call in calls]
        began = time.perf_counter()
        together = await _several(calls)
        took = time.perf_counter() - began
    of = f"{runs:,} runs of WES"
    return [
        durations(f"each page of 256, {of}", pages, p99_limit=MOST),
        durations(f"first page, {of}", firsts, p99_limit=MOST),
        durations(f"state of a run, {of}", states, p99_limit=MOST),
        durations(f"state of a run, {_TOGETHER} clients, {of}", together, p99_limit=MOST),
        throughput(f"states of runs, {_TOGETHER} clients", len(together), took),
    ]


async def _several(calls: list[functools.partial[Any]]) -> list[float]:
    """The seconds of each call, a few at a time."""
    turn = asyncio.Semaphore(_TOGETHER)

    async def one(call: functools.partial[Any]) -> float:
        async with turn:
            return await timed(call)

    return list(await asyncio.gather(*(one(call) for call in calls)))


async def walk(api: ApiClient) -> tuple[list[str], list[float]]:
    """The runs on all pages of the list, and the seconds of each page."""
    names: list[str] = []
    pages: list[float] = []
    token = ""
    while True:
        began = time.perf_counter()
        page = await _call(api, f"runs?page_token={token}")
        pages.append(time.perf_counter() - began)
        names += [one["run_id"] for one in page["runs"]]
        token = page["next_page_token"]
        if not token:
            return names, pages


async def _call(api: ApiClient, path: str) -> Any:
    return json.loads((await api.raw("GET", _PREFIX + path)).body)
