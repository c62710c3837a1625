"""Runs the dispatcher of one fleet: connects its parts, until it is cancelled.

A cancellation leaves all containers running; the next dispatcher finds the processes through its
fleet and the records through its token, and continues with them. Nothing is stored on disk here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from lading.client.api import ApiClient
from lading.client.record_events import Reconnected, RecordEvent
from lading.client.record_events import events as records_events
from lading.core.errors import Conflict, LadingError, Unavailable
from lading.core.scheduling.planning import Category
from lading.dispatch.actions import Actions
from lading.dispatch.dispatch_trace import DispatchTrace
from lading.dispatch.fleet import Fleet
from lading.dispatch.lease import DispatcherLease
from lading.dispatch.loop import Loop, planning_of
from lading.dispatch.machine_reporter import MachineReporter
from lading.dispatch.metrics import DispatchMetrics
from lading.dispatch.queue import Queue
from lading.dispatch.queue_sync import KIND, QueueSync
from lading.dispatch.settings import DispatchSettings
from lading.dispatch.state import DispatchState
from lading.dispatch.status_publisher import DecisionLog, StatusPublisher
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event
from lading.process.tracing import OFF, SpanTracer

# Number of containers whose status has the reason that the fleet is not known: a page of the
# queue's head.
_LISTED = 100
_logger = logging.getLogger("lading.dispatch")


async def run(
    client: ApiClient,
    fleet: Fleet,
    settings: DispatchSettings,
    *,
    events: AsyncGenerator[RecordEvent | Reconnected] | None = None,
    on_ready: Callable[[], None] = lambda: None,
    lease: DispatcherLease | None = None,
    clock: Callable[[], float] = time.monotonic,
    metrics: DispatchMetrics | None = None,
    tracer: SpanTracer = OFF,
) -> None:
    """Dispatch until cancelled. `on_ready` is called once: when the processes and the queue have
    been read, or when the fleet has a reason that it is not known yet. A provider that cannot be
    reached does not keep the dispatcher from being ready.

    `events` are the changes of records, by default those of the client's websocket. `lease` is that
    of the token, which the caller holds (`lease.holding`); without it none is. Raises the client's
    error when the token is refused, Conflict when another process has taken the lease over.
    """
    token = await _own_token(client, settings)
    try:
        await _dispatch(
            client, fleet, settings, token, events, on_ready, lease, clock, metrics, tracer
        )
    except BaseExceptionGroup as failures:
        # A lost lease is reported in one sentence.
        lost = failures.subgroup(Conflict)
        raise (lost.exceptions[0] if lost is not None else failures) from None


async def _dispatch(
    client: ApiClient,
    fleet: Fleet,
    settings: DispatchSettings,
    token: str,
    events: AsyncGenerator[RecordEvent | Reconnected] | None,
    on_ready: Callable[[], None],
    lease: DispatcherLease | None,
    clock: Callable[[], float],
    metrics: DispatchMetrics | None,
    tracer: SpanTracer,
) -> None:
    queue, wake, decisions = (
        Queue(
            token=token,
            plans_disk=settings.plans_disk,
            preemptible_partitions=settings.preemptible_partitions,
            offered=settings.capabilities,
        ),
        asyncio.Event(),
        DecisionLog(clock),
    )
    fleet.set_lookup(queue.look_up)
    queue_sync = QueueSync(client, queue, token=token, settings=settings, wake=wake, clock=clock)
    ready = Once(on_ready)
    await until_known(client, fleet, interval=settings.status_interval, on_trouble=ready)
    # Locks of the earlier dispatcher are judged by records that were read after this moment.
    state = DispatchState(settings, known_since=queue.ticket())
    changes = aclosing(events or records_events(client, kinds=(KIND,), offers=queue.fields))
    async with changes as stream, asyncio.TaskGroup() as tasks:
        loop = Loop(
            queue=queue,
            fleet=fleet,
            queue_sync=queue_sync,
            actions=Actions(
                client,
                fleet,
                queue,
                decisions,
                DispatchTrace(tracer) if tracer.is_on else None,
                check=lambda: lease.check() if lease is not None else None,
            ),
            holds=lambda: lease is None or lease.is_held,
            state=state,
            decisions=decisions,
            planning=planning_of(fleet),
            only=settings.only,
            busy=lambda: (client.busy_at, client.overloaded_at),
            tasks=tasks,
            wake=wake,
            clock=clock,
            metrics=metrics,
        )
        publisher = StatusPublisher(
            client,
            loop.statuses,
            decisions,
            interval=settings.status_interval,
            longest=settings.report_interval,
            misfits=lambda: loop.overdue,
        )
        if lease is not None:
            lease.on_held = wake.set
        tasks.create_task(queue_sync.follow(stream, on_gap=publisher.repeat), name="events")
        tasks.create_task(queue_sync.fetch(), name="fetch")
        tasks.create_task(queue_sync.look(), name="look")
        # The loop begins only when the queue and the processes are known: else it would give back
        # containers whose supervisors run.
        await queue_sync.loaded.wait()
        event(_logger, "dispatcher ready", token=token, processes=len(fleet.view().processes))
        ready()
        tasks.create_task(_relay(fleet, wake), name="fleet")
        tasks.create_task(publisher.publish(), name="statuses")
        reporter = MachineReporter(client, fleet, queue.look_up, interval=settings.machine_interval)
        tasks.create_task(reporter.run(), name="machines")
        tasks.create_task(loop.run(publisher.mark), name="loop")


class Once:
    """Calls a function at the first call only."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


async def _own_token(client: ApiClient, settings: DispatchSettings) -> str:
    pause = settings.retry_first
    while True:
        try:
            return str((await client.get("api_client_authorizations", "current"))["uuid"])
        except Unavailable as error:
            event(_logger, "the API does not answer yet", why=error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, settings.retry_longest)


async def _relay(fleet: Fleet, wake: asyncio.Event) -> None:
    while True:
        await fleet.changed()
        wake.set()


async def until_known(
    client: ApiClient,
    fleet: Fleet,
    *,
    interval: float,
    on_trouble: Callable[[], None] = lambda: None,
) -> None:
    """Wait until the fleet knows its workers. Raises the errors of `Fleet.changed`.

    A cloud or a batch system that cannot be reached can take long, and nothing is decided before:
    meanwhile the reason is logged when it is new, and posted as the status of the containers at the
    head of the queue. The publisher replaces it later. `on_trouble` is called whenever the fleet
    has a reason that it is not known yet.
    """
    telling = asyncio.create_task(_post_trouble(client, fleet, interval), name="standby")
    try:
        while not (view := fleet.view()).is_known:
            if view.trouble:
                on_trouble()
            await fleet.changed()
    finally:
        await cancel_all(telling)


async def _post_trouble(client: ApiClient, fleet: Fleet, interval: float) -> None:
    logged = ""
    while True:
        # Not at once: a fleet that answers soon needs no status.
        await asyncio.sleep(interval)
        why = fleet.view().trouble
        if not why:
            continue
        if why != logged:
            event(_logger, "dispatcher waits", why=why)
            logged = why
        try:
            await _post_to_waiting(client, why)
        except LadingError as error:
            event(_logger, "statuses not posted", why=error)


async def _post_to_waiting(client: ApiClient, why: str) -> None:
    filters = [["state", "=", "Queued"], ["priority", ">", 0]]
    containers = await client.list(
        "containers", filters=filters, order=["priority desc"], select=["uuid"], limit=_LISTED
    )
    status = {"reason": Category.CAPACITY, "sentence": f"The dispatcher cannot decide yet: {why}."}
    items = {str(container["uuid"]): status for container in containers}
    if items:
        await client.request("POST", "dispatch/statuses", body={"items": items, "events": []})
