"""Steps that failed and were submitted again within one attempt: the later one counts.

A request repeats an earlier one if it has the same name, command, environment and mounts; its image
and its resources may be others. A mount of the output of a request that was repeated is that of the
repeating one. Other commands or inputs under one name, as of many samples, are other steps: a
failure is hidden by nothing but a repetition of itself. Source: docs/spec/api, section Runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lading.core.request_status import RequestStatus
from lading.core.values import canonical

_BAD: Final = (RequestStatus.FAILED, RequestStatus.CANCELLED)
_SOURCE: Final = "container_request"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedStep:
    """A request as far as it decides which one it repeats."""

    uuid: str
    status: RequestStatus
    name: str
    command: Any
    environment: Any
    mounts: Any


def repeated_steps(steps: Iterable[SubmittedStep]) -> dict[str, RequestStatus]:
    """The failed and cancelled steps that a later one repeats, with their statuses, by uuid;
    `steps` are in the order of their submission.
    """
    firsts: dict[str, str] = {}
    first_of: dict[str, str] = {}
    last: dict[str, str] = {}
    steps = tuple(steps)
    for step in steps:
        recipe = canonical([step.name, step.command, step.environment, _mounts(step, first_of)])
        first = first_of[step.uuid] = firsts.setdefault(recipe, step.uuid)
        last[first] = step.uuid
    return {
        step.uuid: step.status
        for step in steps
        if step.status in _BAD and last[first_of[step.uuid]] != step.uuid
    }


def _mounts(step: SubmittedStep, first_of: Mapping[str, str]) -> Any:
    """The mounts, in which each request whose output is mounted is the first of its kind."""
    if not isinstance(step.mounts, Mapping):
        return step.mounts
    return {
        target: {**mount, _SOURCE: first_of.get(str(mount[_SOURCE]), mount[_SOURCE])}
        if isinstance(mount, Mapping) and _SOURCE in mount
        else mount
        for target, mount in step.mounts.items()
    }
