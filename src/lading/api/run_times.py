"""How long containers of a tool run: kept at the end of each that succeeded, found for later ones.

A container gets the run time of its tool among its scheduling parameters when it is made.
Dispatchers plan with it: deadlines, preemptible machines, and who may pass whom. The decisions are
those of `core.scheduling.expected_times`, the rows are in `store.run_times`.
"""

from __future__ import annotations

from dataclasses import replace

from lading.api.unit import Unit
from lading.core.containers.container import Container, has_succeeded
from lading.core.containers.mounting import mount_resolution
from lading.core.containers.recipe import Recipe
from lading.core.quantities import parse_time
from lading.core.scheduling import expected_times
from lading.core.scheduling.expected_times import RunTime, Tool
from lading.store import learned as lessons
from lading.store import run_times
from lading.store.database import Transaction


async def tool_of(tx: Transaction, of: Container | Recipe) -> Tool:
    """The tool of a container or recipe, with the size of its inputs."""
    hashes = dict.fromkeys(mount_resolution.named_hashes(of.mounts))
    return expected_times.tool_of(of, await lessons.input_size(tx, hashes) if hashes else 0)


async def learn(unit: Unit, ended: Container) -> None:
    """Keep the run time of a container that succeeded."""
    if not has_succeeded(ended) or not ended.started_at or not ended.finished_at:
        return
    taken = parse_time(ended.finished_at) - parse_time(ended.started_at)
    tool = await tool_of(unit.tx, ended)
    await run_times.keep(unit.tx, tool, taken.total_seconds(), now=unit.now)


async def run_time_of(
    tx: Transaction, of: Container | Recipe, *, user_uuid: str | None = None
) -> RunTime | None:
    """The run time of the tool of a container or recipe, in runs of its user or of another one;
    None if it has not run yet.
    """
    tool = await tool_of(tx, of)
    tool = replace(tool, user_uuid=user_uuid or tool.user_uuid)
    return expected_times.run_time(await run_times.find(tx, tool))
