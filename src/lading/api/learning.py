"""Learns the amounts that containers of a tool needed, and finds them for later ones.

The decisions are those of `core.containers.attempts.learned`; the rows are in `store.learned`. With
`Containers.LearnResources: off` nobody asks, and nothing is read or stored. Source:
docs/spec/containers, section Learned amounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lading.api.run_times import tool_of
from lading.api.unit import Unit
from lading.core.containers.attempts import learned
from lading.core.containers.attempts.learned import Advice
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container
from lading.core.containers.recipe import Recipe
from lading.core.containers.request import ContainerRequest
from lading.core.values import JsonObject
from lading.store import learned as lessons
from lading.store.database import Transaction


async def learn(
    unit: Unit,
    ended: Container,
    subjects: Iterable[ContainerRequest],
    attempts: Mapping[str, Container],
) -> None:
    """Keep what the end of a container teaches; `attempts` has the earlier attempts of its requests
    by uuid.
    """
    for subject in subjects:
        earlier = [attempts[uuid] for uuid in subject.attempted_container_uuids if uuid in attempts]
        lesson = learned.lesson_of(ended, earlier)
        if lesson is not None:
            await lessons.keep(unit.tx, await tool_of(unit.tx, ended), lesson, now=unit.now)


async def advise(tx: Transaction, policy: Policy, made_of: Recipe) -> Advice | None:
    """The advice for a new container; None without one."""
    tool = await tool_of(tx, made_of)
    return learned.advise(made_of, await lessons.find(tx, tool), learning=policy.learning)


def shown(advice: Advice) -> JsonObject:
    """The entry of an explanation about what was learned."""
    return {"learned": advice.shown()}
