"""Decision functions of the model server: those of `core`, unless a planted bug replaces one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from lading.core.containers import finalize, lifecycle, priority, request, reuse, writers
from lading.core.containers.attempts import retry as planning
from lading.core.containers.container import Container, ContainerEffect, Reprioritise
from lading.core.containers.request import ContainerRequest
from lading.core.containers.writers import ContainerWriter
from lading.core.policy.quotas import Room, Shortage, find_room

ContainerChange: TypeAlias = lifecycle.ContainerChange


def _every(_: ContainerEffect) -> bool:
    return True


def every(subjects: Collection[str]) -> Collection[str]:
    """All subjects."""
    return subjects


def concerned(change: request.RequestChange) -> tuple[str, ...]:
    """The containers whose priority may change with a request."""
    effects = [one for one in change.effects if isinstance(one, Reprioritise)]
    return tuple(uuid for one in effects for uuid in one.container_uuids)


def below(container: Container, made: ContainerRequest) -> bool:
    """Whether the priority of the request's container follows that of `container`."""
    return made.requesting_container_uuid == container.uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRules:
    """The decision functions of the model server.

    `carries_out`: whether an effect is carried out. `concerned`: the containers whose priority is
    computed anew after the change of a request. `below`: whether the priority of a request's
    container is computed anew with that of another one. `refills`: the subjects whose waiting
    requests are looked at, of those with smaller charges. `concerns`: whether a dispatcher may
    read a container. `fences`: ended tokens are refused.
    """

    lock: Callable[..., ContainerChange] = lifecycle.lock
    unlock: Callable[..., ContainerChange] = lifecycle.unlock
    update: Callable[..., ContainerChange] = lifecycle.update
    retry: Callable[..., planning.Retry | None] = planning.plan_retries
    choose: Callable[..., reuse.Choice] = reuse.choose
    propagate: Callable[..., dict[str, int]] = priority.propagate
    finalize: Callable[..., finalize.Finalization] = finalize.finalize
    carries_out: Callable[[ContainerEffect], bool] = _every
    concerned: Callable[[request.RequestChange], tuple[str, ...]] = concerned
    below: Callable[[Container, ContainerRequest], bool] = below
    take_turns: Callable[..., frozenset[str]] = priority.take_turns
    find_room: Callable[..., Room | Shortage] = find_room
    refills: Callable[[Collection[str]], Collection[str]] = every
    concerns: Callable[[Container, ContainerWriter], bool] = writers.concerns
    fences: bool = True


CORRECT = ServerRules()
