"""Next phase of a VM after its answers to the boot probe, the copy of the runner and the list of
supervisors.

The cases are those of Arvados' worker_test: phase, failing step, running containers, and time.
While a VM is listed, its supervisors count as alive even if the VM does not answer
(docs/spec/cloud, section Life of an instance).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from lading.core.errors import Unavailable
from lading.core.scheduling.instance_lifecycle import Behavior, InstancePhase, InstanceTimes
from lading.dispatch.fleet import StartRequest
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.drivers.driver import InstanceSpec
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.net.rpc import LineChannel, Message, RpcReply
from lading.testing.cloud import FakeCloud, FakeVm
from lading.testing.cloud_troubles import Troubles
from lading.testing.simulated_loop import pass_time, play
from tests.simulation.cloud_scenario import TYPES

ONE = "zzzzz-dz642-000000000000001"
BOOTING, PROBE = 100.0, 50.0
SETTINGS = CloudSettings(
    types=TYPES, set_id="set", times=InstanceTimes(idle=9999.0, booting=BOOTING, probe=PROBE),
    probe_interval=5.0, busy_sync_interval=1.0, operation_rate=500.0, shutdown_timeout=9999.0,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """`found`: an earlier dispatcher made the VM. `well`: all was for so long before something
    failed.
    """

    name: str
    phase: InstancePhase
    age: float
    found: bool = False
    well: bool = False
    fails: str = ""
    runs: bool = False
    ends: bool = False
    behavior: Behavior = Behavior.RUN
    running: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "running", frozenset({ONE} if self.runs and not self.ends else ()))


CASES = (
    Case("unknown: the boot probe fails", InstancePhase.UNKNOWN, 20.0, found=True, fails="boot"),
    Case(
        "unknown: the boot probe fails for too long",
        InstancePhase.SHUTDOWN,
        BOOTING + 20.0,
        found=True,
        fails="boot",
    ),
    Case(
        "unknown: the boot probe fails, held",
        InstancePhase.UNKNOWN,
        900.0,
        found=True,
        fails="boot",
        behavior=Behavior.HOLD,
    ),
    Case(
        "unknown: the runner cannot be copied",
        InstancePhase.UNKNOWN,
        20.0,
        found=True,
        fails="copy",
    ),
    Case(
        "unknown: the runner cannot be copied for too long",
        InstancePhase.SHUTDOWN,
        BOOTING + 20.0,
        found=True,
        fails="copy",
    ),
    Case("unknown: the list fails", InstancePhase.UNKNOWN, 20.0, found=True, fails="list"),
    Case(
        "unknown: the list fails for too long",
        InstancePhase.SHUTDOWN,
        BOOTING + 80.0,
        found=True,
        fails="list",
    ),
    Case("unknown: all is well", InstancePhase.IDLE, 20.0, found=True),
    Case(
        "unknown: all is well, a container runs", InstancePhase.RUNNING, 20.0, found=True, runs=True
    ),
    Case(
        "unknown: a container runs, drained",
        InstancePhase.RUNNING,
        20.0,
        found=True,
        runs=True,
        behavior=Behavior.DRAIN,
    ),
    Case(
        "unknown: all is well, drained",
        InstancePhase.SHUTDOWN,
        20.0,
        found=True,
        behavior=Behavior.DRAIN,
    ),
    Case(
        "unknown: it says that it is broken",
        InstancePhase.SHUTDOWN,
        40.0,
        found=True,
        fails="broken",
    ),
    Case("booting: the boot probe fails", InstancePhase.BOOTING, 20.0, fails="boot"),
    Case(
        "booting: the boot probe fails for too long",
        InstancePhase.SHUTDOWN,
        BOOTING + 20.0,
        fails="boot",
    ),
    Case(
        "booting: the boot probe fails, drained",
        InstancePhase.SHUTDOWN,
        20.0,
        fails="boot",
        behavior=Behavior.DRAIN,
    ),
    Case("booting: the runner cannot be copied", InstancePhase.BOOTING, 20.0, fails="copy"),
    Case(
        "booting: the runner cannot be copied for too long",
        InstancePhase.SHUTDOWN,
        BOOTING + 20.0,
        fails="copy",
    ),
    Case("booting: the list fails", InstancePhase.BOOTING, 20.0, fails="list"),
    Case("booting: all is well", InstancePhase.IDLE, 20.0),
    Case("idle: it cannot be reached", InstancePhase.IDLE, 20.0, well=True, fails="boot"),
    Case(
        "idle: it cannot be reached for too long",
        InstancePhase.SHUTDOWN,
        PROBE + 40.0,
        well=True,
        fails="boot",
    ),
    Case(
        "idle: it cannot be reached, held",
        InstancePhase.IDLE,
        900.0,
        well=True,
        fails="boot",
        behavior=Behavior.HOLD,
    ),
    Case(
        "idle: it says that it is broken", InstancePhase.SHUTDOWN, 20.0, well=True, fails="broken"
    ),
    Case(
        "running: it cannot be reached",
        InstancePhase.RUNNING,
        20.0,
        well=True,
        runs=True,
        fails="boot",
    ),
    Case(
        "running: it cannot be reached for too long",
        InstancePhase.SHUTDOWN,
        PROBE + 40.0,
        well=True,
        runs=True,
        fails="boot",
    ),
    Case(
        "running: the list fails", InstancePhase.RUNNING, 20.0, well=True, runs=True, fails="list"
    ),
    Case(
        "running: it says that it is broken",
        InstancePhase.RUNNING,
        20.0,
        well=True,
        runs=True,
        fails="broken",
    ),
    Case(
        "running: the container is not there any more",
        InstancePhase.RUNNING,
        20.0,
        well=True,
        runs=True,
        ends=True,
    ),
    Case("running: all is well", InstancePhase.RUNNING, 900.0, well=True, runs=True),
)


class Worker:
    """A VM whose answers can be spoilt; its method `vm_bootstrap` is a `VmBootstrap`."""

    def __init__(self) -> None:
        self.fails = ""
        self.cloud = FakeCloud(troubles=Troubles(boot=(0.0, 0.0), destroy_fails=1.0))

    @asynccontextmanager
    async def reach(
        self, machine: CloudMachine, tell: Callable[[Message], None]
    ) -> AsyncGenerator[LineChannel]:
        """As on a real VM the boot probe and the copy come first."""
        if self.fails == "boot":
            raise Unavailable("the boot probe failed")
        if self.fails == "copy":
            raise Unavailable("the runner could not be copied")
        async with self.cloud.reach(machine, tell) as link:
            requesting = link.request

            async def request(op: str, *, timeout: float, **more: object) -> RpcReply:
                if self.fails == op or (self.fails in ("boot", "copy") and op == "ping"):
                    raise Unavailable(f"no answer to {op}")
                answer = await requesting(op, timeout=timeout, **more)
                return (
                    RpcReply({**answer.message, "broken": "it says so"})
                    if self.fails == "broken" and op == "ping"
                    else answer
                )

            link.request = request  # type: ignore[method-assign]
            yield link

    @property
    def vm(self) -> FakeVm:
        """The only one."""
        (one,) = self.cloud.vms.values()
        return one


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_becomes_of_a_vm(case: Case) -> None:
    play(_check(case))


async def _check(case: Case) -> None:
    worker = Worker()
    fleet = CloudFleet(SETTINGS, worker.cloud, worker.reach, clock=asyncio.get_running_loop().time)
    if case.found:
        await _leave_behind(worker, case)
    worker.fails = "" if case.well else case.fails
    serving = asyncio.create_task(fleet.serve())
    if not case.found:
        await _until(fleet, lambda: fleet.view().is_known)
        fleet.pool.create("vm-1", TYPES[0])
    await _until(fleet, lambda: any(one.instance for one in fleet.pool.machines.values()))
    (machine,) = fleet.pool.machines.values()
    if case.well:
        await _until(fleet, lambda: machine.usable)
        if case.runs:
            await fleet.start(StartRequest(uuid=ONE, worker=machine.name, token="t"))
    await fleet.pool.hold(machine, case.behavior)
    worker.fails = case.fails
    if case.ends:
        worker.cloud.stop(worker.vm, ONE)
    await pass_time(case.age)
    assert machine.phase is case.phase, machine.why or machine.fault
    assert {
        uuid for uuid, process in fleet.view().processes.items() if process.alive
    } == case.running
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    worker.cloud.take(machine.name)


async def _leave_behind(worker: Worker, case: Case) -> None:
    tag = SETTINGS.tag
    tags = {tag("InstanceSetID"): "set", tag("InstanceType"): "type1", tag("InstanceSecret"): "s"}
    tags[tag("IdleBehavior")] = case.behavior.value
    await worker.cloud.create(
        InstanceSpec(kind=TYPES[0], image="", tags=tags, user_data="", public_key="")
    )
    if case.runs:
        worker.cloud.start(worker.vm, {"container_uuid": ONE})


async def _until(fleet: CloudFleet, condition: Callable[[], object]) -> None:
    while not condition():
        await fleet.changed()


def _phases(cases: Iterable[Case]) -> set[InstancePhase]:
    return {case.phase for case in cases}


def test_there_are_the_cases_of_the_contract_and_more() -> None:
    assert len(CASES) >= 25
    assert _phases(CASES) == {
        InstancePhase.UNKNOWN,
        InstancePhase.BOOTING,
        InstancePhase.IDLE,
        InstancePhase.RUNNING,
        InstancePhase.SHUTDOWN,
    }
