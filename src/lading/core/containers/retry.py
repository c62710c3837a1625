"""Retry of a container that ended without a result (docs/spec/containers, section Retry).

- A command that ran and exited gave a result: never retried unless the configuration says so.
- A Cancelled container is retried for every request that is still wanted, below its
  container_count_max, not made by a stopped container, and within the limit of the failure class in
  `runtime_status.failure`, compared with the number of earlier attempts that failed in the same
  way.
- One new container serves all of them; its scheduling parameters are the most permissive of theirs.
  After `spot_attempts` preempted attempts it is not preemptible any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from msgspec import structs

from lading.core.containers import constraints, recipe
from lading.core.containers import request as requests_
from lading.core.containers.constraints import NO_LIMIT, Policy
from lading.core.containers.container import Container, ContainerState, failure_of
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Failure


@dataclass(frozen=True, slots=True)
class Retry:
    """The container to insert and the requests that now point at it."""

    container: Container
    changes: tuple[requests_.RequestChange, ...]


def failure_class(ended: Container) -> Failure | None:
    """Failure class of a container; None when it succeeded or the class is unknown."""
    # A failed command without a class is the fault of its user.
    if ended.state is ContainerState.COMPLETE and ended.exit_code:
        return failure_of(ended) or Failure.USER
    return failure_of(ended)


def retries_allowed(ended: Container, policy: Policy) -> int:
    """Number of retries for the failure of the container."""
    failure = failure_class(ended)
    if ended.state is ContainerState.CANCELLED:
        return NO_LIMIT if failure is None else policy.retry_limits.get(failure, NO_LIMIT)
    if ended.exit_code == 0 or failure not in (Failure.USER, Failure.OOM):
        return 0
    return policy.retry_limits.get(failure, 0)


def plan_retries(
    ended: Container,
    requests: Iterable[ContainerRequest],
    *,
    before: Container,
    parents: Mapping[str, Container],
    earlier: Mapping[str, Container],
    uuid: str,
    now: str,
    policy: Policy,
) -> Retry | None:
    """Plan a retry, or None.

    `ended` is the container in its final state, `before` the same one just before, with its
    secrets. `requests` are those that point at it, `parents` the containers that made them,
    `earlier` the known containers of their earlier attempts. `uuid` is for the new container.
    """
    allowed, failure = retries_allowed(ended, policy), failure_class(ended)
    alike = {one.uuid for one in earlier.values() if failure_class(one) is failure}
    again = [one for one in requests if _may_retry(one, allowed, alike, parents, now)]
    if not again:
        return None
    scheduling = constraints.merge_scheduling([one.scheduling_parameters for one in again])
    if failure is Failure.PREEMPTED and any(_lost_enough(one, alike, policy) for one in again):
        scheduling = {**scheduling, "preemptible": False}
    made_of = structs.replace(recipe.of_container(before), scheduling_parameters=scheduling)
    fresh = recipe.new_container(made_of, uuid=uuid, now=now)
    return Retry(fresh, tuple(_repointed(one, ended, uuid) for one in again))


def _lost_enough(request: ContainerRequest, alike: Collection[str], policy: Policy) -> bool:
    """Whether the request's attempts, including this one, have lost the allowed number of
    preemptible machines.
    """
    lost = 1 + sum(uuid in alike for uuid in request.attempted_container_uuids)
    return 0 < policy.spot_attempts <= lost


def _may_retry(
    request: ContainerRequest,
    allowed: int,
    alike: Collection[str],
    parents: Mapping[str, Container],
    now: str,
) -> bool:
    if not request.is_wanted_at(now) or request.container_count >= request.container_count_max:
        return False
    if sum(uuid in alike for uuid in request.attempted_container_uuids) >= allowed:
        return False
    if request.requesting_container_uuid is None:
        return True
    # A child of a stopped workflow is not run again.
    parent = parents.get(request.requesting_container_uuid)
    return parent is not None and parent.state is ContainerState.RUNNING and parent.priority > 0


def _repointed(request: ContainerRequest, ended: Container, uuid: str) -> requests_.RequestChange:
    change = requests_.assign(request, uuid)
    cost = request.cumulative_cost + ended.cost + ended.subrequests_cost
    return requests_.with_values(change, {"cumulative_cost": cost})
