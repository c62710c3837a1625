"""Priority of a container: which of its requests count, and the value that follows from them.

A Committed request counts, with these exceptions (docs/spec/containers, section Dependencies):

- `expires_at`: from then on its priority counts as 0.
- `start_after`: before then it counts as 0; likewise `retry_after`, the delay before a retry.
- `max_parallel`: of the requests of its user with the same `parallel_group`, so many containers run
  at a time; the others count as 0 until it is their turn (`take_turns`).
- Quotas: it counts as 0 until there is room in those that concern it (`core.policy.quotas`).
- `depends_on`: it counts as 0 until every request named there is Final with a container that is
  Complete with exit code 0. If one ended otherwise, or was deleted, the request ends too, with that
  reason.

A request that does not count still has its container, as one at priority 0 has. Others may want the
same container; then it runs for them. Existing results are used at once.

The value (docs/spec/containers, section Priority):

    P(container) = max over its wanted requests of:
                   P(parent) if the request was made inside a container that exists,
                   else priority * 2**50 - milliseconds since 1970 of the request's creation;
                   0 without requests

So a higher user priority always wins, then the older request, and children rank with their parent.
Integers are exact (they exceed 2**53).

A server recomputes a set of containers as follows: add their descendants (containers in LIVE states
of requests whose `requesting_container_uuid` is in the set, repeatedly), load every Committed
request that points at a container of the set and the containers that made those requests, then call
`propagate`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from lading.core.containers import request_phases
from lading.core.containers.container import Container, ContainerState
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid
from lading.core.quantities import parse_time, told_time
from lading.core.values import Json, JsonObject, printable

_SOURCE = "container_request"
GroupKey = tuple[str, str]
"""The user who committed the requests of a group, and its name."""
# 2**50 milliseconds are 35,000 years, so the time of creation never outweighs a step of priority.
STEP = 1 << 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Readiness(StrEnum):
    """Readiness of a request."""

    READY = "ready"
    EXPIRED = "expired"
    EARLY = "start time"
    DEPENDENT = "dependency"
    BROKEN = "broken dependency"
    TURN = "turn"
    PAUSED = "retry delay"
    QUOTA = "usage quota"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A request that another depends on, with its container; `request` None: it was deleted."""

    request: ContainerRequest | None
    container: Container | None = None


@dataclass(frozen=True, slots=True)
class ReadinessVerdict:
    """Readiness of a request, and a sentence with the reason for which it does not count; "" when
    it does.
    """

    readiness: Readiness
    sentence: str = ""
    dependency_uuid: str | None = None

    @property
    def counts(self) -> bool:
        """Whether its priority counts."""
        return self.readiness is Readiness.READY


READY = ReadinessVerdict(Readiness.READY)


def bind_siblings(attributes: Mapping[str, Json], uuids: Sequence[str]) -> JsonObject:
    """The attributes of one request of several, with uuids in place of `#0`, `#1`, ...

    `uuids` are those of the requests before it. Raises Invalid for a number that is not below.
    """
    # A copy: what the client sent stays as it is.
    bound = dict(attributes)
    named = attributes.get("depends_on")
    if isinstance(named, list):
        bound["depends_on"] = [_sibling(reference, uuids) for reference in named]
    mounted = attributes.get("mounts")
    if isinstance(mounted, dict):
        bound["mounts"] = {
            target: {**spec, _SOURCE: _sibling(spec[_SOURCE], uuids)}
            if isinstance(spec, dict) and _SOURCE in spec
            else spec
            for target, spec in mounted.items()
        }
    return bound


def _sibling(name: Json, uuids: Sequence[str]) -> Json:
    if not isinstance(name, str) or not name.startswith("#"):
        return name
    number = name[1:]
    # Six digits: a call has at most 1,000 requests, and Python takes long for the value of a very
    # long number.
    if not (number.isascii() and number.isdigit() and int(number[:6]) < len(uuids)):
        raise Invalid(f"{printable(name)} names no earlier request of this call")
    return uuids[int(number[:6])]


def judge_readiness(
    request: ContainerRequest, dependencies: Mapping[str, Dependency], *, now: str
) -> ReadinessVerdict:
    """Readiness of a request at `now`. `dependencies` has every named request that exists."""
    # A broken dependency ends the request, so it is tested before the times.
    broken = next(
        (
            verdict
            for verdict in _dependencies(request, dependencies)
            if verdict.readiness is Readiness.BROKEN
        ),
        None,
    )
    if broken is not None:
        return broken
    if request.expires_at is not None and request.expires_at <= now:
        return ReadinessVerdict(
            Readiness.EXPIRED,
            f"It expired at {told_time(request.expires_at)}: its priority counts as 0 since then.",
        )
    for verdict in _dependencies(request, dependencies):
        # Named before the start time: that passes by itself, the other request may need somebody.
        if verdict.readiness is Readiness.DEPENDENT:
            return verdict
    if request.start_after is not None and request.start_after > now:
        moment = told_time(request.start_after)
        return ReadinessVerdict(Readiness.EARLY, f"It is to start after {moment}.")
    if request.retry_after is not None and request.retry_after > now:
        return ReadinessVerdict(
            Readiness.PAUSED,
            f"Its last attempt failed; it is tried again after {told_time(request.retry_after)}.",
        )
    return READY


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A Committed request of a group that takes turns, and its container, which has not ended.

    `most` is its `max_parallel`; `holds`: its container is Locked or Running.
    """

    uuid: str
    container_uuid: str
    priority: int
    created_at: str
    most: int
    holds: bool = False


def group_of(request: ContainerRequest) -> GroupKey | None:
    """The group in which a request takes turns; None without a limit."""
    if not (request.max_parallel and request.parallel_group and request.committed_by_uuid):
        return None
    return request.committed_by_uuid, request.parallel_group


def take_turns(members: Iterable[GroupMember]) -> frozenset[str]:
    """The containers of a group that may run now: the running ones, then, by priority and age, as
    many more as the limit of each request admits.
    """
    listed = list(members)
    # By container: several requests of a group may share one, which takes one place. Running ones
    # keep their place even if the limit was lowered since.
    taken = {member.container_uuid for member in listed if member.holds}
    for member in sorted(
        listed, key=lambda member: (-member.priority, member.created_at, member.uuid)
    ):
        # Each request has a limit of its own; the strictest does not bind the others of the group.
        if len(taken) < member.most:
            taken.add(member.container_uuid)
    return frozenset(taken)


def out_of_turn(request: ContainerRequest) -> ReadinessVerdict:
    """The verdict about a request whose turn has not come."""
    return ReadinessVerdict(
        Readiness.TURN,
        f"It waits for its turn: at most {request.max_parallel} containers of the group "
        f"{printable(request.parallel_group or '')} run at a time.",
    )


def _dependencies(
    request: ContainerRequest, dependencies: Mapping[str, Dependency]
) -> list[ReadinessVerdict]:
    return [
        judge_dependency(uuid, dependencies.get(uuid, Dependency(None)))
        for uuid in request.depends_on
    ]


def judge_dependency(uuid: str, dependency: Dependency) -> ReadinessVerdict:
    """State of a request for its dependents: READY once it has ended well, DEPENDENT before its
    end, BROKEN when it can never end well.
    """
    request, container = dependency.request, dependency.container
    if request is None:
        return _broken(uuid, "was deleted")
    if request.state is not request_phases.RequestState.FINAL:
        doing = (
            "is still a draft"
            if request.state is request_phases.RequestState.UNCOMMITTED
            else "has not ended"
        )
        return ReadinessVerdict(
            Readiness.DEPENDENT, f"It waits for the request {uuid}, which {doing}.", uuid
        )
    if container is None or container.state in (
        ContainerState.QUEUED,
        ContainerState.LOCKED,
        ContainerState.RUNNING,
    ):
        return _broken(uuid, "ended without a result")
    if container.state is ContainerState.CANCELLED:
        return _broken(uuid, "was cancelled")
    if container.exit_code != 0:
        return _broken(uuid, f"ended with exit code {container.exit_code}")
    return READY


def _broken(uuid: str, how: str) -> ReadinessVerdict:
    return ReadinessVerdict(
        Readiness.BROKEN, f"It depends on the request {uuid}, which {how}.", uuid
    )


def own_priority(priority: int, created_at: str) -> int:
    """Value of a request that was not made by a container; `created_at` is an API timestamp."""
    microseconds = (parse_time(created_at) - _EPOCH) // _MICROSECOND
    # Rounded to milliseconds, in integers.
    return priority * STEP - (microseconds + 500) // 1000


def container_priority(
    requests: Iterable[ContainerRequest], parents: Mapping[str, int | None]
) -> int:
    """The priority of the container that `requests` point at.

    `parents` gives the priority of each requesting container; an absent or null one counts as no
    parent.
    """
    return max(
        (request_value(request, parents) for request in requests if request.is_wanted), default=0
    )


def propagate(
    priorities: Mapping[str, int | None],
    requests: Iterable[ContainerRequest],
    *,
    recompute: Iterable[str],
) -> dict[str, int]:
    """The new priorities of those containers in `recompute` whose stored priority is wrong.

    `priorities` has the stored priority of every named container; `requests` all Committed requests
    that point at a container in `recompute`. Recomputed parents count with their new value. A
    container that requested itself, directly or not, gains nothing by that.
    """
    wanting: defaultdict[str, list[ContainerRequest]] = defaultdict(list)
    for request in requests:
        wanting[request.container_uuid or ""].append(request)
    due = dict.fromkeys(recompute, 0)
    # Zero until computed: a cycle contributes nothing.
    current = {**priorities, **due}
    # Parents first, so that one pass is enough however deep the workflow is.
    for uuid in parents_first(due, wanting):
        due[uuid] = current[uuid] = container_priority(wanting[uuid], current)
    return {uuid: value for uuid, value in due.items() if value != priorities.get(uuid)}


def request_value(request: ContainerRequest, parents: Mapping[str, int | None]) -> int:
    """The rank of a request that counts: its part in the priority of its container."""
    # The priority of the request itself does not count: a workflow and all its parts move together.
    inherited = parents.get(request.requesting_container_uuid or "")
    if inherited is not None:
        return inherited
    return own_priority(request.priority or 0, request.created_at)


def parents_first(due: Collection[str], wanting: Mapping[str, list[ContainerRequest]]) -> list[str]:
    """The containers in `due`, each after its requesting containers in `due`; a cycle is cut where
    it is entered.
    """
    ordered: dict[str, None] = {}
    entered: set[str] = set()
    # An explicit stack: workflows may be nested deeper than Python's recursion limit.
    stack = list(due)
    while stack:
        uuid = stack[-1]
        if uuid in entered:
            # Its parents were pushed above it and are done; a second entry of the same uuid changes
            # nothing.
            ordered[stack.pop()] = None
            continue
        entered.add(uuid)
        parents = (request.requesting_container_uuid for request in wanting.get(uuid, ()))
        stack.extend(
            parent
            for parent in parents
            if parent is not None and parent in due and parent not in entered
        )
    return list(ordered)
