"""Whether a container that exists already can answer a request, and why, or why not, for each of them.

In order of preference (api-contract 1.6): finished with exit code 0, log and output still there (the earliest
finished); running without an error and wanted (most progress, then earliest started); Locked, then Queued (highest
priority, then oldest). Cancelled and failed containers are never used. A request that is not preemptible does not
join a waiting preemptible container. Cache sizes may differ within the variations that `constraints` lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from lading.core.container import Container, State
from lading.core.policy import Policy
from lading.core.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container with the recipe's `reuse_key`, and whether collections with its log's and output's hash exist."""

    container: Container
    log_present: bool = False
    output_present: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one candidate can or cannot be used."""

    container_uuid: str
    state: State
    usable: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """Use this container."""

    container: Container
    reason: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class New:
    """Make a new container."""

    reason: str
    verdicts: tuple[Verdict, ...]


Choice: TypeAlias = Reuse | New


def choose(recipe: Recipe, candidates: Iterable[Candidate], *, policy: Policy, use_existing: bool = True) -> Choice:
    """The container to use, or the decision to make one, with a reason for each candidate.

    Pass the containers whose `reuse_key` equals `recipe.key(...)`. With `use_existing` false none is considered.
    """
    raise NotImplementedError
