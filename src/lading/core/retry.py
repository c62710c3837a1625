"""Whether a container that ended without a result is tried again, and for which of its requests.

* A command that ran and exited gave a result: never retried unless the configuration says so (decisions.md).
* A Cancelled container is retried for every request that is still wanted, below its container_count_max, not made by a
  container that has itself stopped, and within the limit of the failure class in `runtime_status.failure`.
* One new container serves all of them; its scheduling parameters are the most generous of theirs.

Source: api-contract 1.8; the defects noted there (forgotten attributes) are not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lading.core import request as requests_
from lading.core.container import Container
from lading.core.policy import Policy
from lading.core.request import ContainerRequest


@dataclass(frozen=True, slots=True)
class Retry:
    """The container to insert and the requests that now point at it."""

    container: Container
    changes: tuple[requests_.Change, ...]


def retries_allowed(container: Container, policy: Policy) -> int:
    """How many retries the way in which the container ended allows."""
    raise NotImplementedError


def plan(
    ended: Container,
    requests: Iterable[ContainerRequest],
    *,
    parents: Mapping[str, Container],
    uuid: str,
    now: str,
    policy: Policy,
) -> Retry | None:
    """Try again, or None.

    `ended` is the container as it was before its secrets were wiped, with its final state. `requests` are those that
    point at it, `parents` the containers that made them. `uuid` names the new container.
    """
    raise NotImplementedError
