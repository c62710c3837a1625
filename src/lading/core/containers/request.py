"""Container requests: a client's interest in the outcome of a computation, from draft to result.

    (new) [-> Uncommitted] -> Committed -> Final

* While Uncommitted every settable attribute can change; once Committed only priority,
container_count_max, container_uuid and the descriptive attributes; once Final only name,
description and properties (PHASES).
* Cancelling sets priority 0. `cancel` also ends a request whose container has not started.
* Committing requests a container (`Resolve`), or names the one to take (`Adopt`).
* A null priority counts as 0 while Uncommitted and is refused on commit.
* `expires_at` can be set until Final; `depends_on` and `start_after` with the draft (`priority`).
* `satisfy` may give a draft a container; a change of its recipe removes it again.
* Writing a value equal to the stored one is never an error: clients send whole records back.

A server commits in one transaction: `create` or `update`; for `Resolve` gather
`recipe_resolution.RequestFacts`, `recipe_resolution.resolve`, `reuse.choose`, insert
`recipe.new_container` if there was nothing to reuse; for `Adopt` load, `recipe.check_adoption`; for
`Confirm` check the draft's container, and resolve if it is no longer valid; then `assign`,
`priority.propagate`, and, if the container has ended already, `finalize.finalize(reused=True)`.

Types and bounds of attributes are in `request_rules`. docs/spec/containers, section Request states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import field, structs

from lading.core.containers.constraints import Policy
from lading.core.containers.container import (
    IGNORED,
    Adopt,
    Confirm,
    ContainerState,
    Reprioritise,
    RequestEffect,
    Resolve,
)
from lading.core.containers.mounting import mounts
from lading.core.containers.request_phases import (
    ADMIN_PHASES,
    DESCRIPTIVE,
    INITIAL,
    PHASES,
    SERVER,
    SETTABLE,
    TRANSITIONS,
    RequestState,
)
from lading.core.containers.request_rules import (
    Parent,
    brief,
    check_parent,
    committed_scheduling,
    stored,
    validate,
    with_sources,
    written_by,
)
from lading.core.errors import IllegalTransition, Invalid
from lading.core.secrets import described
from lading.core.values import (
    Json,
    JsonObject,
    as_object,
    humanised,
    printable,
    same,
    same_or_empty,
)

HIDDEN = frozenset({"secret_mounts", "runtime_token"})
"""Columns that no response of the API shows."""
GUARDED = ("state", "container_uuid", "priority")
"""Attributes compared by compare-and-set."""
WIPED: Mapping[str, Json] = MappingProxyType({"secret_mounts": {}, "runtime_token": None})
"""Secrets are erased with the end of the request."""
_FILLED = frozenset({"runtime_constraints", "scheduling_parameters", "output_storage_classes"})
# Changes of these may change the priority of containers.
_MOVES = frozenset({"state", "priority", "container_uuid", "expires_at"})
_NOT_STARTED = (None, ContainerState.QUEUED, ContainerState.LOCKED)


class ContainerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A container request record: the attributes of docs/spec/containers, section Request
    attributes.

    `attempted_container_uuids` lists the containers before the present one, oldest first.
    """

    uuid: str
    owner_uuid: str = ""
    created_at: str = ""
    modified_by_user_uuid: str = ""
    name: str | None = None
    description: str | None = None
    properties: JsonObject = field(default_factory=dict)
    state: RequestState = RequestState.UNCOMMITTED
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
    strict_output: bool = False
    output_name: str | None = None
    output_ttl: int = 0
    output_storage_classes: list[str] = field(default_factory=list)
    output_properties: JsonObject = field(default_factory=dict)
    priority: int | None = 0
    use_existing: bool = True
    match_resources: bool = False
    only_reproduced: bool = False
    parallel_group: str | None = None
    max_parallel: int = 0
    expires_at: str | None = None
    filters: list[Json] | None = None
    depends_on: list[str] = field(default_factory=list)
    start_after: str | None = None
    retry_after: str | None = None
    runtime_token: str | None = None
    log_uuid: str | None = None
    output_uuid: str | None = None
    cumulative_cost: float = 0.0
    service: bool = False
    published_ports: JsonObject = field(default_factory=dict)
    steps: list[JsonObject] = field(default_factory=list)
    committed_by_uuid: str | None = None
    secrets_needed: list[Json] = field(default_factory=list)
    resolving: bool = False

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ContainerRequest:
        """The request in a row; unknown columns are ignored, null or missing ones take their
        default.

        A null priority stays null.
        """
        given = {name: value for name in FIELDS if (value := record.get(name)) is not None}
        if "priority" in record:
            given["priority"] = record["priority"]
        given["state"] = RequestState(record.get("state") or RequestState.UNCOMMITTED)
        return cls(**given)

    def to_record(self) -> JsonObject:
        """Every attribute, hidden ones too, ready to be stored."""
        return msgspec.structs.asdict(self)

    @property
    def is_wanted(self) -> bool:
        """Whether the container is to run for this request: Committed with a priority above 0."""
        return self.state is RequestState.COMMITTED and (self.priority or 0) > 0

    def is_wanted_at(self, now: str) -> bool:
        """Whether it is wanted and has not expired."""
        return self.is_wanted and (self.expires_at is None or self.expires_at > now)


FIELDS: tuple[str, ...] = ContainerRequest.__struct_fields__


class RequestChange(msgspec.Struct, frozen=True, kw_only=True):
    """A request after an event.

    `changed` has exactly the attributes that differ (all of them on create), as values to store;
    `expected` the stored values that must still hold for the change to apply; `effects` the actions
    in the same transaction, in this order.
    """

    request: ContainerRequest
    changed: JsonObject
    expected: JsonObject
    effects: tuple[RequestEffect, ...] = ()


_OVER: JsonObject = {"state": RequestState.FINAL, "resolving": False, **WIPED}
CANCELLED: Mapping[str, Json] = MappingProxyType({"priority": 0, **_OVER})
"""Attributes of a request that was cancelled before its container had started."""

# Attributes of a draft that can change without losing its assigned container.
_BESIDE_THE_RECIPE = DESCRIPTIVE | {
    "state",
    "container_uuid",
    "container_count_max",
    "priority",
    "expires_at",
    "start_after",
    "depends_on",
    "parallel_group",
    "max_parallel",
    "output_name",
    "output_ttl",
    "output_properties",
    "modified_by_user_uuid",
    "committed_by_uuid",
}


def create(
    attributes: Mapping[str, Json],
    *,
    uuid: str,
    owner_uuid: str,
    user_uuid: str,
    now: str,
    policy: Policy,
    parent: Parent | None = None,
) -> RequestChange:
    """A new request from a client's attributes.

    `owner_uuid` is the default owner, `user_uuid` the caller, `now` an API timestamp. `parent` is
    the container whose token made the call, or, for an admin who names one in
    `requesting_container_uuid`, that container. The server checks whether the caller may write to
    the owner, and whether `runtime_token` is valid. Raises Invalid naming the attribute.
    """
    sent = _known_attributes(attributes)
    values: JsonObject = {
        "owner_uuid": owner_uuid,
        "container_count_max": policy.max_retry_attempts,
    }
    blank = ContainerRequest(uuid=uuid, **values)  # type: ignore[arg-type]
    # Those that are filled have defaults of the cluster, even if the client did not send them.
    given = [name for name in SETTABLE if name in sent or name in _FILLED]
    values |= {name: _stored(blank, name, sent.get(name), policy=policy) for name in given}
    _check_server_fields(blank, sent)
    check_parent(values.get("requesting_container_uuid"), parent)
    adopted = values.pop("container_uuid", None)
    state = _initial_state(uuid, str(values.get("state", RequestState.UNCOMMITTED)))
    if parent is not None:
        values |= {"requesting_container_uuid": parent.container_uuid, "priority": parent.priority}
    values |= {"created_at": now, "modified_by_user_uuid": user_uuid, "state": state}
    if state is RequestState.COMMITTED:
        values["committed_by_uuid"] = user_uuid
    return _checked_change(blank, values, adopted=adopted, policy=policy, new=True, now=now)


def update(
    request: ContainerRequest,
    changes: Mapping[str, Json],
    *,
    now: str,
    policy: Policy,
    user_uuid: str | None = None,
    admin: bool = False,
    parent: Parent | None = None,
) -> RequestChange:
    """The request after a client writes `changes`. `user_uuid` becomes modified_by_user_uuid if
    anything changes. `now` is an API timestamp.

    `parent` is the container that the caller acts for, or for an admin the one that is named.
    Raises Invalid naming the attribute, IllegalTransition.
    """
    values = _changed(request, changes, policy=policy, admin=admin)
    adopted = values.pop("container_uuid") if values.get("container_uuid") else None
    if "state" in values:
        values["state"] = _next_state(request, str(values["state"]))
        if values["state"] is RequestState.COMMITTED:
            values["committed_by_uuid"] = user_uuid or request.owner_uuid
    if "requesting_container_uuid" in values:
        check_parent(values["requesting_container_uuid"], parent)
        if parent is not None and values["requesting_container_uuid"] is not None:
            values["priority"] = parent.priority
    if _leaves_container(request, values):
        values.setdefault("container_uuid", None)
    if "container_uuid" in values:
        values |= _pointing(request, None)
    # Another user gave the secrets and the token of a draft for another command.
    foreign = WIPED if request.state is RequestState.UNCOMMITTED else {}
    values = written_by(user_uuid, values, last=request.modified_by_user_uuid, foreign=foreign)
    return _checked_change(request, values, adopted=adopted, policy=policy, new=False, now=now)


def _changed(
    request: ContainerRequest, changes: Mapping[str, Json], *, policy: Policy, admin: bool
) -> JsonObject:
    """Written values that differ from the stored ones and may be written in the present state."""
    values: JsonObject = {}
    for name, value in _known_attributes(changes).items():
        fresh = _stored(request, name, value, policy=policy)
        if _is_unchanged(request, name, fresh):
            continue
        _check_phase(request, name, fresh, admin=admin)
        # Nothing would find a container for it again.
        if name == "container_uuid" and not fresh and request.state is RequestState.COMMITTED:
            raise Invalid("Container uuid can be null in drafts only; cancel the request instead")
        values[name] = fresh
    return values


def cancel(request: ContainerRequest, *, container_state: ContainerState | None) -> RequestChange:
    """Priority 0, and Final at once if the container has not started (POST cancel, cascades).

    `container_state` is that of its container, None if it has none. A Final request is left as it
    is; so is an Uncommitted one but for its priority.
    """
    if request.state is RequestState.FINAL:
        return _change(request, {})
    if request.state is RequestState.COMMITTED and container_state in _NOT_STARTED:
        return _change(request, CANCELLED)
    return _change(request, {"priority": 0})


def fail(request: ContainerRequest) -> RequestChange:
    """End a Committed request that can never be run; its container stays for other requests."""
    return _change(request, _OVER)


def satisfy(request: ContainerRequest, *, policy: Policy) -> RequestChange:
    """Request a container if there is none (POST satisfy). A draft is checked as if it were
    committed.

    Raises Invalid for a draft that cannot be committed, and for a Final request without a
    container.
    """
    if request.container_uuid is not None:
        return _change(request, {})
    if request.state is RequestState.FINAL:
        raise Invalid(
            "State: a Final request without a container cannot be satisfied; make a new one"
        )
    as_committed: JsonObject = {
        **request.to_record(),
        "state": RequestState.COMMITTED,
        "priority": request.priority or 0,
    }
    validate(as_committed, fully=True, committing=True, policy=policy)
    return _change(request, {}, Resolve())


def assign(request: ContainerRequest, container_uuid: str) -> RequestChange:
    """The request pointing at `container_uuid`, counted in `container_count`; both old and new
    container get a new priority.
    """
    return _change(request, {**_pointing(request, container_uuid), "resolving": False})


def release(request: ContainerRequest) -> RequestChange:
    """The request without its container, to be given another."""
    return _change(request, _pointing(request, None))


def defer(request: ContainerRequest) -> RequestChange:
    """Mark the request while its container is sought, which takes longer than a client waits."""
    return _change(request, {"resolving": True})


def finish(request: ContainerRequest, *, cumulative_cost: float) -> RequestChange:
    """The request made Final by the server (`finalize` says when and with which collections)."""
    final: JsonObject = {"state": RequestState.FINAL, "cumulative_cost": cumulative_cost}
    return _change(request, {**final, **WIPED})


def then(first: RequestChange, second: RequestChange) -> RequestChange:
    """Combine two changes; `second` applies to the request after `first`."""
    return RequestChange(
        request=second.request,
        changed={**first.changed, **second.changed},
        expected=first.expected,
        effects=(*first.effects, *second.effects),
    )


def with_values(change: RequestChange, values: Mapping[str, Json]) -> RequestChange:
    """The same change with further attributes that the server sets, such as `log_uuid`."""
    after = structs.replace(change.request, **values)
    return structs.replace(change, request=after, changed={**change.changed, **values})


def is_abandoned(container_state: ContainerState, requests: Iterable[ContainerRequest]) -> bool:
    """Whether a container that has not started can be cancelled, because none of `requests` waits
    for it any more.

    A Committed request at priority 0 is on hold: its user still sees the container.
    """
    return container_state in _NOT_STARTED and not any(
        request.state is RequestState.COMMITTED for request in requests
    )


def _known_attributes(sent: Mapping[str, Json]) -> JsonObject:
    accepted: JsonObject = {}
    for name, value in sent.items():
        if name in IGNORED:
            continue
        if name not in PHASES:
            raise Invalid(f"unknown attribute '{printable(name)}' for ContainerRequest.")
        accepted[name] = value
    return accepted


def _stored(request: ContainerRequest, name: str, value: Json, *, policy: Policy) -> Json:
    default = policy.max_retry_attempts if name == "container_count_max" else getattr(_BLANK, name)
    return stored(
        name, value, default=request.owner_uuid if name == "owner_uuid" else default, policy=policy
    )


def _check_server_fields(blank: ContainerRequest, sent: Mapping[str, Json]) -> None:
    for name in sent.keys() - set(SETTABLE):
        if sent[name] and not same(sent[name], getattr(blank, name)):
            raise Invalid(f"{humanised(name)} cannot be set by a client; leave it out")


def _initial_state(uuid: str, named: str) -> RequestState:
    if named not in INITIAL:
        raise IllegalTransition(uuid, "nothing", printable(named))
    return RequestState(named)


def _next_state(request: ContainerRequest, named: str) -> RequestState:
    if named not in TRANSITIONS[request.state]:
        raise IllegalTransition(request.uuid, request.state, printable(named))
    return RequestState(named)


def _is_unchanged(request: ContainerRequest, name: str, fresh: Json) -> bool:
    old = getattr(request, name)
    if same_or_empty(fresh, old):
        return True
    if request.state is RequestState.UNCOMMITTED:
        return False
    if name in HIDDEN and not fresh:
        return True  # clients cannot know it, typed ones send it empty
    return name == "mounts" and mounts.same_spelling(old, as_object(name, fresh))


def _check_phase(request: ContainerRequest, name: str, fresh: Json, *, admin: bool) -> None:
    states = PHASES[name] | (ADMIN_PHASES.get(name, SERVER) if admin else SERVER)
    if request.state in states:
        return
    shown = "" if name in HIDDEN else f" ({brief(getattr(request, name))}, {brief(fresh)})"
    raise Invalid(f"{humanised(name)} cannot be modified in state '{request.state}'{shown}")


def _leaves_container(request: ContainerRequest, values: Mapping[str, Json]) -> bool:
    """Whether a draft becomes another recipe than that of the container it points at."""
    return (
        request.state is RequestState.UNCOMMITTED
        and bool(request.container_uuid)
        and not _BESIDE_THE_RECIPE.issuperset(values)
    )


def _pointing(request: ContainerRequest, container_uuid: str | None) -> JsonObject:
    old, earlier = request.container_uuid, list[Json](request.attempted_container_uuids)
    if old == container_uuid:
        return {}
    return {
        "container_uuid": container_uuid,
        "container_count": request.container_count + (container_uuid is not None),
        "attempted_container_uuids": [*earlier, old] if old and old not in earlier else earlier,
    }


def _checked_change(
    request: ContainerRequest,
    values: JsonObject,
    *,
    adopted: Json,
    policy: Policy,
    new: bool,
    now: str,
) -> RequestChange:
    """Apply checked values, check the whole, and say whether a container is to be found."""
    after = structs.replace(request, **values)
    was_draft = new or request.state is RequestState.UNCOMMITTED
    more = _derived(after, values)
    values, after = {**values, **more}, structs.replace(after, **more)
    committing = was_draft and after.state is RequestState.COMMITTED
    functional = not DESCRIPTIVE.issuperset(values)
    fully = new or (after.state is RequestState.COMMITTED and functional)
    record = after.to_record()
    validate(record, fully=fully, committing=committing, policy=policy)
    if adopted and after.state is not RequestState.COMMITTED:
        raise Invalid("Container uuid can only be updated to nil.")
    scheduling = after.scheduling_parameters
    # At commit only: drafts are stored as they were sent.
    if committing:
        scheduling = committed_scheduling(record, policy, now=now)
        values = {**values, "scheduling_parameters": scheduling}
    if after.state is RequestState.FINAL and "state" in values:
        values = {**values, **WIPED}
    wanted = _container_effects(after, adopted=adopted, committing=committing)
    if not new:
        return _change(request, values, *wanted)
    if scheduling is not after.scheduling_parameters:
        after = structs.replace(after, scheduling_parameters=scheduling)
    return RequestChange(request=after, changed=after.to_record(), expected={}, effects=wanted)


def _derived(after: ContainerRequest, values: JsonObject) -> JsonObject:
    """Attributes that follow from written `values`."""
    secrets: JsonObject = (
        {"secrets_needed": described(after.secret_mounts)} if "secret_mounts" in values else {}
    )
    return {**with_sources(after.depends_on, after.mounts), **secrets}


def _container_effects(
    after: ContainerRequest, *, adopted: Json, committing: bool
) -> tuple[RequestEffect, ...]:
    """The effect that gives the request its container."""
    if adopted:
        return (Adopt(str(adopted)),)
    if not committing:
        return ()
    return (Resolve(),) if after.container_uuid is None else (Confirm(after.container_uuid),)


def _change(
    request: ContainerRequest, values: Mapping[str, Json], *effects: RequestEffect
) -> RequestChange:
    changed = {
        name: value for name, value in values.items() if not same(value, getattr(request, name))
    }
    after = structs.replace(request, **changed)
    concerned = (request.container_uuid, after.container_uuid)
    uuids = (
        tuple(dict.fromkeys(uuid for uuid in concerned if uuid)) if _MOVES & changed.keys() else ()
    )
    # Another call may have changed the record since it was read: the change applies only to this
    # state of it.
    expected: JsonObject = {name: getattr(request, name) for name in GUARDED}
    return RequestChange(
        request=after,
        changed=changed,
        expected=expected,
        effects=(*effects, Reprioritise(uuids)) if uuids else effects,
    )


_BLANK = ContainerRequest(uuid="")
