"""The diagrams drawn from the tables."""

from __future__ import annotations

from docs import diagrams
from lading.core.containers import container


def test_every_transition_is_drawn() -> None:
    drawn = diagrams.container_diagram()
    assert drawn.startswith("stateDiagram-v2\n    [*] --> Queued\n")
    for old, news in container.TRANSITIONS.items():
        for new in news:
            assert f"    {old} --> {new}\n" in drawn
    assert "    Cancelled --> [*]\n" in drawn


def test_the_request_diagram() -> None:
    assert diagrams.request_diagram().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Uncommitted",
        "    [*] --> Committed",
        "    Uncommitted --> Committed",
        "    Committed --> Final",
        "    Final --> [*]",
    ]


def test_hpc_states_are_drawn() -> None:
    assert "Running --> Killed" in diagrams.hpc_code_diagram()
    assert "Uploading --> Stopped" in diagrams.hpc_result_diagram()
