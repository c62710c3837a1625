"""Kinds of nodes from single nodes: alike ones are one worker of the batch fleet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lading.core.resources import Resources
from lading.dispatch.fleets.batch.batch_system import NodeShape


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode:
    """A node that takes jobs, and the partitions or queues it is in. `is_default`: it also takes
    jobs that name none.
    """

    name: str
    capacity: Resources
    partitions: frozenset[str]
    is_default: bool = True


def node_shapes(system: str, nodes: Iterable[KnownNode]) -> tuple[NodeShape, ...]:
    """The kinds of these nodes, each once, the smallest first."""
    alike: dict[Resources, list[KnownNode]] = {}
    for node in nodes:
        alike.setdefault(node.capacity, []).append(node)
    shapes = [
        NodeShape(
            system=system,
            capacity=capacity,
            partitions=frozenset().union(*(node.partitions for node in members)),
            default=any(node.is_default for node in members),
        )
        for capacity, members in alike.items()
    ]
    return tuple(
        sorted(shapes, key=lambda shape: (shape.capacity.vcpus, shape.capacity.ram, shape.name))
    )
