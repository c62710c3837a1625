"""The memory of the dispatch loop between two steps: one record for each container.

A record holds the action under way, the time of the next try, and whether the process was asked to
stop. The records and the processes are enough to start over, so all of it may be lost with the
dispatcher. Nothing here waits or acts; `now` is seconds on the loop's clock.

`DispatchState` alone adds, changes and drops records. The time of a step depends on the number of
containers that are under way, paused or running, not on the number of waiting ones: for that, and
nothing else, it keeps sets of uuids beside the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from signal import Signals

from lading.core.containers.container import ContainerState
from lading.core.resources import Resources
from lading.core.scheduling import wait_reasons
from lading.core.scheduling.planning import KeptRoom, TrackedContainer, WaitStatus
from lading.core.scheduling.wait_reasons import Wait
from lading.dispatch.fleet import FleetView
from lading.dispatch.queue import Queue
from lading.dispatch.settings import DispatchSettings

NOTHING = Resources()
_BEFORE = float("-inf")
_BUSY = "An earlier attempt is being cleared away."
_UNREAD = "Its record is read again after an attempt to start it."


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause until `until` of `length` seconds; `reason` is a sentence for the users."""

    until: float
    length: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Times at which a process was told to stop, first and last."""

    first: float
    last: float


@dataclass(slots=True)
class ContainerActivity:
    """Actions of this dispatcher on one container, under way and past. Times: the loop's clock.

    A field that is None: there was no such action.
    """

    busy: bool = False
    """An action is under way: a start when `worker` is named."""
    worker: str = ""
    others: tuple[str, ...] = ()
    """The workers of the further ranks of a gang that is being started on several."""
    extra: Resources = NOTHING
    """The extra amount given beyond its need, during its start."""
    began: float | None = None
    """Time of the start by this loop."""
    own: bool = False
    """The container was locked by this dispatcher, or by an earlier one with this token."""
    is_doubtful: bool = False
    """A lock that may have made it Running was not answered, and may be carried out late."""
    alive: bool | None = None
    """Whether its process lived at the last look; None: it had none."""
    gone: int = 0
    """The version that the record must exceed to have been read after the process was last seen."""
    hold: Pause | None = None
    """Pause before the next start."""
    retry: Pause | None = None
    """Pause before the next action of any kind."""
    stop: Stop | None = None
    ended: float | None = None
    """Time at which its record was first seen to be final while its process was alive."""
    twin_since: float | None = None
    """Time at which it was first seen to be locked by another dispatcher with this token."""
    misfit_since: float | None = None
    """Time since which it fits no worker."""
    reported: str | None = None
    """The last reported reason why it fits no worker."""
    waits: tuple[Wait, ...] = ()
    """The causes of its waiting since the last report."""

    def moments(self, settings: DispatchSettings) -> Iterator[float]:
        """Times at which something becomes due without an event; some may have passed."""
        if self.hold is not None:
            yield self.hold.until
        if self.retry is not None:
            yield self.retry.until
        if self.stop is not None:
            yield self.stop.last + settings.kill_interval
        for since, patience in (
            (self.ended, settings.linger),
            (self.twin_since, settings.twin_patience),
            (self.misfit_since, settings.misfit_patience),
        ):
            if since is not None:
                yield since + patience


# Stands for a container without record; never changed.
_NO_ACTIVITY = ContainerActivity()


class DispatchState:
    """Memory of one dispatch loop."""

    def __init__(self, settings: DispatchSettings, *, known_since: int) -> None:
        """`known_since`: the version from which on it was known which processes exist."""
        self._settings = settings
        self._known_since = known_since
        self._activities: dict[str, ContainerActivity] = {}
        # Containers by the fields that each step needs, so that a step does not go through all
        # waiting ones. Where their order determines the order of actions, they are dictionaries:
        # that of a set differs from process to process, and no failure could be played again.
        self._busy: dict[str, None] = {}
        self._with_process: dict[str, None] = {}
        self._with_waits: dict[str, None] = {}
        self._timed: set[str] = set()
        # Containers that lock calls under way name as alternatives, with the number of calls.
        self._offered: Counter[str] = Counter()
        self._misfits: set[str] = set()
        self._unread: dict[str, None] = {}
        self.kept_rooms: Mapping[str, KeptRoom] = {}
        """The rooms that the last plan has kept for waiting containers."""

    def _at(self, uuid: str) -> ContainerActivity:
        """The record to read."""
        return self._activities.get(uuid, _NO_ACTIVITY)

    def _change(self, uuid: str) -> ContainerActivity:
        """The record to change."""
        one = self._activities.get(uuid)
        if one is None:
            one = self._activities[uuid] = ContainerActivity()
        return one

    def forget(self, uuid: str) -> None:
        """Drop all memory of a container that has no process, and no action under way."""
        if self._activities.pop(uuid, None) is not None:
            for table in (self._busy, self._with_process, self._with_waits):
                table.pop(uuid, None)
            self._timed.discard(uuid)
            self._misfits.discard(uuid)
            self._unread.pop(uuid, None)

    # Actions.

    @property
    def quota(self) -> int:
        """The most containers at a time; 0 is as many as fit."""
        return self._settings.quota

    @property
    def passing(self) -> float:
        """Seconds for which containers of unknown run time may pass one that room is kept for."""
        return self._settings.passing

    @property
    def starting(self) -> Iterator[tuple[str, str]]:
        """Containers being started, with their worker."""
        busy = ((uuid, self._activities[uuid].worker) for uuid in self._busy)
        return ((uuid, worker) for uuid, worker in busy if worker)

    def others(self, uuid: str) -> tuple[str, ...]:
        """The workers of the further ranks of a gang that is being started on several."""
        return self._at(uuid).others

    def given(self, uuid: str) -> Resources:
        """The amount that a container is given beyond its need, while it is being started."""
        return self._at(uuid).extra

    def began(self, uuid: str) -> float:
        """Time of the start by this loop; minus infinity if the container was running before."""
        one = self._activities.get(uuid)
        return _BEFORE if one is None or one.began is None else one.began

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
        one = self._change(uuid)
        self._busy[uuid] = None
        one.busy, one.worker, one.others, one.extra = True, worker, others, extra
        if worker:
            one.began, one.own = now, True

    def release(self, uuid: str) -> None:
        """Note the end of an action."""
        if uuid in self._busy:
            del self._busy[uuid]
            one = self._activities[uuid]
            one.busy, one.worker, one.others, one.extra = False, "", (), NOTHING

    def may_act(self, uuid: str, *, now: float) -> bool:
        """Whether nothing is under way and no pause holds."""
        # Asked of each container with a process at each step, as are `began` and `read_after`: the
        # record is looked up without a further call.
        one = self._activities.get(uuid)
        return (
            one is None or (not one.busy and (one.retry is None or one.retry.until <= now))
        ) and uuid not in self._offered

    def is_busy(self, uuid: str) -> bool:
        """Whether an action on it is under way."""
        return uuid in self._busy

    def is_starting(self, uuid: str) -> bool:
        """Whether a start of it is under way, which occupies a worker."""
        return bool(self._at(uuid).worker)

    @contextmanager
    def offering(self, uuids: Collection[str]) -> Iterator[None]:
        """Context of a lock call that names these alternatives: no other action than a start may
        begin on them, as one of them may be locked already.
        """
        self._offered.update(uuids)
        try:
            yield
        finally:
            self._offered.subtract(uuids)
            for uuid in uuids:
                if not self._offered[uuid]:
                    del self._offered[uuid]

    def exchange(self, uuid: str, alternative: str) -> bool:
        """Note that a start of `uuid` has locked `alternative`, which takes its place on the
        worker. Returns whether a start of `alternative` was under way: then `uuid` takes the place
        of that start, else no start of `uuid` is under way any more.
        """
        planned, locked = self._change(uuid), self._change(alternative)
        was_starting = locked.busy
        planned.worker, locked.worker = locked.worker, planned.worker
        planned.extra, locked.extra = locked.extra, planned.extra
        planned.began, locked.began = locked.began if was_starting else None, planned.began
        self._busy[alternative] = None
        locked.busy = locked.own = True
        if not was_starting:
            planned.busy = planned.own = False
            del self._busy[uuid]
        return was_starting

    # Processes.

    def see(self, view: FleetView, queue: Queue) -> list[str]:
        """Take note of the processes. Returns the processes that have ended since the last look."""
        ended = []
        for uuid, process in view.processes.items():
            activity = self._change(uuid)
            if activity.alive and not process.alive:
                ended.append(uuid)
                # The record was read before the end was seen: only a later version may show the
                # supervisor's last write.
                activity.gone = queue.ticket()
            # A process in the view was started with this token, by this dispatcher or an earlier
            # one.
            activity.alive, activity.own = process.alive, True
        for uuid in [
            known_uuid for known_uuid in self._with_process if known_uuid not in view.processes
        ]:
            activity = self._activities[uuid]
            if activity.alive:
                ended.append(uuid)
            activity.alive, activity.gone = None, queue.ticket()
        self._with_process = dict.fromkeys(view.processes)
        return ended

    def lost(self, uuid: str, queue: Queue) -> None:
        """A start failed: versions of the record read so far do not count any more."""
        # The answer that was lost may have changed the record: decisions wait for a newer version.
        self._change(uuid).gone = queue.ticket()
        self._unread[uuid] = None

    def unread(self, queue: Queue) -> dict[str, str]:
        """Containers not to be started since their record was not read after a start that failed,
        with the reason: by an older one a second lock would be tried, and its refusal would tell
        that another dispatcher was first.
        """
        for uuid in list(self._unread):
            record = queue.get(uuid)
            if record is None or record.version > self._activities[uuid].gone:
                del self._unread[uuid]
        return dict.fromkeys(self._unread, _UNREAD)

    def read_after(self, uuid: str) -> int:
        """The version that a record must exceed to have been read after its process was last
        seen.
        """
        one = self._activities.get(uuid)
        return self._known_since if one is None or one.gone < self._known_since else one.gone

    def stop_signal(
        self, uuid: str, *, now: float, nothing_to_save: bool = False
    ) -> Signals | None:
        """The signal that is due for a process that should end, if one is; takes note that it is
        sent.

        `nothing_to_save`: the record has ended, so that the process needs no more time than for its
        own end.
        """
        past = self._at(uuid).stop
        # Not more often: a supervisor needs some time from the signal to its end.
        if past is not None and now - past.last < self._settings.kill_interval:
            return None
        self._timed_change(uuid).stop = Stop(past.first if past else now, now)
        patience = 0.0 if nothing_to_save else self._settings.kill_patience
        patient = past is None or now - past.first < patience
        # TERM first, so that the supervisor can save output and log; KILL once its patience is
        # over.
        return Signals.SIGTERM if patient else Signals.SIGKILL

    def lingering(self, record: TrackedContainer | None, *, now: float) -> bool:
        """Whether the process of an ended container is overdue."""
        if record is None or not record.final:
            return False
        ended = self._at(record.uuid).ended
        if ended is None:
            ended = self._timed_change(record.uuid).ended = now
        return now - ended >= self._settings.linger

    # Locks.

    def adopt(self, uuids: Iterable[str]) -> None:
        """Note containers that an earlier dispatcher locked with this token."""
        for uuid in uuids:
            self._change(uuid).own = True

    def is_adopted(self, uuid: str) -> bool:
        """Whether it was locked with this token before this loop began, and was not started by
        it.
        """
        one = self._at(uuid)
        return one.own and one.began is None

    def disown(self, uuid: str) -> None:
        """Note that a container was unlocked: the next dispatcher that locks it is responsible."""
        if uuid in self._activities:
            self._activities[uuid].own = False

    def doubt_lock(self, uuid: str) -> None:
        """Note that a lock that may have made a container Running was not answered."""
        self._change(uuid).is_doubtful = True

    def note_lock(self, uuid: str) -> None:
        """Note that a lock succeeded."""
        self._change(uuid).is_doubtful = False

    def lose_lock(self, uuid: str) -> None:
        """Note that a lock was refused: this loop does not hold the container, unless an earlier
        lock of its own is why.
        """
        if uuid in self._activities and not self._activities[uuid].is_doubtful:
            self.disown(uuid)

    def leave_to_twin(self, record: TrackedContainer, *, now: float) -> bool:
        """Whether a container locked with this token has to be left alone, as another dispatcher
        must have locked it.

        No two dispatchers should use one token; if it happens, neither may undo the actions of the
        other. One that runs is never touched; one that stays locked is given back after a while.
        Source: docs/spec/dispatch, section Reconciliation.
        """
        one = self._at(record.uuid)
        if one.own:
            one.twin_since = None
            return False
        since = one.twin_since
        if since is None:
            since = self._timed_change(record.uuid).twin_since = now
        return record.state is ContainerState.RUNNING or now - since < self._settings.twin_patience

    # Pauses.

    def hold(self, uuid: str, reason: str, *, now: float, refused: bool = False) -> None:
        """Pause starts of a container, longer each time; for long when the fleet has refused it."""
        one = self._timed_change(uuid)
        least = self._settings.refusal_pause if refused else self._settings.min_retry
        pause = self._pause(one.hold, reason, now=now)
        # The time of a refusal does not lengthen the pauses of later failures.
        one.hold = pause if pause.length >= least else Pause(now + least, pause.length, reason)

    def held(self, *, now: float) -> dict[str, str]:
        """Containers not to be started now, with the reason: a pause, or an action that is not
        over.
        """
        # A start that is under way occupies its worker in the snapshot already, any other action
        # does not.
        found = {uuid: _BUSY for uuid in self._busy if not self._activities[uuid].worker}
        for uuid in self._timed:
            pause = self._activities[uuid].hold
            if pause is not None and pause.until > now:
                found[uuid] = pause.reason
        return found

    def retry(self, uuid: str, *, now: float) -> None:
        """An action failed: leave the container alone for a while, longer each time."""
        one = self._timed_change(uuid)
        one.retry = self._pause(one.retry, "", now=now)

    def succeeded(self, uuid: str) -> None:
        """An action went well: the next failure waits shortly again."""
        one = self._activities.get(uuid)
        if one is not None:
            one.retry = None

    def next_moment(self, *, now: float) -> float | None:
        """The next time at which an action is due without an event, or None."""
        moments = (
            moment
            for uuid in self._timed
            for moment in self._activities[uuid].moments(self._settings)
        )
        return min((moment for moment in moments if moment > now), default=None)

    def _timed_change(self, uuid: str) -> ContainerActivity:
        """The record to change in a field from which `Activity.moments` follow."""
        self._timed.add(uuid)
        return self._change(uuid)

    def _pause(self, past: Pause | None, reason: str, *, now: float) -> Pause:
        length = (
            min(past.length * 2, self._settings.retry_longest)
            if past
            else self._settings.retry_first
        )
        return Pause(now + length, length, reason)

    # Reports.

    def is_overdue_misfit(self, uuid: str, *, now: float) -> bool:
        """Whether a container that fits nowhere has done so for long enough to act on it."""
        one = self._timed_change(uuid)
        self._misfits.add(uuid)
        if one.misfit_since is None:
            one.misfit_since = now
        return now - one.misfit_since >= self._settings.misfit_patience

    def fits(self, misfits: Iterable[str]) -> None:
        """All containers but these fit somewhere now, or are gone."""
        for uuid in self._misfits.difference(misfits):
            one = self._activities[uuid]
            one.misfit_since = one.reported = None
            self._misfits.discard(uuid)

    def is_news(self, uuid: str, reason: str) -> bool:
        """Whether the reason why a container fits no worker differs from the last reported one,
        which it replaces.
        """
        activity = self._change(uuid)
        self._misfits.add(uuid)
        news, activity.reported = activity.reported != reason, reason
        return news

    def note_waits(
        self, statuses: Mapping[str, WaitStatus], queue: Queue, *, now: float
    ) -> list[str]:
        """Note the causes for which containers wait. Returns the containers that waited at the last
        look and have no status now.
        """
        for uuid, status in statuses.items():
            record = queue.get(uuid)
            seen = now if record is None else max(record.seen_at, self.began(uuid))
            found = wait_reasons.note_wait(self._at(uuid).waits, status, began=seen, now=now)
            if found:
                self._change(uuid).waits = found
                self._with_waits[uuid] = None
        return [uuid for uuid in self._with_waits if uuid not in statuses]

    def tell_waits(self, uuid: str, *, now: float) -> str:
        """The waits of a container, in words, since this was last called; "" when there was none,
        or a short one.
        """
        if uuid not in self._with_waits:
            return ""
        del self._with_waits[uuid]
        one = self._activities[uuid]
        waits, one.waits = one.waits, ()
        return wait_reasons.tell_waits(waits, now=now)
