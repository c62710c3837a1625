"""Nodes and edges of a lineage."""

from __future__ import annotations

from lading.client.provenance.lineage import Lineage
from lading.core.drawing.folding import LineageNode


def test_an_end_that_is_not_known_is_sealed() -> None:
    drawn = Lineage(start="a")
    drawn.add(LineageNode(key="a", kind="request", name="known"))
    drawn.link("x", "a", "collection")
    assert [one.sealed for one in drawn.nodes.values()] == [False, True]
    assert drawn.edges == [("x", "a")]
