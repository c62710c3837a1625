"""Requests of a cloud drama that accept preemptible VMs, with their retries.

- A container runs on a kind of VM that it accepts: preemptible ones never, or alone, or preferred.
- A request that has lost `spot_attempts` of its containers never runs on a preemptible VM again.
- Each ends in spite of all losses: no pause of a type is for ever (the play would not end).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

from lading.core.containers.attempts import spot
from lading.core.containers.attempts.spot import Preemption
from lading.core.containers.container import ContainerState
from lading.core.quantities import format_time
from lading.testing.containers import FakeContainers

_BEGAN = 1_800_000_000.0
_KEPT = ("runtime_constraints", "constraint_ranges", "priority")


def wall_time() -> float:
    """The time of the play in seconds since 1970."""
    return _BEGAN + asyncio.get_running_loop().time()


class SpotRequests:
    """Draws scheduling parameters, and adds the next attempt of a request whose container was lost.
    `verdict` is the first thing that was wrong.
    """

    def __init__(self, server: FakeContainers, random: Random) -> None:
        self.verdict = ""
        self._server = server
        self._random = random
        self._attempts: dict[str, tuple[int, int]] = {}
        """Losses of the request before this container, and how many it may have."""
        self._due = 0
        self._ran = Counter[tuple[Preemption, bool]]()

    @property
    def quiet(self) -> bool:
        """Whether no further attempt is due."""
        return self._due == 0

    def draw(self) -> dict[str, Any]:
        """Scheduling parameters of one request: every second one accepts preemptible VMs."""
        kind = self._random.choice((False, False, False, True, "prefer", "prefer"))
        found: dict[str, Any] = spot.filled({spot.PREEMPTIBLE: kind})
        if kind == "prefer" and self._random.random() < 0.3:
            at = wall_time() + self._random.uniform(0.0, 3000.0)
            found[spot.DEADLINE] = format_time(datetime.fromtimestamp(at, UTC))
            found[spot.RUN_TIME] = self._random.choice((0, 60))
        return found

    def moved(self, uuid: str, new: ContainerState) -> None:
        """A record has another state."""
        accepted = spot.preemption(self._server.records[uuid]["scheduling_parameters"])
        if new is ContainerState.CANCELLED and accepted is not Preemption.NEVER:
            self._due += 1
            # Not within the change itself.
            asyncio.get_running_loop().call_soon(self._retry, uuid)

    def _retry(self, uuid: str) -> None:
        record, (lost, most) = self._server.records[uuid], self._attempt(uuid)
        lost += 1
        scheduling = record["scheduling_parameters"]
        if spot.has_lost_enough({spot.SPOT_ATTEMPTS: most}, lost, default=0):
            scheduling = spot.without_preemptible(scheduling)
        kept = {name: record[name] for name in _KEPT}
        fresh = self._server.add(**kept, scheduling_parameters=scheduling)
        self._attempts[fresh] = lost, most
        self._due -= 1

    def started(self, told: Mapping[str, Any]) -> None:
        """A supervisor began on a VM."""
        uuid, is_spot = str(told["container_uuid"]), bool(told["instance_type"]["Preemptible"])
        accepted = spot.preemption(self._server.records[uuid]["scheduling_parameters"])
        lost, most = self._attempt(uuid)
        self._ran[accepted, is_spot] += 1
        wrong = (
            (accepted is Preemption.NEVER and is_spot)
            or (accepted is Preemption.ONLY and not is_spot)
            or (is_spot and lost >= most)
        )
        if wrong:
            self.verdict = self.verdict or (
                f"{uuid} accepts {accepted.name} after {lost} of {most} losses, and ran on "
                f"{told['instance_type']['Name']}"
            )

    def tally(self) -> str:
        """Where containers that prefer preemptible VMs ran."""
        there, elsewhere = (self._ran[Preemption.PREFERRED, kind] for kind in (True, False))
        return f"{there} that prefer spot VMs on these, {elsewhere} on others"

    def _attempt(self, uuid: str) -> tuple[int, int]:
        if uuid not in self._attempts:
            self._attempts[uuid] = 0, self._random.choice((1, 2, 3))
        return self._attempts[uuid]
