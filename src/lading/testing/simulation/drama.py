"""One seed played from its first step to its quiet end, with the invariants looked at after each step.

    one command       at most one command of a container lives, on all hosts together
    fenced            a command starts only while the record is Running by the token of its own lock
    table             states change only as the transition table allows, and never from Final but to Cancelled
    nothing is lost   a Complete container has output and log, both stored, of a command that ran to its end
    not from under    nobody gives back a container whose supervisor lives, but the supervisor
    forwards          what a dispatcher knows of a record that has run never goes back
    the end           left in peace, every request becomes Final, and no process and no directory is left

After `steps` steps of trouble the faults end, and the play goes on until all is quiet; too long a wait is a fault too.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lading.core import request
from lading.core.container import FINAL, TRANSITIONS, State
from lading.testing.simulation.clockwork import Clockwork
from lading.testing.simulation.dispatchers import Dispatcher
from lading.testing.simulation.host import Command, Host
from lading.testing.simulation.server import Server
from lading.testing.simulation.traffic import Message, Traffic

_RANK = {None: 0, State.QUEUED: 0, State.LOCKED: 0, State.RUNNING: 1, State.COMPLETE: 2, State.CANCELLED: 2}
_QUIET_STEPS = 20_000
_TRAIL = 400
_MOST_REQUESTS = 8


class Violation(AssertionError):
    """An invariant does not hold. `trail` is what led there, latest last."""

    def __init__(self, seed: int, step: int, what: str, trail: list[str]) -> None:
        super().__init__(f"seed {seed}, step {step}: {what}")
        self.seed = seed
        self.step = step
        self.trail = trail


@dataclass
class Drama:
    """The stage of one seed. `fenced` False is the server without its check of tokens, for a planted bug."""

    seed: int
    fenced: bool = True
    random: Random = field(init=False)
    loop: Clockwork = field(init=False)
    traffic: Traffic = field(init=False)
    server: Server = field(init=False)
    hosts: list[Host] = field(init=False)
    dispatchers: list[Dispatcher] = field(init=False)
    step: int = 0
    trail: deque[str] = field(default_factory=lambda: deque(maxlen=_TRAIL))
    _states: dict[str, State] = field(default_factory=dict)
    _locks: dict[str, int] = field(default_factory=dict)
    _known: dict[tuple[int, str], int] = field(default_factory=dict)
    _ran: dict[str, set[int]] = field(default_factory=dict)
    _broken: Violation | None = None

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.loop = Clockwork()
        self.traffic = Traffic()
        self.server = Server(self.loop.time, fenced=self.fenced)
        spawn: Callable[[Coroutine[Any, Any, None]], Any] = self.loop.create_task
        self.hosts = [
            Host(name, self.server, self.traffic, self.random, self.loop.time, self._begin, spawn)
            for name in ("h1", "h2")
        ]
        # In every third play an operator has made a mistake: both use one token (seed 003, scenario 3).
        self.twins = self.seed % 3 == 2
        tokens = ("zzzzz-gj3su-dispatcher00001", f"zzzzz-gj3su-dispatcher0000{1 if self.twins else 2}")
        self.dispatchers = [
            Dispatcher(f"d{number + 1}", tokens[number], host, self.server, self.traffic)
            for number, host in enumerate(self.hosts)
        ]

    def play(self, steps: int) -> None:
        """All of it. Raises Violation."""
        try:
            for one in self.dispatchers:
                one.start(self.loop)
            for _ in range(self.random.randint(1, 3)):
                self._submit()
            self._settle()
            for _ in range(steps):
                self._do(self._choose())
            self._calm()
        finally:
            self._close()

    # Steps.

    def _do(self, act: Callable[[], None]) -> None:
        self.step += 1
        act()
        self._settle()
        self._check()

    def _settle(self) -> None:
        try:
            self.loop.settle()
        except Exception as error:
            raise self._violation(f"{type(error).__name__}: {error}") from error

    def _choose(self) -> Callable[[], None]:
        chance = self.random.random()
        pending = self.traffic.pending
        if chance < 0.74 and pending:
            return self._deliver
        if chance < 0.80 and pending:
            return self._trouble
        if chance < 0.95:
            return self._wait
        if chance < 0.975:
            return self._user
        return self._crash

    def _pick(self) -> Message:
        pending = self.traffic.pending
        # The oldest often, so that things get on; any other one, so that they overtake.
        number = 0 if self.random.random() < 0.5 else self.random.randrange(len(pending))
        return pending[number]

    def _deliver(self) -> None:
        message = self._pick()
        self.traffic.pending.remove(message)
        self._say(message.label)
        message.deliver()

    def _trouble(self) -> None:
        message = self._pick()
        if message.again is not None and self.random.random() < 0.4:
            self._say(f"{message.label} (twice)")
            message.again()
        elif message.lose is not None:
            self.traffic.pending.remove(message)
            self._say(f"{message.label} (lost)")
            message.lose()

    def _wait(self) -> None:
        due = self.loop.next_timer()
        if due is not None:
            # A little late as timers are, or very late as when a machine slept.
            late = self.random.choice((0.0, 0.0, 0.01, 1.0, 45.0 if self.random.random() < 0.1 else 0.0))
            self._say(f"time {due:.2f}")
            self.loop.advance(due + late)

    def _user(self) -> None:
        uuids = list(self.server.requests)
        if len(uuids) < _MOST_REQUESTS and self.random.random() < 0.5:
            self._submit()
        else:
            uuid = self.random.choice(uuids)
            value = self.random.choice((0, 1, 500, 1000))
            self._say(f"user: {uuid[-3:]} priority {value}")
            self.server.prioritise(uuid, value)

    def _submit(self) -> None:
        uuid = self.server.submit(vcpus=self.random.randint(1, 3), value=self.random.choice((1, 500, 1000)))
        self._say(f"user: submits {uuid[-3:]}")

    def _crash(self) -> None:
        what = self.random.randrange(10)
        if what < 3:
            one = self.random.choice(self.dispatchers)
            self._say(f"{one.name} {'crashes' if one.is_up else 'starts'}")
            if one.is_up:
                one.crash()
            else:
                one.start(self.loop)
        elif what < 5:
            self._say("the server crashes")
            self.traffic.drop("api ")
            for one in self.dispatchers:
                one.interrupt()
        elif what < 6:
            host = self.random.choice(self.hosts)
            self._say(f"{host.name} loses power")
            host.crash()
        else:
            living = [(host, uuid) for host in self.hosts for uuid, one in host.runs.items() if one.alive]
            if living:
                host, uuid = self.random.choice(living)
                if self.random.random() < 0.6:
                    self._say(f"{host.name}: the supervisor of {uuid[-3:]} is killed")
                    host.kill(uuid)
                else:
                    self._say(f"{host.name}: the supervisor of {uuid[-3:]} is taken for dead")
                    host.lose(uuid)

    def _calm(self) -> None:
        """No faults any more."""
        for one in self.dispatchers:
            if not one.is_up:
                one.start(self.loop)
        for _ in range(_QUIET_STEPS):
            if self._is_over():
                return
            self._do(self._deliver if self.traffic.pending else self._wait)
        raise self._violation(f"it does not come to an end: {self._left()}")

    def _is_over(self) -> bool:
        return all(one.state is request.State.FINAL for one in self.server.requests.values()) and not any(
            host.runs or host.ghosts for host in self.hosts
        )

    def _left(self) -> str:
        requests = {uuid[-3:]: str(one.state) for uuid, one in self.server.requests.items()}
        containers = {uuid[-3:]: f"{one.state} {one.priority}" for uuid, one in self.server.containers.items()}
        return f"{requests}, {containers}, {[host.list() for host in self.hosts]}"

    def _close(self) -> None:
        for one in self.dispatchers:
            one.crash()
        for host in self.hosts:
            host.crash()
        self.loop.faults.clear()
        self.loop.set_exception_handler(lambda *_: None)
        self.loop.settle()
        self.loop.close()

    # Invariants.

    def _begin(self, host: Host, command: Command) -> None:
        uuid = command.uuid
        record = self.server.containers[uuid]
        for one in self.hosts:
            if one.runs_command(uuid):
                self._broken = self._violation(f"{uuid} runs on {one.name} and is started on {host.name}")
        token = command.token.split("/")[1]
        if record.state is State.RUNNING and record.supervisor_auth_uuid != token:
            self._broken = self._violation(f"{uuid} is started on {host.name} by a supervisor that has lost it")
        self._ran.setdefault(uuid, set()).add(record.lock_count)

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
        for uuid, record in self.server.containers.items():
            old = self._states.get(uuid)
            if record.state is not old:
                self._check_change(uuid, old)
            self._states[uuid] = record.state
            self._locks[uuid] = record.lock_count
        for number, one in enumerate(self.dispatchers):
            one.check()
            queue = one.fleet.queue if one.is_up and one.fleet is not None else None
            if queue is not None:
                self._check_knowledge(number, queue)

    def _check_change(self, uuid: str, old: State | None) -> None:
        record = self.server.containers[uuid]
        if old is not None and record.state not in TRANSITIONS[old] and not self._is_quick(old, record.state):
            raise self._violation(f"{uuid} went from {old} to {record.state}")
        if old in FINAL:
            raise self._violation(f"{uuid} was {old} and is {record.state}")
        if record.state is State.COMPLETE:
            if record.output not in self.server.saved or record.log not in self.server.saved:
                raise self._violation(f"{uuid} is Complete, but output or log is missing")
            if record.lock_count not in self._ran.get(uuid, ()):
                raise self._violation(f"{uuid} is Complete, but its command was never started")
        if old is State.LOCKED and record.state is State.QUEUED and not self.twins:
            for host in self.hosts:
                one = host.runs.get(uuid)
                if one is not None and one.alive and not one.gave_back:
                    raise self._violation(f"{uuid} was given back while its supervisor lives on {host.name}")

    def _is_quick(self, old: State, new: State) -> bool:
        """Two changes in one step: locked and cancelled for instance, by a doubled request."""
        return any(new in TRANSITIONS[between] for between in TRANSITIONS[old])

    def _check_knowledge(self, number: int, queue: Any) -> None:
        seen: dict[tuple[int, str], int] = {}
        for table in (queue.waiting, queue.others):
            for uuid, record in table.items():
                rank = _RANK[record.state]
                key = (id(queue), uuid)
                if record.state is not None and rank < self._known.get(key, 0):
                    raise self._violation(f"d{number + 1} knew better of {uuid} than {record.state}")
                seen[key] = rank
        self._known = {key: rank for key, rank in self._known.items() if key[0] != id(queue)} | seen

    def _violation(self, what: str) -> Violation:
        return Violation(self.seed, self.step, what, list(self.trail))

    def _say(self, what: str) -> None:
        self.trail.append(what)


def play(seed: int, *, steps: int = 500, fenced: bool = True) -> int:
    """Play one seed; how many steps it took until all was quiet. Raises Violation."""
    logger = logging.getLogger("lading")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    drama = Drama(seed, fenced=fenced)
    collecting = gc.isenabled()
    gc.disable()
    try:
        drama.play(steps)
    finally:
        logger.setLevel(level)
        if collecting:
            gc.enable()
    return drama.step
