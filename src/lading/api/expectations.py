"""Expected times of containers: how long they run, when they start, what they cost.

The decisions are those of `core.scheduling.expected_times`, the rows are in `store.run_times`.

- A dispatcher's report that containers wait makes expectations about their start, for a few
  containers every few seconds. When the dispatcher withdraws the reason because a container was
  taken, the error of the expectation is kept. Submitting and starting a container do none of this.

`api.run_times` keeps and finds the run times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec import structs

from lading.api import authorization
from lading.api.run_times import run_time_of
from lading.api.server.features import FeatureKey
from lading.api.server.identifiers import ApiClock
from lading.api.services import ApiServices
from lading.config.instance_types import instance_types
from lading.config.site import Config
from lading.core import resources
from lading.core.containers.attempts import spot
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.disk_space import disk_factor
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid
from lading.core.quantities import later, parse_time, told_time
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS
from lading.core.scheduling import cloud_spot, expected_times
from lading.core.scheduling.expected_times import RunTime
from lading.core.scheduling.instance_types import requested_gpus
from lading.core.scheduling.planning import Category
from lading.core.scheduling.wait_reasons import Scene, WaitReason
from lading.core.values import JsonObject
from lading.store import records, run_times
from lading.store.database import Database, Transaction
from lading.store.run_times import ExpectedStart

# Containers of one report about which expectations are made, and seconds until the next ones are.
_MOST_NOTED: Final = 10
_PAUSE: Final = 30.0
# Expectations that are compared with one report.
_MOST_COMPARED: Final = 100
# Reasons of containers that wait for room; another reason may last for ever.
_IN_QUEUE: Final = frozenset(
    {Category.CAPACITY, Category.QUOTA, Category.BEHIND_HEAD, Category.HANDED_OVER}
)
_COMING: Final = _IN_QUEUE | {Category.BOOTING, Category.PREPARING}
_TAKEN: Final = frozenset({ContainerState.LOCKED, ContainerState.RUNNING, ContainerState.COMPLETE})


async def take_in(services: ApiServices, reports: Mapping[str, WaitReason | None]) -> None:
    """Learn from a dispatcher's report: note expectations, or the errors of earlier ones."""
    ended = [uuid for uuid, report in reports.items() if report is None][:_MOST_COMPARED]
    if ended:
        await _compare(services.database, services.clock, ended)
    fresh = [uuid for uuid, report in reports.items() if report and report.reason in _IN_QUEUE]
    if fresh and services.features[_WORK_INTERVAL].is_over(services.clock.time(), seconds=_PAUSE):
        await _note(services.database, services.clock, fresh[:_MOST_NOTED])


async def explain(
    tx: Transaction,
    services: ApiServices,
    subject: ContainerRequest,
    container: Container | None,
    scene: Scene,
    caller: Principal,
) -> JsonObject | None:
    """The expectations about a request whose container waits or runs; None for any other.

    They come from runs of the caller alone, or for an administrator from those of the user who
    committed the request. Without a place in the queue, as where no worker can hold the container,
    no start is expected.
    """
    if container is None or container.state not in (
        ContainerState.QUEUED, ContainerState.LOCKED, ContainerState.RUNNING
    ):  # fmt: skip
        return None
    now = services.clock.now()
    user = subject.committed_by_uuid if caller.is_admin else caller.user_uuid
    run_time = await run_time_of(tx, container, user_uuid=user)
    wait = await _wait(tx, services.clock, services.config, container, scene, caller)
    error = None if wait is None else expected_times.usual_error(await run_times.errors(tx))
    finish = _finish(container, scene, run_time, wait=wait, now=now)
    deadline = spot.deadline(subject.scheduling_parameters)
    offers = _offers(services, container, run_time)
    return {
        "start_in": wait,
        "start_error": error,
        "run_time": None if run_time is None else run_time.shown(),
        "finish_at": finish or None,
        "deadline": deadline or None,
        "is_late": bool(deadline) and (finish or now) > deadline,
        "offers": [offer.shown() for offer in offers],
        "sentences": [
            *_time_sentences(wait, error, run_time, finish, now=now),
            *_deadline_sentences(deadline, finish, now=now),
            *_offer_sentences(offers, finish, run_time),
        ],
    }


def _is_coming(container: Container, scene: Scene) -> bool:
    """Whether a container waits for nothing but room."""
    reasons = {report.reason for report in scene.reports}
    return container.priority > 0 and (not reasons or not reasons.isdisjoint(_COMING))


def _finish(
    container: Container, scene: Scene, run_time: RunTime | None, *, wait: float | None, now: str
) -> str:
    """When a container is expected to end, never before now; "" where nothing says so."""
    starts = container.started_at
    is_next = _is_coming(container, scene) and not scene.ahead
    if starts is None and (wait is not None or is_next):
        starts = later(now, wait or 0.0)
    return max(later(starts, run_time.median), now) if run_time is not None and starts else ""


def _time_sentences(
    wait: float | None, error: float | None, run_time: RunTime | None, finish: str, *, now: str
) -> Iterator[str]:
    if wait is not None:
        yield expected_times.start_sentence(wait, error)
    if run_time is not None and finish:
        left = (parse_time(finish) - parse_time(now)).total_seconds()
        yield expected_times.end_sentence(left, run_time)


def _deadline_sentences(deadline: str, finish: str, *, now: str) -> list[str]:
    if finish:
        late = spot.late_sentence(finish, deadline)
        return [late] if late else []
    return (
        [f"Its deadline, {told_time(deadline)}, has passed."] if deadline and deadline < now else []
    )


def _offers(
    services: ApiServices, container: Container, run_time: RunTime | None
) -> tuple[cloud_spot.Offer, ...]:
    """The costs of its run on a preemptible and on an ordinary VM, where it may go to either."""
    config = services.config
    accepted = spot.preemption(container.scheduling_parameters)
    if run_time is None or accepted is spot.Preemption.NEVER or container.started_at is not None:
        return ()
    scheduling, limits = container.scheduling_parameters, container.runtime_constraints
    try:
        types = instance_types(config.InstanceTypes, config.Containers.PreemptiblePriceFactor)
        disk = resources.scratch(
            container.mounts, container.container_image, limits, factor=disk_factor(scheduling)
        )
        need = structs.replace(resources.need(limits), disk=disk)
    except Invalid:
        # Of a container that cannot be sized nothing is expected.
        return ()
    return cloud_spot.offers(
        need,
        requested_gpus(limits),
        types,
        seconds=run_time.median,
        extra_ram=config.Containers.ReserveExtraRAM,
    )


def _offer_sentences(
    offers: Iterable[cloud_spot.Offer], finish: str, run_time: RunTime | None
) -> list[str]:
    if run_time is None or not finish:
        return []
    again = later(finish, run_time.median + cloud_spot.BOOT)
    return [
        cloud_spot.offer_sentence(
            offer, finish, later_finish=again if offer.kind.preemptible else ""
        )
        for offer in offers
    ]


async def _wait(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    container: Container,
    scene: Scene,
    caller: Principal,
) -> float | None:
    """Seconds until a queued container starts; None where nothing says so."""
    if container.state is not ContainerState.QUEUED or not _is_coming(container, scene):
        return None
    # How long a longer queue is, is not known.
    if scene.ahead >= scene.most:
        return None
    before = await run_times.waiting_before(tx, container.priority, container.created_at)
    queue = [Container.from_record(row) for row in before]
    running = [Container.from_record(row) for row in await run_times.running(tx)]
    view = _ALL
    if not caller.is_admin:
        uuids = [member.uuid for member in (*running, *queue, container)]
        readable = await authorization.readable_uuids(tx, clock, config, CONTAINERS, uuids, caller)
        view = _View(caller.user_uuid, frozenset(readable))
    pace = await _pace(tx, running, queue, container, view, now=clock.now())
    return None if pace is None else pace.wait(len(before), more=scene.ahead - len(before))


@dataclass(frozen=True, slots=True)
class _View:
    """Whose experience counts, and the containers of which more than their number counts; None:
    that of the user of each container, and all.
    """

    user_uuid: str | None = None
    readable: frozenset[str] | None = None

    def tool(self, container: Container) -> tuple[str, str] | None:
        """The user and program of a container; None where only its number counts."""
        if self.readable is not None and container.uuid not in self.readable:
            return None
        tool = expected_times.tool_of(container, 0)
        return self.user_uuid or tool.user_uuid, tool.program


_ALL: Final = _View()


@dataclass(frozen=True, slots=True)
class _Pace:
    """Seconds that the running containers still take, and those that the waiting ones will."""

    rests: Sequence[float]
    work: Sequence[float]
    usual: float

    def wait(self, before: int, *, more: int = 0) -> float | None:
        """The wait behind the first containers of the queue, and `more` that were not read."""
        unread = [self.usual] * max(0, more)
        found = expected_times.work_off(self.rests, [*self.work[:before], *unread])
        return None if found is None else found.start


async def _pace(
    tx: Transaction,
    running: Sequence[Container],
    queue: Sequence[Container],
    asked: Container,
    view: _View,
    *,
    now: str,
) -> _Pace | None:
    """The pace of a queue, for a question about a container behind it. A tool without experience is
    taken to run as long as the others usually do, that of the container included; a running
    container of which only the number counts is taken to be half done.
    """
    tools = {
        tool for member in (*running, *queue, asked) if (tool := view.tool(member)) is not None
    }
    by_tool = await run_times.find_all(tx, tools)
    usual = expected_times.usual_seconds(run_time for some in by_tool.values() for run_time in some)
    if usual is None or not running:
        return None
    times = {tool: expected_times.usual_seconds(some) or usual for tool, some in by_tool.items()}
    moment = parse_time(now)

    def rest(container: Container) -> float:
        tool = view.tool(container)
        if tool is None:
            return usual / 2
        elapsed = (moment - parse_time(container.started_at or now)).total_seconds()
        return expected_times.rest_of(times.get(tool, usual), elapsed)

    work = [times.get(tool, usual) if (tool := view.tool(member)) else usual for member in queue]
    return _Pace([rest(member) for member in running], work, usual)


async def _note(database: Database, clock: ApiClock, uuids: Sequence[str]) -> None:
    """Note when containers are expected to start; only the first expectation about each counts."""
    now = clock.now()
    async with database.reading() as tx:
        rows = await records.among(tx, CONTAINERS, "uuid", uuids)
        containers = sorted((Container.from_record(row) for row in rows), key=_place)
        containers = [
            container for container in containers if container.state is ContainerState.QUEUED
        ]
        if not containers:
            return
        last = containers[-1]
        queue = await run_times.waiting_before(tx, last.priority, last.created_at)
        order = [Container.from_record(row) for row in queue]
        running = [Container.from_record(row) for row in await run_times.running(tx)]
        pace = await _pace(tx, running, order, last, _ALL, now=now)
    if pace is None:
        return
    # Of a longer queue only the first ones were read.
    read = order if len(order) >= run_times.MOST_QUEUE else (*order, last)
    positions = {container.uuid: number for number, container in enumerate(read)}
    waits = {
        container.uuid: pace.wait(positions[container.uuid])
        for container in containers
        if container.uuid in positions
    }
    expected = [ExpectedStart(uuid, now, wait) for uuid, wait in waits.items() if wait is not None]
    async with database.writing() as tx:
        await run_times.note_starts(tx, expected)


def _place(container: Container) -> tuple[int, str, str]:
    return -container.priority, container.created_at, container.uuid


async def _compare(database: Database, clock: ApiClock, uuids: Sequence[str]) -> None:
    """Keep the errors of the expectations about containers that do not wait any more."""
    async with database.reading() as tx:
        if not await run_times.are_expected(tx, uuids):
            return
    moment = clock.time()
    async with database.writing() as tx:
        errors = [
            expected_times.error_of(
                start.wait, (moment - parse_time(start.noted_at)).total_seconds()
            )
            for start, state in await run_times.take_starts(tx, uuids)
            # One that was cancelled says nothing.
            if state in _TAKEN
        ]
        await run_times.keep_errors(tx, errors)


class WorkInterval:
    """Lets work begin once in a while."""

    def __init__(self) -> None:
        self._began: datetime | None = None

    def is_over(self, now: datetime, *, seconds: float) -> bool:
        """Whether the work may begin now; then the next pause begins too."""
        # A clock that was set back ends the pause.
        if self._began is not None and 0 <= (now - self._began).total_seconds() < seconds:
            return False
        self._began = now
        return True


_WORK_INTERVAL: Final = FeatureKey("readings of the queue", WorkInterval)
"""Between two readings of the queue for expected starts."""
