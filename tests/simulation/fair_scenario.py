"""Projects with weights share slots, on the real handlers; their bookkeeping is checked after each
step.

`python -m tests.simulation.fair_scenario [--seeds N] [--first N]` plays seeds, then plants each bug
and looks for it. Users submit, cancel and change priorities; dispatchers start the first of the
queue, now and then another one, give some back, and the server is started again. Then a fair
window: all projects have long queues at a level of their own, one comes late, and what they get is
compared with their weights. The invariants are written from docs/spec/containers, section Fair
share, and do not call the functions of `core`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Final

from lading.api.events import timers
from lading.api.fair_shares import FairShares
from lading.core.policy import fair_share
from lading.core.quantities import format_time
from lading.core.records.schema import JSON, Record
from lading.store import fair_shares as rows
from lading.store import schema
from lading.testing.world import START, World, make_seal, world
from tests.simulation.memory_database import MemoryDatabase

_CONFIG: Final[dict[str, JSON]] = {"FairShare": {"Enabled": True, "HalfLife": 86400.0}}
_WEIGHTS: Final = (1.0, 1.0, 2.0, 3.0, 4.0)
_WINDOW: Final = 32
_STEP: Final = 1 << 50
_LEVEL_OF_WINDOW: Final = 5
_STARTS: Final = 60


class Bug(StrEnum):
    """Bugs to plant, by name."""

    NOT_CHARGED = "not-charged"
    """A container that gets a tag is not charged to its share."""
    NOT_CORRECTED = "not-corrected"
    """The end does not correct what was expected, and nothing is prolonged."""
    NO_WEIGHTS = "weights-ignored"
    """Every share has weight 1."""
    NOT_FORWARD = "never-forward"
    """Parked containers never come forward."""
    TICKET_LEFT = "ticket-left"
    """The ticket of a container that waits no more stays."""
    CLOCK = "clock-stands"
    """A lock does not move the clock."""
    LEVEL = "level-lost"
    """All requests count for one level."""


class Unfair(AssertionError):
    """An invariant does not hold in a seed."""


@dataclass(slots=True)
class Project:
    """A project, the seconds that its containers take, and what has started in the fair window."""

    uuid: str
    weight: float
    seconds: tuple[int, ...]
    started: float = 0.0
    waiting: int = 0


@dataclass(slots=True)
class Play:
    """One seed."""

    random: Random
    it: World
    slots: int
    projects: list[Project] = field(default_factory=list)
    owner: dict[str, Project] = field(default_factory=dict)
    seconds: dict[str, int] = field(default_factory=dict)
    request: dict[str, str] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)
    running: list[tuple[float, str, str]] = field(default_factory=list)

    async def begin(self) -> None:
        """Make the projects."""
        for number in range(self.random.randint(2, 4)):
            weight = self.random.choice(_WEIGHTS)
            given = {
                "group_class": "project",
                "name": f"p{number}",
                "container_policy": {"share": weight},
            }
            made = await self.it.ok("POST", "groups", {"group": given})
            lengths = tuple(self.random.choice((2, 5, 10, 40)) for _ in range(3))
            self.projects.append(Project(made["uuid"], weight, lengths))

    async def step(self) -> None:
        """One event, then all invariants."""
        chance = self.random.random()
        waiting = await self.queue()
        if chance < 0.15 and len(waiting) < 150:
            count = self.random.choice((1, 2, 5, 40))
            await self.submit(
                self.random.choice(self.projects), count, self.random.choice((1, 1, 2))
            )
        elif chance < 0.22 and waiting:
            await self.cancel(self.random.choice(waiting))
        elif chance < 0.29 and waiting:
            await self.change(self.random.choice(waiting))
        elif chance < 0.32:
            # While none runs, so that times are learned from what was submitted.
            self.it.clock.advance(1 if self.running else self.random.choice((60, 4000)))
            await timers.act(self.it.app.services)
        elif chance < 0.75 and waiting and len(self.running) < self.slots:
            late = 0 if self.random.random() < 0.8 else self.random.randrange(len(waiting))
            await self.start(waiting[late])
        elif self.running:
            await self.end()
        await self.check()

    async def queue(self) -> list[str]:
        """The containers that wait, as dispatchers see them."""
        found = await self.select(
            "SELECT uuid FROM containers WHERE state = 'Queued' AND priority > 0"
            " ORDER BY priority DESC, created_at, uuid"
        )
        return [str(row[0]) for row in found]

    async def select(self, sql: str) -> list[tuple[Any, ...]]:
        """Stored rows."""
        async with self.it.app.services.database.reading() as tx:
            return [tuple(row) for row in await tx.fetch(sql)]

    async def submit(self, project: Project, count: int, level: int) -> None:
        """Commit requests of a project."""
        lengths = [self.random.choice(project.seconds) for _ in range(count)]
        specs = [
            await self.it.spec(
                f"tool{seconds}",
                owner_uuid=project.uuid,
                use_existing=False,
                priority=level,
                container_count_max=1,
            )
            for seconds in lengths
        ]
        answer = await self.it.ok("POST", "container_requests/batch", {"container_requests": specs})
        for made, seconds in zip(answer["items"], lengths, strict=True):
            self._note(made, project, seconds, level)

    def _note(self, made: Record, project: Project, seconds: int, level: int) -> None:
        uuid = str(made["container_uuid"])
        self.owner[uuid], self.seconds[uuid] = project, seconds
        self.request[uuid], self.level[uuid] = str(made["uuid"]), level

    async def cancel(self, uuid: str) -> None:
        """Cancel a request whose container waits."""
        await self.it.ok("POST", f"container_requests/{self.request[uuid]}/cancel")

    async def change(self, uuid: str) -> None:
        """Change a priority; 0 is on hold for ever."""
        self.level[uuid] = self.random.choice((0, 1, 2, 3))
        body: JSON = {"container_request": {"priority": self.level[uuid]}}
        await self.it.ok("PUT", f"container_requests/{self.request[uuid]}", body)

    async def start(self, uuid: str) -> None:
        """Lock a container, and give it back now and then."""
        supervisor = await self.it.lock(uuid)
        if self.random.random() < 0.05 and self.level[uuid] != _LEVEL_OF_WINDOW:
            await self.it.ok("POST", f"containers/{uuid}/unlock", token=self.it.dispatcher)
            return
        await self.it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
        until = self.it.clock.moment.timestamp() + self.seconds[uuid]
        heapq.heappush(self.running, (until, uuid, supervisor))

    async def end(self) -> None:
        """Let the first container end, at its time."""
        until, uuid, supervisor = heapq.heappop(self.running)
        self.it.clock.advance(max(0.0, until - self.it.clock.moment.timestamp()))
        await self.it.ok("PUT", f"containers/{uuid}", {"state": "Cancelled"}, token=supervisor)

    async def check(self) -> None:
        """The bookkeeping. Raises Unfair."""
        tickets = {
            str(row[0]): row
            for row in await self.select(
                "SELECT container_uuid, level, share, created, place, tag FROM fair_tickets"
            )
        }
        stored = await self.select(
            "SELECT uuid, state, priority FROM containers"
            " WHERE state IN ('Queued', 'Locked', 'Running')"
        )
        due = {uuid for uuid, state, value in stored if state != "Queued" or value > 0}
        _hold(due == tickets.keys(), f"tickets of other containers: {due ^ tickets.keys()}")
        places: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        parked: defaultdict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        for uuid, state, value in stored:
            if uuid not in tickets:
                continue
            _, level, share, created, place, tag = tickets[uuid]
            _hold((place == "held") is (state != "Queued"), f"{uuid} is {state} and {place}")
            _hold(share == self.owner[uuid].uuid, f"{uuid} counts for {share}")
            if state == "Queued":
                _hold(level == self.level[uuid], f"{uuid} is at level {level}")
                _hold((level - 1) * _STEP < value < level * _STEP, f"{uuid} has {value}")
                if place == "exact":
                    _hold(value == level * _STEP - (tag >> 6), f"{uuid} is not at its tag")
                else:
                    parked[level, share].append((created, -value))
                places[level, share][place] += 1
        for key, counts in places.items():
            if counts["parked"]:
                _hold(counts["exact"] >= _WINDOW, f"{key} has room for those that are parked")
                # Equal times are in order of uuids, which priorities do not tell.
                _hold(sorted(parked[key]) == sorted(parked[key], key=lambda one: one[1]), "age")

    async def fair_window(self) -> None:
        """All have long queues, one comes late; each gets its weight. Raises Unfair."""
        for uuid in await self.queue():
            await self.cancel(uuid)
        while self.running:
            await self.end()
        late = self.projects[-1]
        for project in self.projects[:-1]:
            await self.submit(project, _STARTS, _LEVEL_OF_WINDOW)
        await self._run(_STARTS // 2, self.projects[:-1])
        await self.submit(late, _STARTS, _LEVEL_OF_WINDOW)
        await self._run(_STARTS, self.projects)

    async def _run(self, count: int, projects: list[Project]) -> None:
        for project in projects:
            project.started = 0.0
        for _ in range(count):
            while len(self.running) >= self.slots:
                await self.end()
            # The timer of the server, at each step.
            await timers.act(self.it.app.services)
            uuid = (await self.queue())[0]
            self.owner[uuid].started += self.seconds[uuid]
            await self.start(uuid)
            await self.check()
            left = Counter(self.owner[one].uuid for one in await self.queue())
            if any(not left[project.uuid] for project in projects):
                return
            for one in projects:
                for other in projects:
                    gap = abs(one.started / one.weight - other.started / other.weight)
                    _hold(gap <= self._bound(one) + self._bound(other), f"gap of {gap:.1f} s")

    def _bound(self, project: Project) -> float:
        """Start-time fair queueing: the largest charge; and what runs is charged wrongly."""
        # A tool of which nothing is known counts for 1 s, one that is known for its mean.
        return (2 + self.slots) * max(project.seconds) / project.weight


def _hold(holds: bool, what: str) -> None:
    if not holds:
        raise Unfair(what)


async def _play(seed: int, steps: int) -> None:
    random = Random(seed)
    database = MemoryDatabase(seal=make_seal())
    slots = random.randint(1, 3)
    play: Play | None = None
    try:
        await schema.prepare(database, now=format_time(START))
        with tempfile.TemporaryDirectory() as root:
            # The server is started again twice; nothing of fair share is in its memory.
            for life in range(3):
                made = world(
                    Path(root), database=database, seed=seed * 3 + life, Containers=_CONFIG
                )
                async with made as it:
                    if play is None:
                        play = Play(random, it, slots)
                        await play.begin()
                    else:
                        it.clock.moment = play.it.clock.moment
                        it.blocks, it.images = play.it.blocks, play.it.images
                        play.it = it
                    for _ in range(steps // 3):
                        await play.step()
                    if life == 2:
                        await play.fair_window()
    finally:
        await database.close()


def run(seed: int, *, steps: int = 120) -> None:
    """Play a seed. Raises Unfair."""
    asyncio.run(_play(seed, steps))


@contextlib.contextmanager
def planted(bug: Bug | None) -> Iterator[None]:
    """Plant a bug inside the context."""
    with contextlib.ExitStack() as undo:
        for owner, name, replacement in _BUGS[bug] if bug else ():
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


def find(bug: Bug, *, seeds: int = 20) -> tuple[int, str] | None:
    """The first seed that shows a planted bug, and how; None without one."""
    with planted(bug):
        for seed in range(seeds):
            try:
                run(seed)
            except Unfair as fault:
                return seed, str(fault)
    return None


_admit, _claims, _put_account = fair_share.admit, fair_share.claims, rows.put_account


def _not_charged(account: Any, **more: Any) -> Any:
    return account, _admit(account, **more)[1]


async def _nothing(*_: Any, **__: Any) -> list[str]:
    return []


async def _of_weight_1(self: FairShares, owner: str) -> tuple[str, float]:
    return owner, 1.0


async def _without_clock(tx: Any, level: int, share: str, new: Any, *, reached: int) -> None:
    await _put_account(tx, level, share, new, reached=1 << 40)


def _at_one_level(*known: Any, **more: Any) -> Any:
    found = _claims(*known, **more)
    return {uuid: claim and replace(claim, level=1) for uuid, claim in found.items()}


_BUGS: Final[dict[Bug, tuple[tuple[Any, str, Any], ...]]] = {
    Bug.NOT_CHARGED: ((fair_share, "admit", _not_charged),),
    Bug.NOT_CORRECTED: (
        (fair_share, "finish", lambda account, *_, **__: account),
        (FairShares, "prolong", _nothing),
    ),
    Bug.NO_WEIGHTS: ((FairShares, "_find_share", _of_weight_1),),
    Bug.NOT_FORWARD: ((FairShares, "_forward", _nothing),),
    Bug.TICKET_LEFT: ((rows, "remove_ticket", _nothing),),
    Bug.CLOCK: ((rows, "put_account", _without_clock),),
    Bug.LEVEL: ((fair_share, "claims", _at_one_level),),
}


def main() -> int:
    """Play seeds and look for the planted bugs; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fair_scenario")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            run(seed)
        except Unfair as fault:
            failed += 1
            sys.stdout.write(f"seed {seed}: {fault}\n")
    sys.stdout.write(f"{options.seeds} seeds: {failed} violations\n")
    for bug in Bug:
        found = find(bug)
        failed += found is None
        sys.stdout.write(f"{bug:20} {found or 'NOT FOUND'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
