"""runtime_constraints and scheduling_parameters: filled with their defaults, checked, resolved, compared, merged.

* Both are stored with every key present, zero where the client said nothing (api-contract 1.9, 1.10).
* `ram` and `vcpus` must be positive when the request is committed. Ranges and capabilities other than `API` are refused.
* The legacy `cuda` is kept and also written as `gpu`.
* Caches do not change a result: containers with other cache sizes are acceptable (api-contract 1.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lading.core.jsonvalue import Json, JsonObject
from lading.core.policy import Policy

GIB = 1 << 30
CACHE_MIN, CACHE_MAX = 2 * GIB, 32 * GIB
RUNNER = "arvados-cwl-runner"


def fill(given: Mapping[str, Json]) -> JsonObject:
    """Runtime constraints with every key; `cuda` with devices also gives `gpu`."""
    raise NotImplementedError


def check(constraints: Mapping[str, Json], *, committed: bool) -> None:
    """Raises Invalid naming the key; `ram` and `vcpus` must be positive once `committed`."""
    raise NotImplementedError


def resolve(constraints: Mapping[str, Json], policy: Policy) -> JsonObject:
    """The constraints of a container: caches chosen, keys sorted (api-contract 1.6)."""
    raise NotImplementedError


def essential(constraints: Mapping[str, Json]) -> JsonObject:
    """The part of resolved constraints that must be equal for reuse: no cache sizes, `cuda` as `gpu`, no empty `gpu`."""
    raise NotImplementedError


def cache_difference(ours: Mapping[str, Json], theirs: Mapping[str, Json], policy: Policy) -> str | None:
    """The cache key whose size in `theirs` is not an acceptable variation of `ours`, or None."""
    raise NotImplementedError


def fill_scheduling(given: Mapping[str, Json]) -> JsonObject:
    """Scheduling parameters with every key."""
    raise NotImplementedError


def check_scheduling(parameters: Mapping[str, Json], *, committing: bool, policy: Policy) -> None:
    """Raises Invalid naming the key, or when preemptible instances are asked for at commit and there are none."""
    raise NotImplementedError


def merge_scheduling(all_parameters: Iterable[Mapping[str, Json]]) -> JsonObject:
    """The parameters of a retry for several requests (api-contract 1.8): the most generous of them."""
    raise NotImplementedError
