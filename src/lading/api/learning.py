"""Learns the amounts that containers of a tool needed, and finds them for later ones.

The decisions are those of `core.containers.attempts.learned`; the rows are in `store.learned`. With
`Containers.LearnResources: off` nothing is read or stored. Source: docs/spec/containers, section
Learned amounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lading.api.services import ApiServices
from lading.api.unit import Unit
from lading.core.containers.attempts import learned
from lading.core.containers.attempts.learned import Advice
from lading.core.containers.constraints import Learning
from lading.core.containers.container import Container
from lading.core.containers.mounting import mounts
from lading.core.containers.recipe import Recipe
from lading.core.containers.request import ContainerRequest
from lading.core.values import JsonObject
from lading.store import learned as lessons
from lading.store.database import Transaction


async def learn(
    unit: Unit,
    ended: Container,
    subjects: Iterable[ContainerRequest],
    known: Mapping[str, Container],
) -> None:
    """Keep what the end of a container teaches; `known` has the earlier attempts of its requests
    by uuid.
    """
    if unit.services.policy.learning is Learning.OFF:
        return
    for subject in subjects:
        earlier = [known[uuid] for uuid in subject.attempted_container_uuids if uuid in known]
        lesson = learned.lesson_of(ended, earlier)
        if lesson is not None:
            size = await _input_size(unit.tx, ended.mounts)
            await lessons.keep(unit.tx, learned.tool_of(ended, size), lesson, now=unit.now)


async def advise(tx: Transaction, services: ApiServices, made_of: Recipe) -> Advice | None:
    """The advice for a new container; None without one."""
    learning = services.policy.learning
    if learning is Learning.OFF:
        return None
    tool = learned.tool_of(made_of, await _input_size(tx, made_of.mounts))
    return learned.advise(made_of, await lessons.find(tx, tool), learning=learning)


def shown(advice: Advice | None) -> JsonObject:
    """The entry of an explanation about what was learned; empty without advice."""
    return {} if advice is None else {"learned": advice.shown()}


async def _input_size(tx: Transaction, mounted: JsonObject) -> int:
    return await lessons.input_size(tx, dict.fromkeys(mounts.named_hashes(mounted)))
