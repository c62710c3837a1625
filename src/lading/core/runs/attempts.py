"""Attempts of a run, as the properties of its project hold them.

A run is a project with the property `lading_run`; the requests that it owns are its steps. A
pipeline that is run again makes a further attempt of the same run. Each step names its attempt
(`lading_attempt`), and the step that it is one of (`lading_step`).

| property | of | value |
|---|---|---|
| `lading_run` | project | true: it is a run; an index has these projects |
| `lading_attempts` | project | the attempts, oldest first, 50 at most |
| `lading_attempt` | request | the number of its attempt |
| `lading_step` | request | the name of its step, as the rule of a Snakefile |

Values in properties are written by clients, so that a part without the expected type counts as
missing. Source: docs/spec/api, section Runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from lading.core.errors import Invalid
from lading.core.runs.states import RunOutcome
from lading.core.values import JsonObject, integer

RUN: Final = "lading_run"
ATTEMPTS: Final = "lading_attempts"
ATTEMPT: Final = "lading_attempt"
STEP: Final = "lading_step"
PROPERTIES: Final = (RUN, ATTEMPTS, ATTEMPT, STEP)
"""Keys of properties that a vocabulary never refuses."""
MOST_ATTEMPTS: Final = 50
"""Attempts of a run that are described; the steps of earlier ones stay in its project."""
MOST_BYTES: Final = 16 << 10
"""Bytes of JSON that the parameters, or the source, of an attempt may have."""
LONGEST_NAME: Final = 200
"""Characters of the name of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttempt:
    """One attempt of a run.

    `began_at` and `ended_at` are API timestamps. No step of it was submitted before `since`.
    `session` names the process that submits its steps: a call of the same session belongs to it.
    `user` is the uuid of who began it. `params` are the values with which the pipeline was run,
    `source` says from which code: `commit`, `is_dirty`, `script`, `script_hash`, `kind`.
    """

    number: int
    began_at: str = ""
    since: str = ""
    session: str = ""
    user: str = ""
    params: JsonObject = field(default_factory=dict)
    source: JsonObject = field(default_factory=dict)
    ended_at: str | None = None
    outcome: RunOutcome | None = None
    note: str = ""
    """Why its program ended without success."""

    def shown(self) -> JsonObject:
        """Plain JSON, as it is stored; empty values are left out."""
        values: JsonObject = {
            "number": self.number,
            "began_at": self.began_at,
            "since": self.since,
            "session": self.session,
            "user": self.user,
            "params": self.params,
            "source": self.source,
            "ended_at": self.ended_at,
            "outcome": None if self.outcome is None else str(self.outcome),
            "note": self.note,
        }
        return {name: value for name, value in values.items() if value or name == "params"}


def is_run(properties: object) -> bool:
    """Whether a project with these properties is a run."""
    return isinstance(properties, Mapping) and properties.get(RUN) is True


def attempts_of(properties: Mapping[str, Any]) -> tuple[RunAttempt, ...]:
    """The attempts in the properties of a run, in the order of their numbers; none is skipped or
    doubled.
    """
    stored = properties.get(ATTEMPTS)
    attempts: dict[int, RunAttempt] = {}
    for value in stored if isinstance(stored, list) else ():
        number = integer(value.get("number")) if isinstance(value, Mapping) else None
        if number is not None and number > 0:
            attempts[number] = _read(number, value)
    return tuple(attempts[number] for number in sorted(attempts))


def find_attempt(attempts: Sequence[RunAttempt], number: int | None) -> RunAttempt | None:
    """The attempt with a number; the latest for None."""
    if number is None:
        return attempts[-1] if attempts else None
    return next((attempt for attempt in attempts if attempt.number == number), None)


def exemplary(attempts: Sequence[RunAttempt], number: int) -> RunAttempt | None:
    """The attempt that tells most about what attempt `number` will do: the latest one before it
    that its program did not report as failed or cancelled, else the latest one; None without one.
    """
    earlier = [attempt for attempt in attempts if attempt.number < number]
    whole = [attempt for attempt in earlier if attempt.outcome in (None, RunOutcome.DONE)]
    return next(reversed(whole or earlier), None)


def begin(
    attempts: Sequence[RunAttempt], fresh: RunAttempt, *, number: int | None = None
) -> tuple[tuple[RunAttempt, ...], RunAttempt]:
    """The attempts of a run after a program has begun or joined one, and that one.

    `fresh` is the attempt to be begun; its number does not count. The latest attempt is joined if
    it has the same session, or the attempt `number` if that is given. Parameters that the joined
    one lacks are added to it. Raises Invalid for a number that the run does not have.
    """
    _check_size("params", fresh.params)
    _check_size("source", fresh.source)
    latest = find_attempt(attempts, number)
    if number is not None and latest is None:
        raise Invalid(
            f"attempt: the run has no attempt {number}; leave it out to begin the next one"
        )
    is_same = latest is not None and bool(fresh.session) and latest.session == fresh.session
    if latest is not None and (number is not None or is_same):
        joined = replace(
            latest,
            params={**latest.params, **fresh.params},
            source=latest.source or fresh.source,
            ended_at=None,
            outcome=None,
            note="",
        )
        _check_size("params", joined.params)
        return _replaced(attempts, joined), joined
    new = replace(fresh, number=(attempts[-1].number if attempts else 0) + 1)
    return (*attempts, new)[-MOST_ATTEMPTS:], new


def end(
    attempts: Sequence[RunAttempt],
    *,
    number: int | None,
    now: str,
    outcome: RunOutcome,
    note: str = "",
) -> tuple[RunAttempt, ...]:
    """The attempts after the program of one has ended, of the latest for None. Raises Invalid."""
    ended = find_attempt(attempts, number)
    if ended is None:
        raise Invalid(f"attempt: the run has no attempt {number or 1}")
    return _replaced(attempts, replace(ended, ended_at=now, outcome=outcome, note=note[:1000]))


def reach_back(
    attempts: Sequence[RunAttempt], number: int, created_at: str
) -> tuple[RunAttempt, ...]:
    """The attempts after a request that was submitted at `created_at` was added to one of them."""
    attempt = find_attempt(attempts, number)
    if attempt is None or created_at >= attempt.since:
        return tuple(attempts)
    return _replaced(attempts, replace(attempt, since=created_at))


def properties_of(attempts: Sequence[RunAttempt]) -> JsonObject:
    """The properties of the project of a run."""
    return {RUN: True, ATTEMPTS: [attempt.shown() for attempt in attempts]}


def check_name(name: object) -> str:
    """The name of a run. Raises Invalid."""
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
        raise Invalid(f"name: must be a text of 1 to {LONGEST_NAME} characters")
    if not name.isprintable() or "/" in name or "#" in name:
        raise Invalid(
            "name: a run's name has no slash, no # and only characters that can be printed"
        )
    return name.strip()


def _check_size(name: str, value: JsonObject) -> None:
    size = len(msgspec.json.encode(value))
    if size > MOST_BYTES:
        raise Invalid(f"{name}: has {size} bytes as JSON, {MOST_BYTES} at most; pass long "
                      "values as files")  # fmt: skip


def _replaced(attempts: Sequence[RunAttempt], changed: RunAttempt) -> tuple[RunAttempt, ...]:
    return tuple(changed if each.number == changed.number else each for each in attempts)


def _read(number: int, value: Mapping[str, Any]) -> RunAttempt:
    ended_at = value.get("ended_at")
    outcome = value.get("outcome")
    is_known = isinstance(outcome, str) and outcome in set(RunOutcome)
    return RunAttempt(
        number=number,
        began_at=_text(value, "began_at"),
        since=_text(value, "since"),
        session=_text(value, "session"),
        user=_text(value, "user"),
        params=_object(value, "params"),
        source=_object(value, "source"),
        ended_at=ended_at if isinstance(ended_at, str) else None,
        outcome=RunOutcome(str(outcome)) if is_known else None,
        note=_text(value, "note"),
    )


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _object(value: Mapping[str, Any], name: str) -> JsonObject:
    members = value.get(name)
    return dict(members) if isinstance(members, Mapping) else {}
