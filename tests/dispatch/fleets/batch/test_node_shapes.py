"""Kinds of nodes from single ones."""

from __future__ import annotations

from lading.core.resources import GIB, Resources
from lading.dispatch.fleets.batch.node_shapes import KnownNode, node_shapes

SMALL, LARGE = Resources(2, GIB, GIB), Resources(8, GIB, GIB)


def test_alike_nodes_are_one_kind() -> None:
    nodes = [
        KnownNode(name="a", capacity=LARGE, partitions=frozenset({"x"})),
        KnownNode(name="b", capacity=SMALL, partitions=frozenset({"x"}), is_default=False),
        KnownNode(name="c", capacity=LARGE, partitions=frozenset({"y"}), is_default=False),
    ]
    small, large = node_shapes("Told", nodes)
    assert (small.capacity, small.partitions, small.default) == (SMALL, frozenset({"x"}), False)
    assert (large.capacity, large.partitions, large.default) == (
        LARGE,
        frozenset({"x", "y"}),
        True,
    )
    assert node_shapes("Told", []) == ()
