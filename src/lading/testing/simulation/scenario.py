"""One seed run from its first step to its quiet end, with the invariants looked at after each step.

Users submit requests, several for one container, change their minds and cancel; commands ask for further containers,
fail, and go on for ever; messages are lost, doubled and overtaken; every part crashes. After `steps` such steps the
faults end, and the scenario goes on until all is quiet; too long a wait is a fault too. At the end two containers that
fill a host each must run at the same time: nothing may still hold room.

Most seeds run on the model server. Every `SHARE`th runs on the real handlers too, which are compared with it.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from lading.core import request
from lading.core.container import FINAL
from lading.core.errors import LadingError
from lading.testing.simulation.clockwork import Clockwork
from lading.testing.simulation.comparison import ComparedServer, Drift
from lading.testing.simulation.dispatchers import CAPACITY, Dispatcher
from lading.testing.simulation.host import ENDLESS, PROBE, Host
from lading.testing.simulation.invariants import Broken, Invariant, Invariants
from lading.testing.simulation.rules import CORRECT, ServerRules
from lading.testing.simulation.server import ModelServer, request_body
from lading.testing.simulation.tables import ADMIN_TOKEN, DISPATCHER_TOKENS, token_text
from lading.testing.simulation.traffic import Message, Traffic

SHARE: Final = 5
"""One seed in so many is run on the real handlers beside the model server."""
_USER: Final = token_text(ADMIN_TOKEN)
_QUIET_STEPS: Final = 8_000
_TRAIL: Final = 400
_MOST_REQUESTS: Final = 10
_COMMANDS: Final = 3
_PRIORITIES: Final = (1, 500, 1000)
_CONNECTIONS: Final = tuple(f"{kind} {name}" for name in ("d1", "d2") for kind in ("event", "fleet", "host", "api"))


class Violation(AssertionError):
    """An invariant does not hold in a seed. `trail` is what led there, latest last."""

    def __init__(self, seed: int, step: int, what: str, trail: list[str], invariant: str = "") -> None:
        super().__init__(f"seed {seed}, step {step}: {what}")
        self.seed = seed
        self.step = step
        self.trail = trail
        self.invariant = invariant


class Scenario:
    """The installation of one seed. `rules` are the model server's; `compares`: the real handlers run too."""

    def __init__(self, seed: int, *, rules: ServerRules = CORRECT, compares: bool = False) -> None:
        self.seed = seed
        self.step = 0
        self.trail: deque[str] = deque(maxlen=_TRAIL)
        self.random = Random(seed)
        self.loop = Clockwork()
        self.traffic = Traffic()
        self.server = self._serve(rules, compares=compares)
        spawn: Callable[[Coroutine[Any, Any, None]], Any] = self.loop.create_task
        # In every third seed an operator has made a mistake: both use one token (seed 003, scenario 3).
        twins = seed % 3 == 2
        self.hosts = [
            Host(name, self.server, self.traffic, self.random, self.loop.time, self._begin, spawn)
            for name in ("h1", "h2")
        ]
        tokens = (DISPATCHER_TOKENS[0], DISPATCHER_TOKENS[0 if twins else 1])
        self.dispatchers = [
            Dispatcher(f"d{number + 1}", tokens[number], host, self.server, self.traffic)
            for number, host in enumerate(self.hosts)
        ]
        self.invariants = Invariants(self.server.records, self.hosts, are_twins=twins)
        self._broken: Broken | None = None
        self._faulty, self._faulty_until, self._is_cut = "", 0, False

    def run(self, steps: int) -> None:
        """All of it. Raises Violation."""
        try:
            self._run(steps)
        except (Broken, Drift) as fault:
            raise self._violation(fault) from fault
        finally:
            self._close()

    def _run(self, steps: int) -> None:
        for one in self.dispatchers:
            one.start(self.loop)
        for _ in range(self.random.randint(1, 3)):
            self._do(self._submit)
        for _ in range(steps):
            self._do(self._choose())
        self._calm()
        self._probe()

    def _serve(self, rules: ServerRules, *, compares: bool) -> ModelServer:
        if compares:
            return ComparedServer(self.loop.time, self.loop.complete, rules)
        return ModelServer(self.loop.time, rules)

    # Steps.

    def _do(self, act: Callable[[], None]) -> None:
        self.step += 1
        act()
        self._settle()
        self._check()

    def _settle(self) -> None:
        try:
            self.loop.settle()
        except Broken:
            raise
        except Exception as error:
            raise self._violation(error) from error

    def _choose(self) -> Callable[[], None]:
        chance = self.random.random()
        pending = self.traffic.pending
        if chance < 0.74 and pending:
            return self._deliver
        if chance < 0.80 and pending:
            return self._trouble
        if chance < 0.95:
            return self._wait
        if chance < 0.97:
            return self._act_as_user
        return self._crash

    def _pick(self) -> Message:
        pending = self.traffic.pending
        if self.step < self._faulty_until and not self._is_cut:
            pending = [one for one in pending if not one.label.startswith(self._faulty)] or pending
        # The oldest often, so that things get on; any other one, so that they overtake.
        number = 0 if self.random.random() < 0.5 else self.random.randrange(len(pending))
        return pending[number]

    def _deliver(self) -> None:
        message = self._pick()
        self.traffic.pending.remove(message)
        is_cut = self._is_cut and self.step < self._faulty_until and message.label.startswith(self._faulty)
        if is_cut and message.lose is not None:
            self._say(f"{message.label} (cut off)")
            message.lose()
            return
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

    # Users.

    def _act_as_user(self) -> None:
        requests = self.server.records.requests
        if len(requests) < _MOST_REQUESTS and self.random.random() < 0.45:
            self._submit()
            return
        # A request whose maker has ended is on its way to its end.
        uuid = self.random.choice([uuid for uuid, one in requests.items() if not self._is_orphan(one)])
        kind = self.random.randrange(5)
        if kind < 2:
            self._cancel(uuid)
        elif kind == 2:
            self._change(uuid, container_count_max=requests[uuid].container_count_max + 1)
        else:
            self._change(uuid, priority=self.random.choice((0, *_PRIORITIES)))

    def _is_orphan(self, made: request.ContainerRequest) -> bool:
        maker = self.server.records.containers.get(made.requesting_container_uuid or "")
        return maker is not None and maker.state in FINAL

    def _submit(self) -> None:
        number = self.random.randrange(_COMMANDS)
        body = request_body(
            ("work", str(number), "0"),
            # Requests for one command ask for the same sizes, so that they may share a container.
            vcpus=number + 1,
            value=self.random.choice(_PRIORITIES),
            most=self.random.randint(1, 4),
            reuses=self.random.random() < 0.6,
            has_api=number == 1,
        )
        made = self.server.call(_USER, "POST", "container_requests", body)
        self._say(f"user: submits {made['uuid'][-3:]} for {made['container_uuid'][-3:]}")

    def _cancel(self, uuid: str) -> None:
        self._say(f"user: cancels {uuid[-3:]}")
        self.server.call(_USER, "POST", f"container_requests/{uuid}/cancel")

    def _change(self, uuid: str, **changes: int) -> None:
        self._say(f"user: {uuid[-3:]} {changes}")
        try:
            self.server.call(_USER, "PUT", f"container_requests/{uuid}", {"container_request": changes})
        except LadingError as error:
            self._say(f"user: refused: {error.message}")

    # Faults.

    def _crash(self) -> None:
        what = self.random.randrange(15)
        if what >= 10:
            self._disturb()
        elif what < 3:
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

    def _disturb(self) -> None:
        """The messages of one connection are held back for a while, or lost; all others go on."""
        self._faulty, self._is_cut = self.random.choice(_CONNECTIONS), self.random.random() < 0.5
        self._faulty_until = self.step + self.random.randint(20, 150)
        self._say(f"{self._faulty} is {'cut off' if self._is_cut else 'held up'} until step {self._faulty_until}")

    # The end.

    def _calm(self) -> None:
        """No faults any more, until all is quiet."""
        self._faulty_until = 0
        for host in self.hosts:
            host.is_calm = True
        for one in self.dispatchers:
            if not one.is_up:
                one.start(self.loop)
        self._do(self._give_up)
        for _ in range(_QUIET_STEPS):
            if self._is_quiet():
                return
            self._go_on()
        raise Broken(Invariant.END, f"it does not come to an end: {self._left()}")

    def _give_up(self) -> None:
        """Users cancel what is on hold, and what would go on for ever."""
        endless = {one.uuid for host in self.hosts for one in host.commands() if one.seconds == ENDLESS}
        for uuid, one in list(self.server.records.requests.items()):
            if one.state is request.State.COMMITTED and (one.priority == 0 or one.container_uuid in endless):
                self._cancel(uuid)

    def _probe(self) -> None:
        """Two containers that fill a host each run at the same time."""
        uuids = []
        for number in range(2):
            body = request_body(
                (PROBE, str(number)),
                vcpus=CAPACITY.vcpus,
                value=1,
                most=1,
                reuses=False,
                has_api=False,
            )
            uuids.append(self.server.call(_USER, "POST", "container_requests", body)["container_uuid"])
        together = False
        for _ in range(_QUIET_STEPS):
            together = together or all(any(host.runs_command(uuid) for host in self.hosts) for uuid in uuids)
            if self._is_quiet():
                break
            self._go_on()
        else:
            raise Broken(Invariant.END, f"it does not come to an end again: {self._left()}")
        if not together:
            raise Broken(
                Invariant.END,
                "all had ended, and a host still had no room for a container that fills it",
            )

    def _go_on(self) -> None:
        self._do(self._deliver if self.traffic.pending else self._wait)

    def _is_quiet(self) -> bool:
        if any(host.runs or host.ghosts for host in self.hosts):
            return False
        if any(one.state is not request.State.FINAL for one in self.server.records.requests.values()):
            return False
        queues = [one.fleet.queue for one in self.dispatchers if one.fleet is not None]
        return not any(queue is None or queue.waiting or queue.others for queue in queues)

    def _left(self) -> str:
        records = self.server.records
        requests = {uuid[-3:]: str(one.state) for uuid, one in records.requests.items() if one.state != "Final"}
        containers = {
            uuid[-3:]: f"{one.state} {one.priority}"
            for uuid, one in records.containers.items()
            if one.state not in ("Complete", "Cancelled")
        }
        known = [list(one.fleet.queue.others) for one in self.dispatchers if one.fleet is not None and one.fleet.queue]
        return f"{requests}, {containers}, {[host.list() for host in self.hosts]}, {known}"

    def _close(self) -> None:
        for one in self.dispatchers:
            one.crash()
        for host in self.hosts:
            host.crash()
        self.loop.faults.clear()
        self.loop.set_exception_handler(lambda *_: None)
        self.loop.settle()
        if isinstance(self.server, ComparedServer):
            self.server.close()
        self.loop.close()

    # Invariants.

    def _begin(self, host: Host, command: Any) -> None:
        try:
            self.invariants.begin(host, command)
        except Broken as fault:
            # It is raised at the end of the step, outside of the supervisor's task.
            self._broken = fault

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
        self.invariants.look(self.loop.time(), {one.host.name for one in self.dispatchers if one.is_up})
        for one in self.dispatchers:
            one.check()
            if one.is_up and one.fleet is not None and one.fleet.queue is not None:
                self.invariants.look_at_queue(one.name, one.fleet.queue)

    def _violation(self, fault: BaseException) -> Violation:
        if isinstance(fault, Broken):
            return Violation(self.seed, self.step, str(fault), list(self.trail), fault.invariant)
        name = "drift" if isinstance(fault, Drift) else "error"
        return Violation(
            self.seed,
            self.step,
            f"[{name}] {type(fault).__name__}: {fault}",
            list(self.trail),
            name,
        )

    def _say(self, what: str) -> None:
        self.trail.append(what)


def run(seed: int, *, steps: int = 500, rules: ServerRules = CORRECT, compares: bool | None = None) -> int:
    """Run one seed; how many steps it took until all was quiet. Raises Violation.

    `compares`: whether the real handlers run beside the model server, by default in every SHAREth seed.
    """
    logger = logging.getLogger("lading")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    scenario = Scenario(seed, rules=rules, compares=seed % SHARE == 0 if compares is None else compares)
    collecting = gc.isenabled()
    gc.disable()
    try:
        scenario.run(steps)
    finally:
        logger.setLevel(level)
        if collecting:
            gc.enable()
    return scenario.step
