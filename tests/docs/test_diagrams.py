"""The diagrams drawn from the tables."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from docs import diagrams
from lading.core.containers import container

pytestmark = pytest.mark.quick


def test_every_transition_is_drawn() -> None:
    drawn = diagrams.container_diagram()
    ElementTree.fromstring(drawn)
    number = sum(len(tuple(news)) for news in container.TRANSITIONS.values())
    # One arrow from the initial dot, and one to the final ring, besides.
    assert drawn.count('marker-end="url(#arrow)"') == number + 2
    for old, news in container.TRANSITIONS.items():
        for new in news:
            assert f"{old} to {new}" in drawn


def test_states_do_not_cover_each_other_and_are_inside() -> None:
    for drawn in (diagrams.container_diagram(), diagrams.hpc_code_diagram()):
        root = ElementTree.fromstring(drawn)
        places = re.findall(r'class="state" x="([\d.]+)" y="([\d.]+)"', drawn)
        assert len(set(places)) == len(places)
        for x, y in places:
            assert float(x) + 110 < float(root.attrib["width"])
            assert float(y) + 34 < float(root.attrib["height"])


def test_the_request_diagram() -> None:
    drawn = diagrams.request_diagram()
    assert drawn.count('class="state"') == 3
    assert drawn.count('class="dot"') == 3, "two initial states, and the final one"


def test_hpc_states_are_drawn() -> None:
    assert "Running to Killed" in diagrams.hpc_code_diagram()
    assert "Uploading to Stopped" in diagrams.hpc_result_diagram()
