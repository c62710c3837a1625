"""What `lading trace` and `lading export` cost for large graphs, each in a process of its own.

The graphs are written into the database; the server is a thread of this process, so that its time
is in the wall time alone.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from bench.figures import Figure
from tests.cli.apart import Cost, run_apart
from tests.cli.site import Site
from tests.lineage_graphs import Graph, fill_graph

_TRACE: Final = 1.0
"""Seconds of processor time of the command for 10,000 nodes."""
_EXPORT: Final = 10.0
"""Seconds for a crate of 1,000 steps."""
_MEMORY: Final = 100.0
"""Megabytes for it."""


def measure(*, nodes: int, steps: int) -> list[Figure]:
    """The figures of a graph of so many nodes, and of a crate of so many steps."""
    with tempfile.TemporaryDirectory(prefix="lading-bench-") as folder:
        work = Path(folder)
        with Site(work) as site:
            graph = _fill(site, nodes // 2, "b")
            figures = [
                figure
                for name, words in _WAYS.items()
                for figure in _trace(site, graph, name, words, nodes)
            ]
            crate = _fill(site, steps, "c")
            place = str(work / "crate.zip")
            cost = run_apart(site, "export", crate.request, "--tree", "-o", place)
    export = f"export of {steps:,} steps"
    return [
        *figures,
        _seconds(f"{export}, wall time", cost.wall, _EXPORT, cost),
        _seconds(f"{export}, processor time", cost.processor, 0.0, cost),
        Figure(
            name=f"{export}, memory",
            unit="MB",
            count=1,
            rate=cost.peak / 1e6,
            target=f"<= {_MEMORY:g} MB",
            met=cost.peak / 1e6 <= _MEMORY,
        ),
    ]


_WAYS: Final = {
    "trace": (),
    "trace --json": ("--json",),
    "trace --each": ("--each",),
    "trace --format svg": ("--format", "svg"),
}


def _trace(site: Site, graph: Graph, name: str, words: tuple[str, ...], nodes: int) -> list[Figure]:
    cost = run_apart(site, "trace", *words, graph.request)
    title = f"{name}, {nodes:,} nodes"
    return [
        _seconds(f"{title}, processor time", cost.processor, _TRACE, cost),
        _seconds(f"{title}, wall time", cost.wall, 0.0, cost),
    ]


def _fill(site: Site, steps: int, mark: str) -> Graph:
    filling = fill_graph(site.world, steps, mark=mark)
    return asyncio.run_coroutine_threadsafe(filling, site.loop).result(600)


def _seconds(name: str, value: float, limit: float, cost: Cost) -> Figure:
    return Figure(
        name=name,
        unit="commands",
        count=1,
        p50=value * 1000,
        target=f"<= {limit:g} s" if limit else "",
        met=value <= limit if limit else None,
        note=f"{cost.calls} calls",
    )
