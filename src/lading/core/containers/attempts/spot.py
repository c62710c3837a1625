"""Preemptible machines and deadlines among the scheduling parameters of a request.

- `preemptible` of a client is true, false or "prefer". Records have booleans only, since clients of
  Arvados read it as one: "prefer" is stored as `preemptible: true` and `prefer_preemptible: true`.
- `spot_attempts` is the number of preemptible machines that the request may lose before its
  containers get others; without it that of the configuration counts.
- `deadline` is an API time, or a number of seconds from the commit, which the commit replaces by
  the time. A container that prefers preemptible machines is started on others when it comes near
  (`core.scheduling.cloud_spot`).

Source: docs/spec/containers, section Scheduling parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from lading.core.errors import Invalid
from lading.core.quantities import format_time, later, parse_time, told_time
from lading.core.values import Json, JsonObject, integer

PREEMPTIBLE: Final = "preemptible"
PREFER: Final = "prefer"
PREFER_PREEMPTIBLE: Final = "prefer_preemptible"
SPOT_ATTEMPTS: Final = "spot_attempts"
DEADLINE: Final = "deadline"
RUN_TIME: Final = "expected_run_time"
"""Scheduling parameter of a container: seconds that its tool takes by experience. No client sets
it.
"""
KEYS: Final = frozenset({PREFER_PREEMPTIBLE, SPOT_ATTEMPTS, DEADLINE})
"""Optional scheduling parameters of a request that are checked here."""
MOST_ATTEMPTS: Final = 100
LONGEST_DEADLINE: Final = 366 * 86400
"""Seconds from the commit."""


class Preemption(IntEnum):
    """Machines that are accepted; a smaller value accepts no more preemptible ones than a greater
    one.
    """

    NEVER = 0
    PREFERRED = 1
    ONLY = 2


def preemption(scheduling: Mapping[str, object]) -> Preemption:
    """The machines that scheduling parameters accept."""
    if scheduling.get(PREEMPTIBLE) is not True:
        return Preemption.NEVER
    prefers = scheduling.get(PREFER_PREEMPTIBLE) is True
    return Preemption.PREFERRED if prefers else Preemption.ONLY


def filled(scheduling: JsonObject) -> JsonObject:
    """Scheduling parameters in their stored form: without "prefer"."""
    if scheduling.get(PREEMPTIBLE) == PREFER:
        return {**scheduling, PREEMPTIBLE: True, PREFER_PREEMPTIBLE: True}
    return scheduling


def check(scheduling: Mapping[str, Json]) -> None:
    """Check the parameters of this module, filled. Raises Invalid naming the key."""
    if not isinstance(scheduling[PREEMPTIBLE], bool):
        raise Invalid('Scheduling parameters [preemptible]: must be true, false or "prefer"')
    prefers = scheduling.get(PREFER_PREEMPTIBLE, False)
    if not isinstance(prefers, bool):
        raise Invalid(f"Scheduling parameters [{PREFER_PREEMPTIBLE}]: must be true or false")
    if prefers and not scheduling[PREEMPTIBLE]:
        raise Invalid(
            f"Scheduling parameters [{PREFER_PREEMPTIBLE}]: needs preemptible: true; "
            'send preemptible: "prefer"'
        )
    if SPOT_ATTEMPTS in scheduling and not _is_whole(scheduling[SPOT_ATTEMPTS], MOST_ATTEMPTS):
        raise Invalid(
            f"Scheduling parameters [{SPOT_ATTEMPTS}]: must be an integer from 1 to {MOST_ATTEMPTS}"
        )
    if DEADLINE in scheduling and not _is_deadline(scheduling[DEADLINE]):
        raise Invalid(
            f"Scheduling parameters [{DEADLINE}]: must be a time such as 2026-01-31T12:00:00Z, "
            f"or an integer of seconds from the commit, 1 to {LONGEST_DEADLINE}"
        )


def committed(scheduling: JsonObject, *, now: str) -> JsonObject:
    """Scheduling parameters at commit: the deadline is a time in the API's form."""
    given = scheduling.get(DEADLINE)
    if given is None:
        return scheduling
    if isinstance(given, str):
        return {**scheduling, DEADLINE: format_time(parse_time(given))}
    return {**scheduling, DEADLINE: later(now, integer(given) or 0)}


def merged(several: Sequence[Mapping[str, Json]]) -> JsonObject:
    """The parameters of one container for several requests: every request accepts its machines, and
    the earliest deadline counts.
    """
    accepted = min(preemption(parameters) for parameters in several)
    found: JsonObject = {PREEMPTIBLE: accepted is not Preemption.NEVER}
    if accepted is Preemption.PREFERRED:
        found[PREFER_PREEMPTIBLE] = True
    deadlines = [text for parameters in several if (text := deadline(parameters))]
    return {**found, DEADLINE: min(deadlines)} if deadlines else found


def without_preemptible(scheduling: JsonObject) -> JsonObject:
    """The parameters for ordinary machines alone."""
    kept = {name: value for name, value in scheduling.items() if name != PREFER_PREEMPTIBLE}
    return {**kept, PREEMPTIBLE: False}


def has_lost_enough(scheduling: Mapping[str, Json], lost: int, *, default: int) -> bool:
    """Whether a request gets ordinary machines, after the loss of so many preemptible ones.
    `default` is the number of the configuration, 0 for no limit.
    """
    most = integer(scheduling.get(SPOT_ATTEMPTS)) or default
    return 0 < most <= lost


def deadline(scheduling: Mapping[str, object]) -> str:
    """The deadline of a committed request or of a container, an API time; "" without one."""
    found = scheduling.get(DEADLINE)
    return found if isinstance(found, str) else ""


def join_fault(ours: Mapping[str, object], theirs: Mapping[str, object]) -> str | None:
    """Reason that a request does not join a container that waits, by the parameters of both; None
    if it may.
    """
    wanted, there = preemption(ours), preemption(theirs)
    if there > wanted:
        which = "alone" if wanted is Preemption.PREFERRED else "which the request does not accept"
        return f"it waits for a preemptible instance, {which}"
    # The deadline of the container decides when it moves to another machine.
    if there is Preemption.NEVER or not deadline(ours):
        return None
    if deadline(theirs) and deadline(theirs) <= deadline(ours):
        return None
    return "it may wait for a preemptible instance without regard to the deadline of the request"


def about(seconds: float) -> str:
    """A time in words, as exact as an expectation is."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {10 * round(seconds / 10)} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    if seconds < 172_800:
        return f"about {round(seconds / 3600)} h"
    return f"about {round(seconds / 86400)} days"


def late_sentence(finish: str, deadline: str) -> str:
    """Sentence about an end that is expected after the deadline; "" if it is not. API times."""
    if not deadline or finish <= deadline:
        return ""
    late = (parse_time(finish) - parse_time(deadline)).total_seconds()
    return f"It is expected to miss its deadline, {told_time(deadline)}, by {about(late)}."


def expected_finish(
    scheduling: Mapping[str, object], *, started_at: str | None, now: str, wait: float = 0.0
) -> str:
    """When a container ends that has started, or starts in `wait` seconds, by the run time among
    its scheduling parameters; "" where that is not known. Never before now.
    """
    seconds = scheduling.get(RUN_TIME)
    if not isinstance(seconds, int) or seconds <= 0:
        return ""
    return max(later(started_at, seconds) if started_at else later(now, wait + seconds), now)


def _is_whole(value: Json, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _is_deadline(value: Json) -> bool:
    if not isinstance(value, str):
        return _is_whole(value, LONGEST_DEADLINE)
    try:
        parse_time(value)
    except (ValueError, OverflowError):
        return False
    return True
