"""Picture of the queue at a moment: what waits, runs and has ended, how fast, and until when.

Pure: the records and the time are arguments. `top` reads the records and draws the picture.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from statistics import fmean
from types import MappingProxyType
from typing import Any, Final

from lading.client.api import Record
from lading.client.outcomes import RequestOutcome
from lading.client.request_states import (
    is_reused,
    seconds_of,
    shown_command,
    shown_state,
    state_of,
    status_of,
)
from lading.core.quantities import parse_time
from lading.core.request_status import RequestStatus
from lading.core.scheduling.expected_times import rest_of, usual_seconds, work_off

RATE_TIME: Final = 300.0
"""Seconds until now of which the rate is told."""
_REMEMBERED: Final = 200
"""Latest times of one kind of request that are kept."""
# More lines than a high terminal has.
_SHOWN_ENDS: Final = 50
# Most unread waiting requests that are worked off one by one.
_MOST_WORK: Final = 100_000
_KEPT: Final = 5000
"""Latest ends that are kept: enough for the rate."""
# The number that tells one request of a series from the others: `align-17`, `align_17`.
# The number at the end of a name, for the reversed name: a name may be long.
_NUMBER = re.compile(r"\d+[._-]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRequest:
    """A request whose container runs."""

    uuid: str
    name: str
    seconds: float
    expected: float | None
    """Seconds that it will take in all, from history or its own report; None if not known."""
    vcpus: int
    ram: int
    gpus: str = ""
    """Its GPUs in words, with their device files where their machine tells them; "" for none."""

    @property
    def part(self) -> float | None:
        """Part of the work that is done, 0 to 1."""
        return None if not self.expected else min(1.0, self.seconds / self.expected)

    @property
    def left(self) -> float | None:
        """Seconds left; 0 if it takes longer than expected."""
        return None if self.expected is None else max(0.0, self.expected - self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRequest:
    """A request that has ended."""

    uuid: str
    name: str
    state: str
    """That of the API: Complete or Cancelled."""
    status: str
    """That for people, with the exit code of a failure and its reason."""
    seconds: float | None
    ended_at: str
    is_reused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePicture:
    """Numbers of waiting, running and ended requests."""

    at: str
    waiting: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    reused: int
    """Succeeded and failed requests whose container had run before."""
    per_minute: float
    seconds_left: float | None
    head: Mapping[str, str] | None
    """The request that is next in line: `uuid`, `name`, and `why` it waits."""
    runs: Sequence[RunningRequest]
    ends: Sequence[EndedRequest]
    """The latest ones, the last one first."""

    @property
    def total(self) -> int:
        """All requests of the picture."""
        return self.waiting + self.running + self.succeeded + self.failed + self.cancelled


@dataclass(slots=True)
class RequestHistory:
    """The requests that have ended: their numbers by state, the latest, and the times that each
    kind took.
    """

    uuids: set[str] = field(default_factory=set)
    statuses: Counter[RequestStatus] = field(default_factory=Counter)
    """Number of requests by status."""
    reused: int = 0
    _latest: list[RequestOutcome] = field(default_factory=list)
    _seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, outcome: RequestOutcome) -> None:
        """Count a request that is Final; a request that was counted changes nothing."""
        uuid = str(outcome.request["uuid"])
        if uuid in self.uuids:
            return
        self.uuids.add(uuid)
        self.statuses[status_of(outcome)] += 1
        self.reused += _is_reused(outcome)
        self._latest.append(outcome)
        if len(self._latest) >= 2 * _KEPT:
            self._latest = self.latest()
        container = outcome.container
        # A result that was there takes no time; how long a failure takes says little.
        if container is None or outcome.exit_code or is_reused(outcome.request, container):
            return
        if container["started_at"] and container["finished_at"]:
            taken = parse_time(container["finished_at"]) - parse_time(container["started_at"])
            durations = self._seconds.setdefault(kind_of(outcome.request), [])
            durations.append(taken.total_seconds())
            del durations[:-_REMEMBERED]

    def latest(self) -> list[RequestOutcome]:
        """The latest ones, the last one first."""
        return sorted(self._latest, key=_ended_at, reverse=True)[:_KEPT]

    def expected(self, request: Record, *, any_kind: bool = False) -> float | None:
        """Seconds that such a request takes; None if none of its kind has ended.

        `any_kind`: then what all requests take.
        """
        durations = self._seconds.get(kind_of(request))
        if durations or not any_kind:
            return usual_seconds(durations or ())
        return usual_seconds(seconds for some in self._seconds.values() for seconds in some)


def kind_of(request: Record) -> str:
    """Key of requests with equal work: the name without its number, or the program."""
    name = str(request["name"] or "")
    if name:
        found = _NUMBER.match(name[::-1])
        return name[: len(name) - found.end()] or name if found else name
    return f"{PurePosixPath((request['command'] or [''])[0]).name}()"


def first_in_line(waiting: Sequence[RequestOutcome]) -> RequestOutcome | None:
    """The request that runs next: of the highest priority the oldest, if its container waits."""
    queued = [
        outcome
        for outcome in waiting
        if outcome.container is not None and outcome.request["priority"]
    ]
    return min(
        queued,
        key=lambda outcome: (-int(outcome.request["priority"]), outcome.request["created_at"]),
        default=None,
    )


def draw(
    opened: Sequence[RequestOutcome],
    history: RequestHistory,
    now: datetime,
    *,
    total: int,
    head: Mapping[str, str] | None,
    devices: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> QueuePicture:
    """The picture of the requests that have not ended, of which `opened` are the oldest, and of
    the ended ones; `devices` has the device files of GPUs by the uuid of their container.
    """
    runs = [outcome for outcome in opened if _runs(outcome)]
    waiting = [outcome for outcome in opened if not _runs(outcome)]
    shown = [_run(outcome, history, now, devices) for outcome in runs]
    latest = history.latest()
    fresh = [
        outcome for outcome in latest if _age(outcome, now) <= RATE_TIME and not _is_reused(outcome)
    ]
    count = total - len(runs)
    return QueuePicture(
        at=now.isoformat(timespec="seconds"),
        waiting=count,
        running=len(runs),
        succeeded=history.statuses[RequestStatus.DONE],
        failed=history.statuses[RequestStatus.FAILED],
        cancelled=history.statuses[RequestStatus.CANCELLED],
        reused=history.reused,
        per_minute=round(60 * len(fresh) / RATE_TIME, 2),
        seconds_left=_left(runs, waiting, count, history, now),
        head=head,
        runs=sorted(shown, key=lambda run: -run.seconds),
        ends=[_end(outcome) for outcome in latest[:_SHOWN_ENDS]],
    )


def name_of(request: Record) -> str:
    """The name of a request for people; its command if it has none."""
    return str(request["name"] or shown_command(request))


def _left(
    runs: Sequence[RequestOutcome],
    waiting: Sequence[RequestOutcome],
    count: int,
    history: RequestHistory,
    now: datetime,
) -> float | None:
    """Seconds until all have ended, if as many run at a time as now; None if nothing is known."""
    if not runs:
        return None
    seconds_left = []
    for run in runs:
        expected = history.expected(run.request, any_kind=True)
        if expected is None:
            return None
        seconds_left.append(rest_of(expected, seconds_of(run, now) or 0.0))
    work = [history.expected(outcome.request, any_kind=True) or 0.0 for outcome in waiting]
    # Of very many only the first ones are known: the others take as long as these on average.
    if waiting:
        work += [fmean(work)] * min(count - len(waiting), _MOST_WORK)
    end_of_work = work_off(seconds_left, work)
    return None if end_of_work is None else end_of_work.end


def _run(
    outcome: RequestOutcome,
    history: RequestHistory,
    now: datetime,
    devices: Mapping[str, Sequence[str]],
) -> RunningRequest:
    container: Mapping[str, Any] = outcome.container or {}
    seconds = seconds_of(outcome, now) or 0.0
    constraints = container.get("runtime_constraints") or {}
    progress = container.get("progress")
    # The container's own report is better than the time of other containers.
    own = seconds / progress if isinstance(progress, int | float) and 0 < progress <= 1 else None
    return RunningRequest(
        uuid=str(outcome.request["uuid"]),
        name=name_of(outcome.request),
        seconds=seconds,
        expected=own if own is not None else history.expected(outcome.request),
        vcpus=_whole(constraints.get("vcpus")),
        ram=_whole(constraints.get("ram")),
        gpus=_gpus(constraints, devices.get(container.get("uuid", ""), ())),
    )


def _gpus(constraints: Mapping[str, Any], devices: Sequence[str]) -> str:
    count = gpu_count(constraints)
    if not count:
        return ""
    names = f" ({', '.join(devices)})" if devices else ""
    return f"{count} {'GPU' if count == 1 else 'GPUs'}{names}"


def gpu_count(constraints: Mapping[str, Any]) -> int:
    """The number of GPUs in runtime constraints."""
    gpu = constraints.get("gpu")
    return _whole(gpu.get("device_count")) if isinstance(gpu, Mapping) else 0


def _end(outcome: RequestOutcome) -> EndedRequest:
    container: Mapping[str, Any] = outcome.container or {}
    taken = None
    if container.get("started_at") and container.get("finished_at"):
        span = parse_time(container["finished_at"]) - parse_time(container["started_at"])
        taken = span.total_seconds()
    return EndedRequest(
        uuid=str(outcome.request["uuid"]),
        name=name_of(outcome.request),
        state=state_of(outcome.request, outcome.container),
        status=shown_state(outcome),
        seconds=taken,
        ended_at=_ended_at(outcome),
        is_reused=_is_reused(outcome),
    )


def _runs(outcome: RequestOutcome) -> bool:
    return outcome.container is not None and outcome.container["state"] == "Running"


def _is_reused(outcome: RequestOutcome) -> bool:
    return outcome.container is not None and is_reused(outcome.request, outcome.container)


def _ended_at(outcome: RequestOutcome) -> str:
    """Of a result that was there, the time of the request."""
    finished = str((outcome.container or {}).get("finished_at") or "")
    return max(finished, str(outcome.request["created_at"]))


def _age(outcome: RequestOutcome, now: datetime) -> float:
    return (now - parse_time(_ended_at(outcome))).total_seconds()


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
