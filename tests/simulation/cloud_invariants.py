"""Invariants of a cloud drama beyond those that the fakes check themselves (docs/spec/cloud,
section Invariants).

- A container is locked again only for a cause: the answer to the lock was lost, its supervisor
  ended before it ran, its VM or the way there had a trouble when it was to be started, or a
  dispatcher with that token came or went.
- Of containers that need the same, one that comes first is not passed for longer than `PASSED`
  seconds.
- A VM on which nothing runs, and whose dispatcher is there, is gone within `IDLE` seconds.
- What the containers on a VM cost together is at most what the VM costs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

from lading.core.containers.container import ContainerState
from lading.testing.cloud import FakeCloud

PASSED = 180.0
"""Pauses after failures take 30 s at most, and a few may come together."""
IDLE = 1200.0
"""A VM that is made but never answers takes `Times.booting`, one whose removal fails several
attempts.
"""
_NEVER = -1e9
_Key = tuple[int, str, str]
_Shape = tuple[object, ...]


class Referee:
    """Implements `Watch`; `record` gives the fields of a container. `verdict` is the first thing
    that was wrong.

    `passed`: how long a container may be passed. A batch system, which orders what waits itself,
    has no such bound.
    """

    def __init__(
        self, record: Callable[[str], Mapping[str, Any]], *, passed: float = PASSED
    ) -> None:
        self._may_be_passed = passed
        self.verdict = ""
        self.relocks = 0
        self.longest_passed = 0.0
        self.longest_idle = 0.0
        self._record = record
        self._caused: dict[str, float] = {}
        self._locked: dict[str, tuple[float, str]] = {}
        self._there: Counter[str] = Counter()
        self._handed_over: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._queued: dict[str, _Shape] = {}
        self._waiting: dict[_Shape, list[_Key]] = {}
        self._passed: dict[str, float] = {}

    # Causes.

    def unheard(self, uuid: str) -> None:
        """A lock whose answer was lost."""
        self._caused[uuid] = _now()

    def lost(self, uuid: str) -> None:
        """A supervisor ended before its time."""
        self._caused[uuid] = _now()

    def failed(self, uuid: str, worker: str, cloud: FakeCloud) -> None:
        """A supervisor could not be started on a VM."""
        if cloud.harmed(worker, self._locked.get(uuid, (_NEVER, ""))[0] - PASSED):
            self._caused[uuid] = _now()

    def came(self, token: str) -> None:
        """There is a dispatcher more with this token."""
        self._there[token] += 1
        self._handed_over[token] = _now()
        self._since.setdefault(token, _now())

    def went(self, token: str) -> None:
        """One is gone."""
        self._there[token] -= 1
        self._handed_over[token] = _now()
        if not self._there[token]:
            del self._since[token]

    # Records.

    def moved(self, uuid: str, old: str, new: ContainerState) -> None:
        """A record has another state."""
        del old
        if new is ContainerState.QUEUED:
            self._enqueue(uuid)
        elif new is ContainerState.LOCKED:
            self._lock(uuid)
        else:
            self._queued.pop(uuid, None)

    def _lock(self, uuid: str) -> None:
        now, token = _now(), str(self._record(uuid)["locked_by_uuid"])
        if uuid in self._locked:
            self.relocks += 1
            since, by = self._locked[uuid]
            handed_over = max(self._handed_over.get(one, _NEVER) for one in (by, token))
            crowded = max(self._there[by], self._there[token]) > 1
            if not crowded and max(self._caused.get(uuid, _NEVER), handed_over) < since:
                self._find(
                    f"{uuid} was locked at {since:.1f} and again at {now:.1f} without a cause"
                )
        self._locked[uuid] = now, token
        shape = self._queued.pop(uuid, None)
        self._passed.pop(uuid, None)
        if shape is not None:
            self._pass_over(uuid, shape)

    def _enqueue(self, uuid: str) -> None:
        record = self._record(uuid)
        constraints, scheduling = record["runtime_constraints"], record["scheduling_parameters"]
        shape = (*sorted(constraints.items()), *sorted(scheduling.items()))
        self._queued[uuid] = shape
        heappush(self._waiting.setdefault(shape, []), self._key(uuid))

    def _key(self, uuid: str) -> _Key:
        record = self._record(uuid)
        return -record["priority"], record["created_at"], uuid

    def _pass_over(self, uuid: str, shape: _Shape) -> None:
        """The first of those that need the same may have been passed by this one."""
        waiting, now = self._waiting[shape], _now()
        while waiting and waiting[0][2] not in self._queued:
            heappop(waiting)
        if waiting and waiting[0] < self._key(uuid):
            first = waiting[0][2]
            since = self._passed.setdefault(first, now)
            self.longest_passed = max(self.longest_passed, now - since)
            if now - since > self._may_be_passed:
                self._find(
                    f"{first} is passed by others that need the same since {since:.1f}, "
                    f"now {now:.1f} by {uuid}"
                )

    # VMs.

    def look(self, cloud: FakeCloud, tokens: Mapping[str, str]) -> None:
        """See whether a VM is there for nothing. `tokens` are those of the dispatchers by
        InstanceSetID.
        """
        now = _now()
        for id, vm in cloud.vms.items():
            there = self._since.get(tokens.get(cloud.set_of(vm), ""))
            if there is None or vm.lives:
                continue
            idle = now - max(vm.empty, there)
            self.longest_idle = max(self.longest_idle, idle)
            if idle > IDLE:
                self._find(f"{id} has run nothing for {idle:.0f} s and is still there")

    def bill(self, cloud: FakeCloud) -> tuple[float, float]:
        """What all VMs that are gone have cost, and their containers, in dollars."""
        whole = paid = 0.0
        for vm in cloud.past:
            price = vm.kind.price * (vm.gone - vm.created_at) / 3600.0
            if vm.paid > price + 1e-9:
                self._find(
                    f"{vm.instance.id} cost {price:g} dollars, and its containers {vm.paid:g}"
                )
            whole, paid = whole + price, paid + vm.paid
        return whole, paid

    def _find(self, what: str) -> None:
        self.verdict = self.verdict or what


def _now() -> float:
    return asyncio.get_running_loop().time()
