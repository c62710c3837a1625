"""The end of a request: its final state, and the collections with its results.

Finalization of a request (docs/spec/containers, section Finalization):

- Collections: the request's log (every attempt below `log for container <uuid>/`, the last one also
  at the top), its output, and for a Complete container its verbatim log, without which the
  container cannot be reused later.
- The output is an `intermediate` when a container made the request; properties of the container,
  then of the request, are added, later ones win.
- A request that found a finished container costs nothing; otherwise the sum of its attempts and
  their children.
- At the end secrets are erased.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from lading.core.containers import request as requests_
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.quantities import later
from lading.core.values import JsonObject

LOG_DIRECTORY = "log for container "
_UNNAMED_OUTPUT = "Container output for request "


class Keeps(StrEnum):
    """Purpose of a collection; LOG and OUTPUT are written to the request's `log_uuid` and
    `output_uuid`.
    """

    LOG = "log"
    OUTPUT = "output"
    CONTAINER_LOG = "container_log"


@dataclass(frozen=True, slots=True)
class Piece:
    """The content of the collection `pdh`, placed below `directory` ("" is the top)."""

    pdh: str
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlan:
    """A collection to create (its name made unique), or to update if `uuid` is set.

    Content: of an existing collection only the top-level directories whose name starts with
    LOG_DIRECTORY stay; then the pieces are placed in order. If no collection with a piece's hash
    exists, the whole collection is skipped.
    """

    keeps: Keeps
    uuid: str | None
    name: str
    owner_uuid: str
    properties: JsonObject
    storage_classes: list[str]
    trash_at: str | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalization:
    """A request that becomes Final.

    Carry out `collections`, write their uuids to `log_uuid` and `output_uuid` with `change`; add
    `parent_cost` to the `subrequests_cost` of the container `parent_uuid` if that is set.
    """

    change: requests_.RequestChange
    collections: tuple[CollectionPlan, ...]
    parent_uuid: str | None
    parent_cost: float


def finalize(
    request: ContainerRequest,
    container: Container | None,
    *,
    now: str,
    parent: Container | None = None,
    reused: bool = False,
    keep_collections: bool = True,
) -> Finalization:
    """End a Committed request.

    `container` is its container (None if there is none any more), `parent` the one that made it;
    `reused`: the container had ended before the request was committed. Without `keep_collections`
    (owner trashed) none is made.
    """
    cost = request.cumulative_cost
    # A result that was there costs its requester nothing; the one who had it computed was charged.
    if container is not None and not reused:
        cost += container.cost + container.subrequests_cost
    # The cost of an ended parent is final already.
    charged = (
        parent.uuid
        if parent is not None and parent.state is ContainerState.RUNNING and cost > 0
        else None
    )
    return Finalization(
        change=requests_.finish(request, cumulative_cost=cost),
        collections=_collections(request, container, now)
        if container is not None and keep_collections
        else (),
        parent_uuid=charged,
        parent_cost=cost if charged else 0.0,
    )


def refresh_log(
    request: ContainerRequest, container: Container, *, now: str
) -> CollectionPlan | None:
    """The request's log collection during and at the end of its container, or None without a
    log.
    """
    if container.log is None:
        return None
    # At the top, where users look for the log of the last attempt, and below its own name, which
    # stays when another attempt follows.
    pieces = (Piece(container.log, ""), Piece(container.log, LOG_DIRECTORY + container.uuid))
    return _log_plan(request, pieces, now)


def attempt_log(request: ContainerRequest, ended: Container, *, now: str) -> CollectionPlan | None:
    """The request's log collection after an attempt that will be retried, or None without a log."""
    if ended.log is None:
        return None
    return _log_plan(request, (Piece(ended.log, LOG_DIRECTORY + ended.uuid),), now)


def _collections(
    request: ContainerRequest, container: Container, now: str
) -> tuple[CollectionPlan, ...]:
    plans = (
        refresh_log(request, container, now=now),
        _output_plan(request, container, now),
        _container_log_plan(request, container),
    )
    return tuple(plan for plan in plans if plan is not None)


def _log_plan(request: ContainerRequest, pieces: tuple[Piece, ...], now: str) -> CollectionPlan:
    return CollectionPlan(
        keeps=Keeps.LOG,
        uuid=request.log_uuid,
        name=f"Container log for request {request.uuid}",
        owner_uuid=request.owner_uuid,
        properties={"type": "log", "container_request": request.uuid},
        storage_classes=request.output_storage_classes,
        trash_at=_trash_at(request, now),
        pieces=pieces,
    )


def _output_plan(
    request: ContainerRequest, container: Container, now: str
) -> CollectionPlan | None:
    if container.output is None:
        return None
    kind = "intermediate" if request.requesting_container_uuid else "output"
    added = {**container.output_properties, **request.output_properties}
    return CollectionPlan(
        keeps=Keeps.OUTPUT,
        uuid=request.output_uuid,
        name=request.output_name or f"{_UNNAMED_OUTPUT}{request.uuid}",
        owner_uuid=request.owner_uuid,
        properties={"type": kind, "container_request": request.uuid, **added},
        storage_classes=request.output_storage_classes,
        trash_at=_trash_at(request, now),
        pieces=(Piece(container.output, ""),),
    )


def _container_log_plan(request: ContainerRequest, container: Container) -> CollectionPlan | None:
    if container.log is None or container.state is not ContainerState.COMPLETE:
        return None
    return CollectionPlan(
        keeps=Keeps.CONTAINER_LOG,
        uuid=None,
        # A collection of its own without an end: reuse asks whether a collection with the hash of
        # the log exists.
        name=f"Container log for container {container.uuid}",
        owner_uuid=request.owner_uuid,
        properties={
            "type": "log",
            "container_request": request.uuid,
            "container_uuid": container.uuid,
        },
        storage_classes=request.output_storage_classes,
        trash_at=None,
        pieces=(Piece(container.log, ""),),
    )


def retained(
    plans: Iterable[CollectionPlan], *, now: str, policy: Policy
) -> tuple[CollectionPlan, ...]:
    """The plans, in which outputs without a name and lifetime of their own get the configured
    lifetime.
    """
    if not policy.output_retention:
        return tuple(plans)
    until = later(now, policy.output_retention)
    return tuple(
        dataclasses.replace(plan, trash_at=until)
        # A name or a lifetime is the sign that a user wants to keep an output.
        if plan.keeps is Keeps.OUTPUT
        and plan.trash_at is None
        and plan.name.startswith(_UNNAMED_OUTPUT)
        else plan
        for plan in plans
    )


def _trash_at(request: ContainerRequest, now: str) -> str | None:
    if not request.output_ttl:
        return None
    return later(now, request.output_ttl)
