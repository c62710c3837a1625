"""The fleet of cloud VMs: runs supervisors on VMs that it creates and removes.

- A VM is created when containers wait for it. It reports the end of a supervisor over its open
  connection; polling is the fallback.
- After a restart every VM with our tag is connected to, and asked which containers run there. Until
  then nothing is decided about containers that were locked before the restart and may run there;
  all other work continues. A VM that cannot be reached is removed when its boot time-out is over;
  only then is it known that nothing runs there.
- While a VM cannot be reached, its supervisors count as alive, and nothing is cleaned up. When it
  is gone, so are they: a preemptible VM was then preempted, any other has failed.
- A supervisor that was being started when the connection broke may run; its container is not given
  to another VM before that is known.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from signal import Signals

from lading.core.errors import Conflict, ExecutionError, Failure, Unavailable
from lading.core.scheduling.cloud_limits import CloudPlan, CloudRules
from lading.core.scheduling.instance_lifecycle import InstancePhase
from lading.core.scheduling.instance_types import InstanceType
from lading.core.scheduling.planning import (
    DispatchPlan,
    FleetWorker,
    Snapshot,
    TrackedContainer,
    WaitStatus,
)
from lading.dispatch.fleet import FleetView, LookUp, StartRequest, SupervisorProcess
from lading.dispatch.fleets.cloud.cloud_planning import CloudPlanning, on_their_way
from lading.dispatch.fleets.cloud.drivers.driver import Driver
from lading.dispatch.fleets.cloud.instance_journal import InstanceJournal
from lading.dispatch.fleets.cloud.machine import CloudMachine, GangInstances
from lading.dispatch.fleets.cloud.machine_states import CloudMachines
from lading.dispatch.fleets.cloud.metrics import (
    CloudCounters,
    Figures,
    MachineFigures,
    Subnetted,
    age,
    category,
)
from lading.dispatch.fleets.cloud.pool import InstancePool
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.dispatch.fleets.cloud.spot_losses import SpotLosses
from lading.dispatch.fleets.cloud.supervisor_assignment import (
    Prices,
    make_assignment,
    price_of,
    spending,
)
from lading.dispatch.fleets.cloud.vm_bootstrap import VmBootstrap
from lading.net.certificates import make_certificate
from lading.net.rpc import LineChannel
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch.fleets.cloud")
# Seconds for an answer of an agent: a fork takes milliseconds, a removal of files longer.
_START_TIMEOUT, _CLEAN_TIMEOUT = 30.0, 120.0
_ALONE = "Ranks of it were left on instances, and its supervisor is on none."


class CloudFleet:
    """Implements `Fleet`, `Planning` and `Consumer`; run `serve` as a task beside it."""

    def __init__(
        self,
        settings: CloudSettings,
        driver: Driver,
        reach: VmBootstrap,
        *,
        public_key: str = "",
        certificate_path: str = "",
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
        counts: CloudCounters | None = None,
        journal: InstanceJournal | None = None,
        losses: SpotLosses | None = None,
        prefix: str = "vm-",
    ) -> None:
        self.settings = settings
        self.counts = counts or CloudCounters()
        self.counts.look_at(self.figures)
        self.pool = InstancePool(
            settings, driver, reach, self, public_key=public_key, counts=self.counts, clock=clock,
            wall=wall, journal=journal, losses=losses,
        )  # fmt: skip
        rules = CloudRules(
            types=settings.types, price_factor=settings.price_factor, group=driver.group,
            workflow_fraction=settings.supervisor_fraction, extra_ram=settings.extra_ram,
            most_containers=settings.most_containers,
        )  # fmt: skip
        self.planning = CloudPlanning(rules, prefix=prefix, pressure=settings.pressure)
        self.prices = Prices(driver, lambda: self.pool.machines.values(), clock=clock, wall=wall)
        self._driver = driver
        self._preemption = driver.preemption
        self._certificate_path = certificate_path
        self._clock = clock
        self._wall = wall
        self.machine_source = CloudMachines(self.pool, self.container, clock=clock, wall=wall)
        self._look_up: LookUp = lambda _: None
        self._processes: dict[str, SupervisorProcess] = {}
        self._places: dict[str, CloudMachine] = {}
        self._gangs = GangInstances()
        self._starting: set[str] = set()
        self._created_at: dict[str, str] = {}
        self._change = asyncio.Event()
        self._snapshot = Snapshot()
        self._failure: BaseException | None = None

    async def serve(self) -> None:
        """Work until cancelled. Raises the errors of the pool, as `changed` then does."""
        pricing = asyncio.create_task(self.prices.serve(), name="prices")
        try:
            await self.pool.serve()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._change.set()
            await cancel_all(pricing)

    # The seam to the dispatch loop.

    def set_lookup(self, look: LookUp) -> None:
        """Set the function that looks up whether a container has ended."""
        self._look_up = look

    def view(self) -> FleetView:
        """The present state."""
        workers = tuple(
            FleetWorker(machine.name, machine.kind.resources)
            for machine in self.pool.machines.values()
            if machine.usable and machine.kind is not None
        )
        processes = dict(self._processes)
        for uuid in self._gangs:
            others = tuple(self._gangs.names(uuid))
            if uuid in processes:
                processes[uuid] = replace(processes[uuid], others=others)
            elif (
                uuid not in self._places and uuid not in self._starting and not self.pool.unresolved
            ):
                # Its supervisor may be on a VM that was not asked yet.
                processes[uuid] = SupervisorProcess(
                    others[0], alive=False, fate=_ALONE, others=others[1:]
                )
        return FleetView(
            is_known=self.pool.listed,
            workers=workers,
            processes=processes,
            trouble=self._trouble(),
            unasked=tuple(machine.name for machine in self.pool.unresolved),
        )

    async def changed(self) -> None:
        """Wait until the view may have changed. Raises the error that ended `serve`."""
        await self._change.wait()
        self._change.clear()
        if self._failure is not None:
            raise self._failure

    async def start(self, assignment: StartRequest) -> None:
        """Start a supervisor on a VM, and for a gang rank launchers on its other VMs.

        Raises Conflict, Unavailable, ExecutionError.
        """
        uuid = assignment.uuid
        machine, link, kind = self._usable(assignment)
        self._starting.add(uuid)
        self._place(uuid, machine)
        try:
            outposts = await self._send_out(assignment) if assignment.others else None
        except BaseException:
            # Cancelled, too: a reserved place would stay taken for ever.
            self._starting.discard(uuid)
            self._leave(uuid)
            raise
        try:
            message = make_assignment(
                assignment,
                kind,
                self.settings,
                find=self._machine,
                certificate_path=self._certificate_path,
                preemption=self._preemption,
                outposts=outposts,
            )
            answer = await link.request("start", timeout=_START_TIMEOUT, assignment=message)
        finally:
            # After Unavailable the supervisor may run: the next survey of the VM shows it.
            self._starting.discard(uuid)
        if answer.get("op") != "started":
            self._leave(uuid)
            raise ExecutionError(
                f"No supervisor could be started: {answer.get('error') or 'refused'}", Failure.NODE
            )
        self._processes.setdefault(uuid, SupervisorProcess(machine.name))
        waited = age(self._created_at.pop(uuid, ""), self._wall())
        if waited is not None:
            self.counts.started(waited)
        self._change.set()

    def _usable(self, assignment: StartRequest) -> tuple[CloudMachine, LineChannel, InstanceType]:
        """The VM of a start, its connection and its type. Raises Conflict, Unavailable."""
        uuid = assignment.uuid
        if uuid in self._places or uuid in self._starting:
            raise Conflict(f"{uuid}: an earlier supervisor is still there")
        one = self._machine(assignment.worker)
        if one is None or one.link is None or one.kind is None or not one.usable:
            raise Unavailable(f"{assignment.worker}: the instance cannot take a container now")
        if self._gangs.names(uuid):
            raise Unavailable(f"{uuid}: not all of its instances have been cleared yet")
        return one, one.link, one.kind

    async def _send_out(self, assignment: StartRequest) -> dict[str, object]:
        """Start rank launchers on the VMs of a gang's further ranks; return their addresses for its
        supervisor.

        Raises Unavailable, ExecutionError.
        """
        uuid, (certificate, key) = assignment.uuid, make_certificate("gang", now=datetime.now(UTC))
        machines = {name: self._machine(name) for name in assignment.others}
        for name, machine in machines.items():
            if machine is None or not machine.usable:
                raise Unavailable(f"{name}: the instance cannot take ranks of a gang now")

        async def admit(machine: CloudMachine, ranks: int) -> tuple[str, int]:
            link = machine.link
            if link is None:
                raise Unavailable(f"{machine.name}: the instance cannot be reached now")
            self._post(uuid, machine, ranks)
            answer = await link.request(
                "admit",
                timeout=_START_TIMEOUT,
                uuid=uuid,
                ranks=ranks,
                certificate=certificate,
                key=key,
            )
            if answer.get("op") != "admitted":
                why = answer.get("error") or "refused"
                raise ExecutionError(
                    f"{machine.name} takes no ranks of the gang: {why}", Failure.NODE
                )
            return str(answer.get("address") or machine.address), int(answer.get("port") or 0)

        counts = Counter(assignment.others)
        asked = [
            admit(machine, counts[name])
            for name, machine in machines.items()
            if machine is not None
        ]
        answers: list[tuple[str, int]] = []
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
        where = dict(zip(machines, answers, strict=True))
        return {
            "ranks": [where[name] for name in assignment.others],
            "certificate": certificate,
            "key": key,
        }

    async def signal(self, uuid: str, number: Signals) -> None:
        """Send a signal to a living supervisor. Raises Unavailable."""
        process, one = self._processes.get(uuid), self._places.get(uuid)
        if process is None or not process.alive or one is None:
            return
        if one.link is None:
            raise Unavailable(f"{one.name}: the instance cannot be reached now")
        await one.link.request(
            "signal", timeout=_START_TIMEOUT, uuid=uuid, signal=number.name.removeprefix("SIG")
        )

    async def clean(self, uuid: str) -> None:
        """Remove the remains of a dead supervisor. Raises Conflict, Unavailable."""
        process, machine = self._processes.get(uuid), self._places.get(uuid)
        if process is not None and process.alive:
            raise Conflict(f"{uuid}: its supervisor is alive")
        if uuid in self._starting:
            raise Unavailable(f"{uuid}: it is being started")
        if machine is not None:
            await self._clean(uuid, machine)
        results = await asyncio.gather(
            *(self._clean(uuid, rank_machine) for rank_machine in self._gangs.machines(uuid)),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        self._leave(uuid)

    async def _clean(self, uuid: str, machine: CloudMachine) -> None:
        if machine.phase is not InstancePhase.GONE:
            if machine.link is None:
                raise Unavailable(
                    f"{machine.name}: the instance cannot be reached now; {uuid} may still be there"
                )
            answer = await machine.link.request("clean", timeout=_CLEAN_TIMEOUT, uuid=uuid)
            if answer.get("error"):
                raise Unavailable(f"{uuid} could not be cleared away: {answer.get('error')}")
        self._recall(uuid, machine)

    # The plan.

    def plan(self, snapshot: Snapshot) -> DispatchPlan:
        """The containers to start now; VMs are created and removed accordingly."""
        if not self.pool.listed:
            return DispatchPlan()
        now, wall, self._snapshot = self._clock(), self._wall(), snapshot
        limits = self.pool.present_limits()
        decided = self.planning.decide(snapshot, self.pool.machines, limits, now=now, wall=wall)
        types = self.settings.by_name
        for key, name in decided.creates:
            self.pool.create(key, types[name])
        # A VM that is kept for a gang may be one that was requested just now.
        self._expect(snapshot, decided)
        for key in decided.unneeded:
            self.pool.cancel(key)
        self.pool.wanted_by_others = bool(decided.retire)
        for key in decided.retire:
            one = self.pool.machines.get(key)
            if one is not None and one.phase is InstancePhase.IDLE:
                self.pool.shut_down(one, "it is idle, and others wait for an instance")
        return DispatchPlan(starts=decided.starts)

    def _expect(self, snapshot: Snapshot, decided: CloudPlan) -> None:
        """Keep the VMs of containers that will start soon: a lock takes time, and a gang waits for
        all of its VMs.
        """
        coming = on_their_way(snapshot, decided, self.pool.machines)
        entries = (
            {
                container.uuid: container
                for container in (*snapshot.queue, *snapshot.workflow_runners)
            }
            if decided.starts
            else {}
        )
        self._created_at |= {start.uuid: entries[start.uuid].created_at for start in decided.starts}
        for machine in self.pool.machines.values():
            expected = frozenset(coming.get(machine.name, ()))
            if not expected and not machine.expected:
                continue
            machine.images |= {
                image for uuid in expected if uuid in entries and (image := entries[uuid].image)
            }
            if expected != machine.expected:
                machine.expected = expected
                self.pool.occupy(machine)

    def explain(self, snapshot: Snapshot) -> Mapping[str, WaitStatus]:
        """Reasons why containers wait."""
        return self.planning.explain(snapshot, self.pool.machines)

    def _trouble(self) -> str:
        """Reason that the processes of some VMs are not known yet, or ""."""
        if not self.pool.listed:
            fault = f": {self.pool.fault}" if self.pool.fault else " yet"
            return f"the instances cannot be listed{fault}"
        if not self.pool.unresolved:
            return ""
        names = ", ".join(
            f"{machine.name}{f' ({machine.fault})' if machine.fault else ''}"
            for machine in self.pool.unresolved[:3]
        )
        return f"instances of an earlier dispatcher are asked for their containers: {names}"

    # Events from the pool.

    def surveyed(
        self,
        machine: CloudMachine,
        live: Iterable[str],
        dead: Iterable[str],
        posts: Mapping[str, int],
    ) -> None:
        """Learn the complete list of supervisors and of ranks on a VM."""
        for uuid, ranks in posts.items():
            self._post(uuid, machine, ranks)
        for uuid in [
            posted
            for posted in machine.posts
            if posted not in posts and posted not in self._starting
        ]:
            self._recall(uuid, machine)
        living, left = set(live), set(dead)
        for uuid in living:
            process = self._processes.get(uuid)
            # A supervisor whose end was reported before is still in an older list.
            if process is None or process.alive or self._places.get(uuid) is not machine:
                self._place(uuid, machine)
                self._processes[uuid] = SupervisorProcess(machine.name)
        for uuid in left:
            self._place(uuid, machine)
            self._processes[uuid] = SupervisorProcess(machine.name, alive=False)
        for uuid in machine.containers - living - left:
            self._miss(uuid, machine)
        self.pool.occupy(machine)
        self._change.set()

    def _miss(self, uuid: str, machine: CloudMachine) -> None:
        """A VM no longer lists a supervisor."""
        if uuid in self._processes:
            self._processes[uuid] = SupervisorProcess(machine.name, alive=False)
        elif uuid not in self._starting:
            self._leave(uuid)

    def ended(self, machine: CloudMachine, uuid: str) -> None:
        """Note the end of a supervisor."""
        if self._places.get(uuid) is machine:
            self._processes[uuid] = SupervisorProcess(machine.name, alive=False)
            self._change.set()

    def vanished(self, machine: CloudMachine) -> None:
        """Note that a VM and its processes are gone."""
        taken = machine.kind is not None and machine.kind.preemptible and not machine.why
        failure = Failure.PREEMPTED if taken else Failure.NODE
        why = machine.why or (
            "the cloud took it away" if taken else "the cloud does not list it any more"
        )
        for uuid in sorted(machine.containers):
            if uuid in self._processes and self._processes[uuid].alive:
                fate = f"Its instance {machine.name} is gone: {why}."
                container = self._look_up(uuid)
                spent = (
                    spending(machine, container.need, wall=self._wall())
                    if container is not None
                    else None
                )
                self._processes[uuid] = SupervisorProcess(
                    machine.name, alive=False, fate=fate, failure=failure, spending=spent
                )
            elif uuid not in self._processes:
                self._leave(uuid)
        for uuid in list(machine.posts):
            self._recall(uuid, machine)
        self.planning.forget(machine.key)
        self._change.set()

    def touched(self) -> None:
        """Note a change of a VM."""
        self._change.set()

    # For operators.

    def figures(self) -> Figures:
        """Values of the gauges."""
        now, machines = self._clock(), self.pool.machines.values()
        waiting = (*self._snapshot.queue, *self._snapshot.workflow_runners)
        ages = [
            age(container.created_at, self._wall()) or 0.0
            for container in waiting
            if container.uuid not in self._places
        ]
        return Figures(
            machines=tuple(
                MachineFigures(
                    category=category(machine.phase, machine.behavior),
                    type=machine.type,
                    price=price_of(machine, wall=self._wall()),
                    vcpus=machine.kind.resources.vcpus if machine.kind is not None else 0,
                    ram=machine.kind.resources.ram if machine.kind is not None else 0,
                    age=now - machine.answered_at,
                    unremoved=machine.unremoved,
                )
                for machine in machines
            ),
            running=sum(process.alive for process in self._processes.values()),
            not_started=sum(
                bool(self.planning.planner.promise(uuid)) for uuid in self.planning.planner.waiting
            ),
            queue=self.planning.tally(machines, self._places, self._processes),
            over_quota=self.planning.count_held_back(),
            longest_wait=max(ages, default=0.0),
            at_quota=bool(self.pool.limits.over_quota(len(self.pool.machines), now=now)),
            most=self.planning.pressure.most,
            busy_at=self._snapshot.busy_at,
            subnets=self._driver.subnets() if isinstance(self._driver, Subnetted) else (),
        )

    def place(self, uuid: str) -> CloudMachine | None:
        """The VM of a container."""
        return self._places.get(uuid)

    def container(self, uuid: str) -> TrackedContainer | None:
        """The dispatcher's record of the container."""
        return self._look_up(uuid)

    def statuses(self) -> Mapping[str, WaitStatus]:
        """Statuses of the waiting containers of the last plan."""
        return self.explain(self._snapshot)

    async def stop(self, uuid: str, why: str) -> None:
        """End a container's supervisor at the request of an operator. Raises Unavailable."""
        event(_logger, "container stopped by an operator", container=uuid, why=why)
        await self.signal(uuid, Signals.SIGTERM)

    # Tables.

    def _machine(self, name: str) -> CloudMachine | None:
        return next(
            (machine for machine in self.pool.machines.values() if machine.name == name), None
        )

    def _place(self, uuid: str, machine: CloudMachine) -> None:
        self._places[uuid] = machine
        machine.containers.add(uuid)
        machine.last_container = uuid
        self.pool.occupy(machine)

    def _post(self, uuid: str, machine: CloudMachine, ranks: int) -> None:
        machine.posts[uuid] = ranks
        self._gangs.join(uuid, machine)
        self.pool.occupy(machine)

    def _recall(self, uuid: str, machine: CloudMachine) -> None:
        if machine.posts.pop(uuid, None) is not None:
            self._gangs.leave(uuid, machine)
            self.pool.occupy(machine)
            self._change.set()

    def _leave(self, uuid: str) -> None:
        self._processes.pop(uuid, None)
        self._created_at.pop(uuid, None)
        machine = self._places.pop(uuid, None)
        if machine is not None:
            machine.containers.discard(uuid)
            self.pool.occupy(machine)
        self.pool.touch()
