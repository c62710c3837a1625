"""`lading trace` and `lading export` of thousands of steps: few calls, little memory, all of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.cli.apart import run_apart
from tests.cli.site import Site
from tests.lineage_graphs import Graph, fill_graph

STEPS = 5000


def fill(site: Site, steps: int, mark: str) -> Graph:
    """A graph in the database of a site."""
    filling = fill_graph(site.world, steps, mark=mark)
    return asyncio.run_coroutine_threadsafe(filling, site.loop).result(300)


def test_ten_thousand_nodes(site: Site) -> None:
    graph = fill(site, STEPS, "b")
    cost = run_apart(site, "trace", "--json", graph.request)
    found = json.loads(cost.stdout)
    assert found["complete"]
    # Each step, what it has made, and the image.
    assert len(found["nodes"]) == 2 * STEPS + 1
    # The request, its container, both ways, and the names of nothing else.
    assert cost.calls <= 5
    lines = run_apart(site, "trace", graph.request).stdout.splitlines()
    # Fifty steps and what each of them has made, once; every other line names one of them again.
    assert sum("(see above)" not in line for line in lines) >= 100


def test_a_crate_of_a_thousand_steps_needs_little_memory(site: Site, tmp_path: Path) -> None:
    graph = fill(site, 1000, "c")
    place = tmp_path / "crate.zip"
    cost = run_apart(site, "export", graph.request, "--tree", "--json", "-o", str(place))
    assert json.loads(cost.stdout)["requests"] == 1000
    # Megabytes: the interpreter and its libraries are half of it.
    assert cost.peak < 100e6
