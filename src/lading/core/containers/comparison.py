"""Comparison of two requests, field by field: first the attributes that prevent reuse, in the order
of `recipe.COMPARED`, then the attributes without influence on reuse, then the results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lading.core.containers.container import Container
from lading.core.containers.recipe import COMPARED, of_container, recipe_differences
from lading.core.values import FieldDifference, Json, differing

_SHOWN: Final = tuple(name for name in COMPARED if name != "secret_mounts_md5")
_FURTHER: Final = (
    "scheduling_parameters", "steps", "service", "published_ports", "strict_output",
    "output_properties",
    "output_storage_classes", "output_name", "output_ttl", "use_existing", "match_resources",
    "only_reproduced", "filters", "depends_on", "priority", "owner_uuid", "name",
)  # fmt: skip
_RESULTS: Final = ("state", "exit_code", "runtime_status", "output", "usage", "cost")
_PARTS: Final = {
    "container_image": "image",
    "cwd": "command",
    "steps": "command",
    "mounts": "inputs",
    "secret_mounts": "inputs",
    "output_path": "output",
    "output_glob": "output",
    "runtime_constraints": "resources",
    "scheduling_parameters": "machine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRequest:
    """A request, as the API shows it, with its container, if it has one."""

    request: Mapping[str, Any]
    container: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestComparison:
    """The differences of two requests.

    `cause`: fields that prevent reuse, the first cause first. `further`: fields that do not.
    `result`: the results of their containers. `resolved`: whether `cause` compares containers, in
    which names of images and collections are replaced by their hashes.
    """

    cause: tuple[FieldDifference, ...]
    further: tuple[FieldDifference, ...]
    result: tuple[FieldDifference, ...]
    resolved: bool


def compare_requests(ours: ComparedRequest, theirs: ComparedRequest) -> RequestComparison:
    """The differences of two requests. The API does not show secrets, so that they are not
    compared.
    """
    resolved = ours.container is not None and theirs.container is not None
    return RequestComparison(
        cause=_causes(ours, theirs),
        further=_differences(ours.request, theirs.request, _FURTHER),
        result=_differences(ours.container or {}, theirs.container or {}, _RESULTS),
        resolved=resolved,
    )


def changed_inputs(ours: ComparedRequest, theirs: ComparedRequest) -> dict[str, tuple[str, str]]:
    """The inputs of both containers whose collections differ: the hashes of ours and theirs by the
    path in the container.
    """
    mine, other = _collections(ours), _collections(theirs)
    return {
        target: (pdh, other[target])
        for target, pdh in mine.items()
        if target in other and other[target] != pdh
    }


def apart_from(
    differences: tuple[FieldDifference, ...], inputs: Collection[str]
) -> tuple[FieldDifference, ...]:
    """The differences without those of inputs at these paths in the container."""
    names = tuple(f"mounts.{target}" for target in inputs)
    below = tuple(f"{name}{mark}" for name in names for mark in ".[")
    return tuple(
        difference
        for difference in differences
        if difference.field not in names and not difference.field.startswith(below)
    )


def part_of(field: str) -> str:
    """The part of a request that a field belongs to: `mounts./in.uuid` is one of its inputs."""
    name = field.partition(".")[0].partition("[")[0]
    return _PARTS.get(name, name.replace("_", " "))


def _causes(ours: ComparedRequest, theirs: ComparedRequest) -> tuple[FieldDifference, ...]:
    if ours.container is None or theirs.container is None:
        return _differences(ours.request, theirs.request, _SHOWN)
    mine, other = Container.from_record(ours.container), Container.from_record(theirs.container)
    return recipe_differences(of_container(mine), of_container(other))


def _collections(side: ComparedRequest) -> dict[str, str]:
    mounts = (side.container or {}).get("mounts") or {}
    return {
        target: mount["portable_data_hash"]
        for target, mount in sorted(mounts.items())
        if mount.get("kind") == "collection" and mount.get("portable_data_hash")
    }


def _differences(
    ours: Mapping[str, Json], theirs: Mapping[str, Json], names: tuple[str, ...]
) -> tuple[FieldDifference, ...]:
    return tuple(
        difference
        for name in names
        for difference in differing(name, ours.get(name), theirs.get(name))
    )
