"""Supervisors of the plays of Slurm and of Kubernetes: they crash at any step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from lading.core.containers.container import ContainerState
from lading.core.errors import LadingError
from lading.testing.containers import FakeContainers

STEPS: Final = ("Running", "log", "output", "Complete")
"""The writes of a supervisor to its record; it may crash before each of them."""
_CRASH: Final = 0.15


class Crashed(LadingError):
    """The supervisor crashed."""


async def supervise(
    server: FakeContainers,
    random: Random,
    uuid: str,
    token: str,
    *,
    ran: dict[str, int],
    lose: Callable[[str], None],
) -> None:
    """Carry out the steps of a supervisor, and count its start in `ran`; `lose` is called when it
    crashes or is killed, before its record is left to others. Raises Crashed, and AssertionError
    for a write that should not have come.
    """
    crash = random.choice(STEPS) if random.random() < _CRASH else ""
    runs = False
    try:
        for step in STEPS:
            if step == crash:
                raise Crashed
            match step:
                case "Running":
                    server.run(uuid, token)
                    ran[uuid], runs = ran.get(uuid, 0) + 1, True
                case "Complete":
                    runs = False
                    server.finish(uuid, token)
                case _:
                    server.save(uuid, token, **{step: "some"})
            if step != "Complete":
                await asyncio.sleep(random.uniform(0.1, 30.0))
    except (LadingError, asyncio.CancelledError):
        lose(uuid)
        raise
    finally:
        if runs:
            server.abandon(uuid)


def cancel(server: FakeContainers, uuid: str) -> None:
    """Do as the API does when no request wants a container any more."""
    if server.state(uuid) is ContainerState.QUEUED:
        server.set_state(uuid, ContainerState.CANCELLED)
    elif server.state(uuid) in (ContainerState.LOCKED, ContainerState.RUNNING):
        server.change_priority(uuid, 0)
