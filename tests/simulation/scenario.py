"""One seed from its first step to its quiet end, with the invariants checked after each step.

Users submit requests, several for one container, change and cancel them, and misuse tokens.
Commands make further requests, fail, and never end. Messages are lost, doubled and delayed,
connections are cut, and every part crashes. After `steps` such steps the faults end, and the
scenario goes on until all is quiet, or until that takes too long. At the end two containers of the
size of a host must run at the same time: nothing may still hold room.

Every `SHARE`th seed also runs on the real handlers, which are compared with the model server.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from lading.core.containers import request, request_phases
from lading.core.containers.container import FINAL, HELD, ContainerState
from lading.core.errors import LadingError
from lading.testing.simulated_loop import SimulatedLoop
from tests.simulation.comparison import ComparedServer, Drift
from tests.simulation.dispatchers import CAPACITY, Dispatcher
from tests.simulation.host import ENDLESS, PROBE, Host
from tests.simulation.invariants import Broken, Invariant, Invariants
from tests.simulation.rules import CORRECT, ServerRules
from tests.simulation.server import ModelServer, request_body
from tests.simulation.tables import (
    ADMIN_TOKEN,
    ADMIN_USER,
    DISPATCHER_TOKENS,
    PROJECT,
    token_text,
)
from tests.simulation.traffic import Message, Traffic

SHARE: Final = 5
"""One seed in so many is run on the real handlers beside the model server."""
_USER: Final = token_text(ADMIN_TOKEN)
_QUIET_STEPS: Final = 8_000
_TRAIL: Final = 400
_MOST_REQUESTS: Final = 10
_COMMANDS: Final = 3
_PARALLEL: Final = 2
# Every so many seeds have quotas.
_WITH_QUOTAS: Final = 3
_BUDGETS: Final = (0.2, 3.0)
"""Dollars: one that is spent soon, and one that seldom is."""
_PRIORITIES: Final = (1, 500, 1000)
_RETRIES: Final[tuple[dict[str, Any] | None, ...]] = (
    None,
    None,
    {"user": {"limit": 1}},
    {"node": {"limit": 0}, "user": {"limit": 2}},
    {"node": {"limit": 1}, "disk": {"limit": 1}},
    {"oom": {"limit": 2, "factor": 2}},
)
"""Rules of requests for retries; None leaves it to the configuration."""
_KINDS: Final = ("event", "fleet", "host", "host", "api")
_TO_HOSTS: Final = ("host d1", "host d2")
_CONNECTIONS: Final = tuple(f"{kind} {name}" for name in ("d1", "d2") for kind in _KINDS)
_MISUSES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("PUT", "", {"container": {"state": "Cancelled"}}),
    ("PUT", "", {"container": {"state": "Queued"}}),
    ("PUT", "", {"container": {"priority": 7}}),
    ("PUT", "", {"container": {"cost": 7.0}}),
    ("POST", "/lock", {}),
    ("POST", "/unlock", {}),
    ("POST", "/finish", {"container": {"state": "Cancelled"}, "collections": {}, "blocks": []}),
)


class Violation(AssertionError):
    """An invariant does not hold in a seed. `trail` are the steps before it, latest last."""

    def __init__(
        self,
        seed: int,
        step: int,
        what: str,
        trail: list[str],
        invariant: str = "",
    ) -> None:
        super().__init__(f"seed {seed}, step {step}: {what}")
        self.seed = seed
        self.step = step
        self.trail = trail
        self.invariant = invariant


class Scenario:
    """The installation of one seed. `compares`: the real handlers run beside the model server."""

    def __init__(self, seed: int, *, rules: ServerRules = CORRECT, compares: bool = False) -> None:
        self.seed = seed
        self.has_quotas = seed % _WITH_QUOTAS == 1
        self.step = 0
        self.trail: deque[str] = deque(maxlen=_TRAIL)
        self.random = Random(seed)
        self.loop = SimulatedLoop()
        self.traffic = Traffic()
        self.server = self._serve(rules, compares=compares)
        spawn: Callable[[Coroutine[Any, Any, None]], Any] = self.loop.create_task
        # In every third seed both dispatchers use one token, by a mistake of the operator.
        twins = seed % 3 == 2
        self.hosts = [
            Host(name, self.server, self.traffic, self.random, self.loop.time, self._begin, spawn)
            for name in ("h1", "h2")
        ]
        # In every second seed the host of one dispatcher has the image ready. Servers that know
        # what this means give leases, by which no two dispatchers act with one token.
        self.hosts[0].has_images = seed % 2 == 1 and not twins
        tokens = (DISPATCHER_TOKENS[0], DISPATCHER_TOKENS[0 if twins else 1])
        self.dispatchers = [
            Dispatcher(f"d{number + 1}", tokens[number], host, self.server, self.traffic)
            for number, host in enumerate(self.hosts)
        ]
        self.invariants = Invariants(self.server.records, self.hosts, are_twins=twins)
        self._broken: Broken | None = None
        self._faulty, self._faulty_until, self._is_cut = "", 0, False

    def run(self, steps: int) -> None:
        """Run all steps, and on until all is quiet. Raises Violation."""
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
        for number in range(steps):
            if number in (steps // 2, steps * 3 // 4):
                # Cancellations that reach a host while its connection fails are the hard ones.
                self._do(partial(self._disturb, _TO_HOSTS))
                self._do(self._cancel_endless)
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
        if chance < 0.972:
            return self._act_as_user
        if chance > 0.992 and self.has_quotas:
            return self._set_quota
        return self._crash

    def _pick(self) -> Message:
        pending = self.traffic.pending
        if self.step < self._faulty_until and not self._is_cut:
            pending = [one for one in pending if not one.label.startswith(self._faulty)] or pending
        # Often the oldest one, so that there is progress; else any, so that messages overtake.
        number = 0 if self.random.random() < 0.5 else self.random.randrange(len(pending))
        return pending[number]

    def _deliver(self) -> None:
        message = self._pick()
        self.traffic.pending.remove(message)
        if message.lose is not None and self._cuts(message):
            self._say(f"{message.label} (cut)")
            message.lose()
            return
        self._say(message.label)
        message.deliver()

    def _cuts(self, message: Message) -> bool:
        """Whether the connection of a message is cut now."""
        is_faulty = self.step < self._faulty_until and message.label.startswith(self._faulty)
        return is_faulty and self._is_cut

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
            # Timers are a little late, or very late if the machine was suspended.
            very_late = 45.0 if self.random.random() < 0.1 else 0.0
            late = self.random.choice((0.0, 0.0, 0.01, 1.0, very_late))
            self._say(f"time {due:.2f}")
            self.loop.advance(due + late)

    # Users.

    def _act_as_user(self) -> None:
        requests = self.server.records.requests
        if self.random.random() < 0.2:
            self._misuse()
            return
        if len(requests) < _MOST_REQUESTS and self.random.random() < 0.45:
            self._submit()
            return
        # A request whose maker has ended is about to end itself.
        known = [one.uuid for one in requests.values() if not self._is_orphan(one)]
        uuid = self.random.choice(known)
        kind = self.random.randrange(5)
        if kind < 2:
            self._cancel(self.random.choice(self._running() or [uuid]))
        elif kind == 2:
            self._change(uuid, container_count_max=requests[uuid].container_count_max + 1)
        else:
            self._change(uuid, priority=self.random.choice((0, *_PRIORITIES)))

    def _running(self) -> list[str]:
        """The Committed requests whose container is Running."""
        records = self.server.records
        running = [
            uuid for uuid, one in records.containers.items() if one.state is ContainerState.RUNNING
        ]
        return [one.uuid for uuid in running for one in records.wanting(uuid)]

    def _misuse(self) -> None:
        """Write to a container with a token that does not hold it. Raises Broken if accepted."""
        held = [one for one in self.server.records.containers.values() if one.state in HELD]
        if not held:
            return
        container = self.random.choice(held)
        others = [one for one in DISPATCHER_TOKENS if one != container.locked_by_uuid]
        token = self.random.choice(others + self.server.ended_tokens(container.uuid))
        method, action, body = self.random.choice(_MISUSES)
        self._say(f"misuse: {token[-3:]} {method} {container.uuid[-3:]}{action} {body}")
        path = f"containers/{container.uuid}{action}"
        try:
            self.server.call(self.server.text_of(token), method, path, dict(body))
        except LadingError:
            return
        raise Broken(
            Invariant.WRITERS,
            f"{container.uuid} is locked by {container.locked_by_uuid}, and the token {token} was "
            f"allowed {method} {path}",
        )

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
            # One of the commands runs a few times at a time only.
            parallel=_PARALLEL if number == _COMMANDS - 1 else 0,
            owner=PROJECT if self.has_quotas and self.random.random() < 0.5 else "",
            runs_workflow=self.has_quotas and number == 1,
            retry=self.random.choice(_RETRIES),
        )
        made = self.server.call(_USER, "POST", "container_requests", body)
        self._say(f"user: submits {made['uuid'][-3:]} for {made['container_uuid'][-3:]}")

    def _set_quota(self) -> None:
        """Make, change or remove the quota of the user or of the project."""
        subject = self.random.choice((ADMIN_USER, PROJECT))
        found = self.server.records.quotas.get(subject)
        # Three VCPUs are the largest command, and the one that makes requests has two and half of
        # a quota: less would refuse them.
        limits: dict[str, Any] = {
            "containers": self.random.choice((2, 3, 4, None)),
            "vcpus": self.random.choice((4, 5, 8, None)),
            "budget": self.random.choice((*_BUDGETS, None)),
        }
        if found is None:
            self._say(f"admin: quota of {subject[6:11]} {limits}")
            body = {"quota": {"subject_uuid": subject, "name": "subject", **limits}}
            self.server.call(_USER, "POST", "quotas", body)
        elif self.random.random() < 0.7:
            self._say(f"admin: quota of {subject[6:11]} becomes {limits}")
            self.server.call(_USER, "PUT", f"quotas/{found.uuid}", {"quota": limits})
        else:
            self._remove_quota(subject)

    def _remove_quota(self, subject: str) -> None:
        self._say(f"admin: no quota of {subject[6:11]}")
        uuid = self.server.records.quotas[subject].uuid
        self.server.call(_USER, "DELETE", f"quotas/{uuid}")

    def _cancel(self, uuid: str) -> None:
        self._say(f"user: cancels {uuid[-3:]}")
        self.server.call(_USER, "POST", f"container_requests/{uuid}/cancel")

    def _change(self, uuid: str, **changes: int) -> None:
        self._say(f"user: {uuid[-3:]} {changes}")
        try:
            path = f"container_requests/{uuid}"
            self.server.call(_USER, "PUT", path, {"container_request": changes})
        except LadingError as error:
            self._say(f"user: refused: {error.message}")

    # Faults.

    def _crash(self) -> None:
        what = self.random.randrange(15)
        if what >= 10:
            self._disturb(_CONNECTIONS)
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
            runs = [(host, one) for host in self.hosts for one in host.runs.values()]
            living = [(host, one.uuid) for host, one in runs if one.alive]
            if living:
                host, uuid = self.random.choice(living)
                if self.random.random() < 0.6:
                    self._say(f"{host.name}: the supervisor of {uuid[-3:]} is killed")
                    host.kill(uuid)
                else:
                    self._say(f"{host.name}: the supervisor of {uuid[-3:]} is taken for dead")
                    host.lose(uuid)

    def _disturb(self, connections: Sequence[str]) -> None:
        """Delay or lose the messages of one connection for a while."""
        self._faulty, self._is_cut = self.random.choice(connections), self.random.random() < 0.5
        self._faulty_until = self.step + self.random.randint(20, 150)
        how = "cut" if self._is_cut else "delayed"
        self._say(f"connection {self._faulty} is {how} until step {self._faulty_until}")

    # The end.

    def _calm(self) -> None:
        """Go on without faults until all is quiet."""
        self._faulty_until = 0
        for host in self.hosts:
            host.is_calm = True
        for one in self.dispatchers:
            if not one.is_up:
                one.start(self.loop)
        self._do(self._give_up)
        for subject in list(self.server.records.quotas):
            # A container that waits for those that it made may have all of a small one.
            self._do(partial(self._remove_quota, subject))
        for _ in range(_QUIET_STEPS):
            if self._is_quiet():
                return
            self._go_on()
        raise Broken(Invariant.END, f"it does not come to an end: {self._left()}")

    def _give_up(self) -> None:
        """Cancel the requests on hold, and those of commands that never end."""
        self._cancel_endless()
        for uuid, one in list(self.server.records.requests.items()):
            if one.state is request_phases.RequestState.COMMITTED and one.priority == 0:
                self._cancel(uuid)

    def _cancel_endless(self) -> None:
        """Cancel the requests of commands that never end."""
        commands = [one for host in self.hosts for one in host.commands()]
        for uuid in {one.uuid: None for one in commands if one.seconds == ENDLESS}:
            for one in self.server.records.wanting(uuid):
                self._cancel(one.uuid)

    def _probe(self) -> None:
        """Run two containers of the size of a host. Raises Broken unless they run together."""
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
            made = self.server.call(_USER, "POST", "container_requests", body)
            uuids.append(made["container_uuid"])
        together = False
        for _ in range(_QUIET_STEPS):
            running = {one.uuid for host in self.hosts for one in host.commands()}
            together = together or running.issuperset(uuids)
            if self._is_quiet():
                break
            self._go_on()
        else:
            raise Broken(Invariant.END, f"it does not come to an end again: {self._left()}")
        if not together:
            raise Broken(
                Invariant.END,
                "all had ended, and a host had no room for a container of its size",
            )

    def _go_on(self) -> None:
        self._do(self._deliver if self.traffic.pending else self._wait)

    def _is_quiet(self) -> bool:
        if any(host.runs or host.ghosts for host in self.hosts):
            return False
        requests = self.server.records.requests.values()
        if any(one.state is not request_phases.RequestState.FINAL for one in requests):
            return False
        queues = [one.fleet.queue for one in self.dispatchers if one.fleet is not None]
        return not any(queue is None or queue.waiting or queue.others for queue in queues)

    def _left(self) -> str:
        records = self.server.records
        requests = [uuid[-3:] for uuid, one in records.requests.items() if one.state != "Final"]
        containers = {
            uuid[-3:]: f"{one.state} {one.priority}"
            for uuid, one in records.containers.items()
            if one.state not in ("Complete", "Cancelled")
        }
        fleets = [one.fleet for one in self.dispatchers if one.fleet is not None]
        known = [list(one.queue.others) for one in fleets if one.queue is not None]
        runs = [host.list() for host in self.hosts]
        return f"open {requests}, containers {containers}, processes {runs}, known {known}"

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
            # Raised at the end of the step, outside of the supervisor's task.
            self._broken = fault

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
        up = {one.host.name for one in self.dispatchers if one.is_up}
        self.invariants.look(self.loop.time(), up)
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


def run(
    seed: int,
    *,
    steps: int = 500,
    rules: ServerRules = CORRECT,
    compares: bool | None = None,
) -> int:
    """Run one seed; the number of steps until all was quiet. Raises Violation.

    `compares`: the real handlers run beside the model server; by default in every SHAREth seed.
    """
    logger = logging.getLogger("lading")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    if compares is None:
        compares = seed % SHARE == 0
    scenario = Scenario(seed, rules=rules, compares=compares)
    collecting = gc.isenabled()
    gc.disable()
    try:
        scenario.run(steps)
    finally:
        logger.setLevel(level)
        if collecting:
            gc.enable()
    return scenario.step
