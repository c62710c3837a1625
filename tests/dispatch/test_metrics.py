"""Metrics of a dispatcher: of its fleet and queue, and of a whole run."""

from __future__ import annotations

import asyncio

from lading.client.api import ApiClient
from lading.client.retry import NO_RETRY
from lading.core.containers.container import ContainerState
from lading.core.errors import Unavailable
from lading.core.resources import GIB, Resources
from lading.core.scheduling.planning import Category, FleetWorker, WaitStatus
from lading.dispatch.fleet import FleetView, StartRequest, SupervisorProcess
from lading.dispatch.metrics import DispatchMetrics
from lading.dispatch.queue import Queue
from lading.dispatch.run import run
from lading.testing.containers import QUICK, FakeContainers
from lading.testing.fleet import FakeFleet


def test_the_fleet_is_shown() -> None:
    metrics = DispatchMetrics()
    value = metrics.registry.get_sample_value
    assert value("lading_dispatcher_fleet_known") == 0
    view = FleetView(
        is_known=True,
        workers=(
            FleetWorker("w1", Resources(4, 8 * GIB)),
            FleetWorker("w2", Resources(2, 4 * GIB)),
            # Any number of nodes of one kind: no capacity that could be told.
            FleetWorker("partition", Resources(64, 64 * GIB), queues=True),
        ),
        processes={
            "a": SupervisorProcess("w1"),
            "b": SupervisorProcess("w1", idle=True),
            "c": SupervisorProcess("w1", waiting=True),
            "d": SupervisorProcess("w1", alive=False),
        },
        unasked=("w3",),
    )
    metrics.look_at(view, Queue(token="t"))
    assert value("lading_dispatcher_fleet_known") == 1
    assert value("lading_dispatcher_workers") == 3
    assert value("lading_dispatcher_workers_unasked") == 1
    for state in ("running", "saving", "waiting", "exited"):
        assert value("lading_dispatcher_supervisors", {"state": state}) == 1
    assert value("lading_dispatcher_vcpus", {"kind": "capacity"}) == 6
    assert value("lading_dispatcher_memory_bytes", {"kind": "capacity"}) == 12 * GIB


def test_waits_are_counted_by_reason() -> None:
    metrics = DispatchMetrics()
    quota = WaitStatus(Category.QUOTA, "The quota is 1.")
    metrics.note_statuses({"a": quota, "b": quota})
    value = metrics.registry.get_sample_value
    assert value("lading_dispatcher_waiting", {"reason": "quota"}) == 2
    assert value("lading_dispatcher_waiting", {"reason": "capacity"}) == 0
    metrics.note_statuses({})
    assert value("lading_dispatcher_waiting", {"reason": "quota"}) == 0


async def test_steps_and_starts_of_a_run_are_counted() -> None:
    server, metrics = FakeContainers(), DispatchMetrics()

    async def work(assignment: StartRequest) -> None:
        server.run(assignment.uuid, assignment.token)
        server.finish(assignment.uuid, assignment.token)

    uuid, fleet = server.add(), FakeFleet(work=work)
    client = ApiClient(server, "secret", retry=NO_RETRY)
    async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run(client, fleet, QUICK, events=server.events(), metrics=metrics))
        await server.until(uuid, ContainerState.COMPLETE)
        await fleet.wait_for(lambda: _actions(metrics, "clean", "done") == 1)
        task.cancel()
    assert _actions(metrics, "start", "done") == 1
    assert _actions(metrics, "start", "failed") == 0
    assert (metrics.registry.get_sample_value("lading_dispatcher_step_seconds_count") or 0) > 1


async def test_a_start_that_fails_is_counted() -> None:
    server, metrics = FakeContainers(), DispatchMetrics()

    async def work(assignment: StartRequest) -> None:
        raise AssertionError

    class Broken(FakeFleet):
        async def start(self, request: StartRequest) -> None:
            raise Unavailable("no process")

    server.add()
    fleet, client = Broken(work=work), ApiClient(server, "secret", retry=NO_RETRY)
    async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run(client, fleet, QUICK, events=server.events(), metrics=metrics))
        while not _actions(metrics, "start", "failed"):
            await asyncio.sleep(0)
        task.cancel()


def _actions(metrics: DispatchMetrics, action: str, result: str) -> float:
    labels = {"action": action, "result": result}
    return metrics.registry.get_sample_value("lading_dispatcher_actions_total", labels) or 0.0
