"""The end of a request: what it cost, and which collections keep its log and its output.

* Collections: the request's log (every attempt below `log for container <uuid>/`, the last one also at the top), its
  output, and for a Complete container its verbatim log, which is what lets the container be reused later.
* The output is an `intermediate` when a container made the request; properties of the container, then of the request,
  are added, the later ones win.
* A request that found a finished container costs nothing; otherwise what its attempts and their children cost.
* At the end secrets are wiped.

Source: api-contract 1.11, 1.12.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lading.core import request as requests_
from lading.core.container import Container
from lading.core.jsonvalue import JsonObject
from lading.core.request import ContainerRequest


class Keeps(StrEnum):
    """What a collection keeps; LOG and OUTPUT go to the request's `log_uuid` and `output_uuid`."""

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
    """A collection to create (its name made unique), or to bring up to date if `uuid` is set.

    Content: of an existing collection only the top-level directories whose name starts with LOG_DIRECTORY stay;
    then the pieces are placed in order. If no collection with a piece's hash exists, skip the whole collection.
    """

    keeps: Keeps
    uuid: str | None
    name: str
    owner_uuid: str
    properties: JsonObject
    storage_classes: list[str]
    trash_at: str | None
    pieces: tuple[Piece, ...]


LOG_DIRECTORY = "log for container "


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalisation:
    """A request made Final.

    Carry out `collections`, write their uuids to `log_uuid` and `output_uuid` with `change`; add `parent_cost` to the
    `subrequests_cost` of the container `parent_uuid` if that is set.
    """

    change: requests_.Change
    collections: tuple[CollectionPlan, ...]
    parent_uuid: str | None
    parent_cost: float


def finalise(
    request: ContainerRequest,
    container: Container | None,
    *,
    now: str,
    parent: Container | None = None,
    reused: bool = False,
    keep_collections: bool = True,
) -> Finalisation:
    """End a Committed request.

    `container` is its container (None if there is none any more), `parent` the one that made it; `reused`: the
    container had ended before the request was committed. Without `keep_collections` (owner trashed) none is made.
    """
    raise NotImplementedError


def refresh_log(request: ContainerRequest, container: Container, *, now: str) -> CollectionPlan | None:
    """The request's log collection while its container runs, or None if the container has no log yet."""
    raise NotImplementedError


def attempt_log(request: ContainerRequest, ended: Container, *, now: str) -> CollectionPlan | None:
    """The request's log collection after an attempt that is tried again, or None if that left no log."""
    raise NotImplementedError
