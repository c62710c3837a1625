"""Container requests: a client's interest in the outcome of a computation, from draft to result.

    (new) -> Uncommitted -> Committed -> Final            (new) -> Committed

* While Uncommitted everything that a client may set can change; once Committed only priority, container_count_max,
  container_uuid and the descriptive attributes; once Final only name, description and properties (seed 002, PHASES).
* To cancel is to set priority 0. `cancel` also ends a request whose container has not started.
* Committing with no container asks for one to be found or made (`Resolve`); naming one asks for that (`Adopt`).
* A null priority counts as 0 while Uncommitted and is refused on commit (decisions.md).
* Writing a value equal to the stored one is never an error: clients send whole records back.
* What this server does not offer yet is refused by name, never ignored: UNOFFERED.

How a server commits, in one transaction: `create` or `update`; for `Resolve` gather `recipe.Facts`, `recipe.resolve`,
`reuse.choose`, insert `recipe.new_container` if there was nothing to reuse; for `Adopt` load, `recipe.check_adoption`;
then `assign`, `priority.propagate`, and, if the container has ended already, `finalise.finalise(reused=True)`.

Source: api-contract 1.1-1.4, decisions.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from lading.core import container as containers
from lading.core.effects import RequestEffect
from lading.core.jsonvalue import Json, JsonObject
from lading.core.policy import Policy


class State(StrEnum):
    """The states of a container request."""

    UNCOMMITTED = "Uncommitted"
    COMMITTED = "Committed"
    FINAL = "Final"


TRANSITIONS: Mapping[State, tuple[State, ...]] = MappingProxyType(
    {State.UNCOMMITTED: (State.COMMITTED,), State.COMMITTED: (State.FINAL,), State.FINAL: ()}
)
INITIAL = (State.UNCOMMITTED, State.COMMITTED)

_ALWAYS = frozenset(State)
_DRAFT = frozenset({State.UNCOMMITTED})
_OPEN = frozenset({State.UNCOMMITTED, State.COMMITTED})
_SERVER: frozenset[State] = frozenset()

PHASES: Mapping[str, frozenset[State]] = MappingProxyType(
    {
        "name": _ALWAYS,
        "description": _ALWAYS,
        "properties": _ALWAYS,
        "state": _ALWAYS,
        "owner_uuid": _ALWAYS,
        "container_uuid": _OPEN,
        "container_count_max": _OPEN,
        "priority": _OPEN,
        "command": _DRAFT,
        "container_image": _DRAFT,
        "cwd": _DRAFT,
        "environment": _DRAFT,
        "mounts": _DRAFT,
        "secret_mounts": _DRAFT,
        "runtime_constraints": _DRAFT,
        "scheduling_parameters": _DRAFT,
        "output_path": _DRAFT,
        "output_glob": _DRAFT,
        "output_name": _DRAFT,
        "output_ttl": _DRAFT,
        "output_storage_classes": _DRAFT,
        "output_properties": _DRAFT,
        "use_existing": _DRAFT,
        "runtime_token": _DRAFT,
        "service": _DRAFT,
        "published_ports": _DRAFT,
        "expires_at": _DRAFT,
        "filters": _DRAFT,
        "uuid": _SERVER,
        "requesting_container_uuid": _SERVER,
        "container_count": _SERVER,
        "attempted_container_uuids": _SERVER,
        "log_uuid": _SERVER,
        "output_uuid": _SERVER,
        "cumulative_cost": _SERVER,
    }
)
"""In which stored states a client may write each attribute; a record being created counts as Uncommitted."""

HIDDEN = frozenset({"secret_mounts", "runtime_token"})
"""Columns that no answer of the API shows."""

UNOFFERED: Mapping[str, str] = MappingProxyType(
    {
        "expires_at": "a request cannot expire",
        "filters": "candidates cannot be filtered",
        "depends_on": "a request cannot wait for other requests",
        "start_after": "a request cannot wait for a time",
        "published_ports": "ports of a container cannot be published",
    }
)
"""Attributes that this server refuses unless they are empty, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """A container request record: the attributes of api-contract 1.1 and `attempted_container_uuids`.

    `attempted_container_uuids` lists the containers that were tried before the present one, oldest first.
    """

    uuid: str
    owner_uuid: str = ""
    created_at: str = ""
    modified_by_user_uuid: str = ""
    name: str | None = None
    description: str | None = None
    properties: JsonObject = field(default_factory=dict)
    state: State = State.UNCOMMITTED
    requesting_container_uuid: str | None = None
    container_uuid: str | None = None
    container_count_max: int = 3
    container_count: int = 0
    attempted_container_uuids: list[str] = field(default_factory=list)
    command: list[str] | None = None
    container_image: str | None = None
    cwd: str = "."
    environment: JsonObject = field(default_factory=dict)
    mounts: JsonObject = field(default_factory=dict)
    secret_mounts: JsonObject = field(default_factory=dict)
    runtime_constraints: JsonObject = field(default_factory=dict)
    scheduling_parameters: JsonObject = field(default_factory=dict)
    output_path: str | None = None
    output_glob: list[str] = field(default_factory=list)
    output_name: str | None = None
    output_ttl: int = 0
    output_storage_classes: list[str] = field(default_factory=list)
    output_properties: JsonObject = field(default_factory=dict)
    priority: int | None = 0
    use_existing: bool = True
    expires_at: str | None = None
    filters: list[Json] | None = None
    runtime_token: str | None = None
    log_uuid: str | None = None
    output_uuid: str | None = None
    cumulative_cost: float = 0.0
    service: bool = False
    published_ports: JsonObject = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ContainerRequest:
        """The request in a row; unknown columns are ignored, null or missing ones take their default.

        A null priority stays null.
        """
        known = {name: record[name] for name in FIELDS if record.get(name) is not None}
        if "priority" in record:
            known["priority"] = record["priority"]
        return cls(**{**known, "state": State(known.get("state", State.UNCOMMITTED))})

    def to_record(self) -> JsonObject:
        """Every attribute, hidden ones too, ready to be stored."""
        return {name: getattr(self, name) for name in FIELDS}

    @property
    def is_wanted(self) -> bool:
        """Whether it asks for its container to be run: Committed with a priority above 0."""
        return self.state is State.COMMITTED and (self.priority or 0) > 0


FIELDS: tuple[str, ...] = tuple(one.name for one in dataclasses.fields(ContainerRequest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The container that makes a request, and the highest priority of the requests for that container."""

    container_uuid: str
    state: containers.State
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A request after an event.

    `changed` holds exactly the attributes that differ (all of them on create), as values to store; `expected` what
    must still be stored for the change to apply; `effects` what to do in the same transaction, in this order.
    """

    request: ContainerRequest
    changed: JsonObject
    expected: JsonObject
    effects: tuple[RequestEffect, ...] = ()


def create(
    attributes: Mapping[str, Json],
    *,
    uuid: str,
    owner_uuid: str,
    user_uuid: str,
    now: str,
    policy: Policy,
    parent: Parent | None = None,
) -> Change:
    """A new request from what a client sent.

    `owner_uuid` is the default owner, `user_uuid` the caller, `now` an API timestamp. `parent` is the container whose
    token made the call, or, for an admin who names one in `requesting_container_uuid`, that container.
    Whether the caller may write to the owner, and whether `runtime_token` is alive, is for the server to check.
    Raises Invalid naming the attribute.
    """
    raise NotImplementedError


def update(
    request: ContainerRequest,
    changes: Mapping[str, Json],
    *,
    policy: Policy,
    user_uuid: str | None = None,
    admin: bool = False,
) -> Change:
    """The request after a client writes `changes`. `user_uuid` becomes modified_by_user_uuid if anything changes.

    Raises Invalid naming the attribute, IllegalTransition.
    """
    raise NotImplementedError


def cancel(request: ContainerRequest, *, container_state: containers.State | None) -> Change:
    """Priority 0, and Final at once if the container has not started (POST cancel; cascade of api-contract 1.8).

    `container_state` is that of its container, None if it has none. A Final request is left as it is; so is an
    Uncommitted one but for its priority.
    """
    raise NotImplementedError


def assign(request: ContainerRequest, container_uuid: str) -> Change:
    """The request pointing at `container_uuid`, counted in `container_count`; recompute both old and new priority."""
    raise NotImplementedError


def check_parameters(parameters: Mapping[str, object]) -> None:
    """Refuse the parameters of create and update that this server does not offer (`satisfy`). Raises Invalid."""
    raise NotImplementedError
