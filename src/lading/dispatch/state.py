"""What the loop remembers between two steps: what is under way, when to try again, whom it told to
stop.

Nothing here waits or acts; `now` is seconds on the loop's clock. All of it may be lost with the
dispatcher: the records and the processes are enough to start over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from signal import Signals

from lading.core.containers.container import State
from lading.core.resources import Resources
from lading.core.scheduling import wait_history
from lading.core.scheduling.batch_planner import Status
from lading.core.scheduling.wait_history import Wait
from lading.dispatch.fleet import FleetView
from lading.dispatch.queue import Queue, Record
from lading.dispatch.settings import Settings

NOTHING = Resources()
_BUSY = "An earlier attempt is being cleared away."


@dataclass(frozen=True, slots=True)
class Pause:
    """Not before `until`; `length` is how long this pause was, `reason` a sentence for those who
    wait.
    """

    until: float
    length: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """A process was told to stop, first and last at these times."""

    first: float
    last: float


class Ledger:
    """Memory of one dispatch loop."""

    def __init__(self, settings: Settings, *, known_since: int) -> None:
        """`known_since`: the version from which on it was known which processes exist."""
        self._settings = settings
        self._known_since = known_since
        self._busy: dict[str, str] = {}
        self._began: dict[str, float] = {}
        self._given: dict[str, Resources] = {}
        self._others: dict[str, tuple[str, ...]] = {}
        self._alive: dict[str, bool] = {}
        self._gone: dict[str, int] = {}
        self._holds: dict[str, Pause] = {}
        self._retries: dict[str, Pause] = {}
        self._stops: dict[str, Stop] = {}
        self._ended: dict[str, float] = {}
        self._own: set[str] = set()
        self._twins: dict[str, float] = {}
        self._misfits: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self._waits: dict[str, tuple[Wait, ...]] = {}

    @property
    def quota(self) -> int:
        """The most containers at a time; 0 is as many as fit."""
        return self._settings.quota

    @property
    def starting(self) -> Iterator[tuple[str, str]]:
        """Containers being started, with their worker."""
        return ((uuid, worker) for uuid, worker in self._busy.items() if worker)

    def others(self, uuid: str) -> tuple[str, ...]:
        """The workers of the further ranks of a gang that is being started on several."""
        return self._others.get(uuid, ())

    def engage(
        self,
        uuid: str,
        *,
        now: float,
        worker: str = "",
        extra: Resources = NOTHING,
        others: tuple[str, ...] = (),
    ) -> None:
        """An action on this container is under way; a start when a worker is named, with `extra`
        beyond its need.
        """
        self._busy[uuid] = worker
        if others:
            self._others[uuid] = others
        if worker:
            self._began[uuid] = now
            self._own.add(uuid)
        if extra != NOTHING:
            self._given[uuid] = extra

    def release(self, uuid: str) -> None:
        """The action is over."""
        self._busy.pop(uuid, None)
        self._given.pop(uuid, None)
        self._others.pop(uuid, None)

    def given(self, uuid: str) -> Resources:
        """What a container that is being started is given beyond what its record said it needs."""
        return self._given.get(uuid, NOTHING)

    def began(self, uuid: str) -> float:
        """When this loop started it; minus infinity for one that it found running."""
        return self._began.get(uuid, float("-inf"))

    def see(self, view: FleetView, queue: Queue) -> list[str]:
        """Take note of the processes. Returns those that ended since the last look."""
        ended = [uuid for uuid, alive in self._alive.items() if alive and not _alive(view, uuid)]
        for uuid in (*ended, *(uuid for uuid in self._alive if uuid not in view.processes)):
            self._gone[uuid] = queue.ticket()
        self._alive = {uuid: process.alive for uuid, process in view.processes.items()}
        self._own |= self._alive.keys()
        return ended

    def adopt(self, uuids: Iterable[str]) -> None:
        """These were locked by an earlier dispatcher with this token."""
        self._own.update(uuids)

    def is_adopted(self, uuid: str) -> bool:
        """Whether it was locked with this token before this loop began, and was not started by
        it.
        """
        return uuid in self._own and uuid not in self._began

    def disown(self, uuid: str) -> None:
        """It was given back: whoever locks it next is responsible."""
        self._own.discard(uuid)

    def leave_to_twin(self, record: Record, *, now: float) -> bool:
        """Whether a container locked with this token has to be left alone, as another dispatcher
        must have locked it.

        No two dispatchers should use one token; if it happens, neither may undo what the other
        does. One that runs is never touched; one that stays locked is given back after a while.
        Source: docs/spec/dispatch, section Reconciliation.
        """
        if record.uuid in self._own:
            self._twins.pop(record.uuid, None)
            return False
        since = self._twins.setdefault(record.uuid, now)
        return record.state is State.RUNNING or now - since < self._settings.twin_patience

    def is_overdue_misfit(self, uuid: str, *, now: float) -> bool:
        """Whether a container that fits nowhere has done so for long enough to act on it."""
        return now - self._misfits.setdefault(uuid, now) >= self._settings.misfit_patience

    def fits(self, uuids: Iterable[str]) -> None:
        """All misfits but these fit somewhere now, or are gone."""
        kept = set(uuids)
        self._misfits = {uuid: since for uuid, since in self._misfits.items() if uuid in kept}
        self._told = {uuid: text for uuid, text in self._told.items() if uuid in kept}

    def is_news(self, uuid: str, text: str) -> bool:
        """Whether this was not what was last told of it; takes note that it is told."""
        news = self._told.get(uuid) != text
        self._told[uuid] = text
        return news

    def note_waits(self, statuses: Mapping[str, Status], queue: Queue, *, now: float) -> list[str]:
        """Take note of what containers wait for. Returns those that waited at the last look and
        have no status now.
        """
        for uuid, status in statuses.items():
            record, past = queue.get(uuid), self._waits.get(uuid, ())
            seen = now if record is None else max(record.seen, self.began(uuid))
            found = wait_history.note(past, status, seen=seen, now=now)
            if found:
                self._waits[uuid] = found
        return [uuid for uuid in self._waits if uuid not in statuses]

    def tell_waits(self, uuid: str, *, now: float) -> str:
        """What a container has waited for since this was told last; "" when it did not, or not for
        long.
        """
        return wait_history.tell(self._waits.pop(uuid, ()), now=now)

    def had_process(self, uuid: str) -> bool:
        """Whether a process of it was seen since it was last forgotten."""
        return uuid in self._gone

    def lost(self, uuid: str, queue: Queue) -> None:
        """A start failed: what was read of the record so far says nothing any more."""
        self._gone[uuid] = queue.ticket()

    def read_after(self, uuid: str) -> int:
        """The version that a record must exceed to have been read after its process was last
        seen.
        """
        return max(self._gone.get(uuid, 0), self._known_since)

    def hold(self, uuid: str, reason: str, *, now: float, refused: bool = False) -> None:
        """Do not start it for a while, longer each time; for long when the fleet has refused it."""
        least = self._settings.refusal_pause if refused else self._settings.min_retry
        pause = self._pause(self._holds.get(uuid), reason, now=now)
        self._holds[uuid] = (
            pause if pause.length >= least else Pause(now + least, pause.length, reason)
        )

    def held(self, *, now: float) -> dict[str, str]:
        """Containers not to be started now, with the reason: a pause, or an action that is not
        over.
        """
        busy = {uuid: _BUSY for uuid, worker in self._busy.items() if not worker}
        return busy | {
            uuid: pause.reason for uuid, pause in self._holds.items() if pause.until > now
        }

    def retry(self, uuid: str, *, now: float) -> None:
        """An action failed: leave the container alone for a while, longer each time."""
        self._retries[uuid] = self._pause(self._retries.get(uuid), "", now=now)

    def succeeded(self, uuid: str) -> None:
        """An action went well: the next failure waits shortly again."""
        self._retries.pop(uuid, None)

    def may_act(self, uuid: str, *, now: float) -> bool:
        """Whether nothing is under way and no pause holds."""
        pause = self._retries.get(uuid)
        return uuid not in self._busy and (pause is None or pause.until <= now)

    def stop_signal(
        self, uuid: str, *, now: float, nothing_to_save: bool = False
    ) -> Signals | None:
        """The signal that is due for a process that should end, if one is; takes note that it is
        sent.

        `nothing_to_save`: the record has ended, so that the process needs no more time than for its
        own end.
        """
        past = self._stops.get(uuid)
        if past is not None and now - past.last < self._settings.kill_interval:
            return None
        self._stops[uuid] = Stop(past.first if past else now, now)
        patience = 0.0 if nothing_to_save else self._settings.kill_patience
        patient = past is None or now - past.first < patience
        return Signals.SIGTERM if patient else Signals.SIGKILL

    def lingering(self, record: Record | None, *, now: float) -> bool:
        """Whether the process of an ended container is overdue."""
        if record is None or not record.final:
            return False
        return now - self._ended.setdefault(record.uuid, now) >= self._settings.linger

    def forget(self, uuid: str) -> None:
        """Drop all memory of a container without process."""
        tables: tuple[dict[str, float] | dict[str, int] | dict[str, Pause] | dict[str, Stop], ...]
        tables = (
            self._began,
            self._gone,
            self._holds,
            self._retries,
            self._stops,
            self._ended,
            self._twins,
        )
        for table in tables:
            table.pop(uuid, None)
        self._own.discard(uuid)

    def next_moment(self, *, now: float) -> float | None:
        """When something becomes due without any event, if anything will."""
        moments = [
            pause.until for pauses in (self._holds, self._retries) for pause in pauses.values()
        ]
        moments += [stop.last + self._settings.kill_interval for stop in self._stops.values()]
        moments += [since + self._settings.linger for since in self._ended.values()]
        moments += [since + self._settings.twin_patience for since in self._twins.values()]
        moments += [since + self._settings.misfit_patience for since in self._misfits.values()]
        return min((moment for moment in moments if moment > now), default=None)

    def _pause(self, past: Pause | None, reason: str, *, now: float) -> Pause:
        length = (
            min(past.length * 2, self._settings.retry_longest)
            if past
            else self._settings.retry_first
        )
        return Pause(now + length, length, reason)


def _alive(view: FleetView, uuid: str) -> bool:
    process = view.processes.get(uuid)
    return process is not None and process.alive
