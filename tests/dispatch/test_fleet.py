"""The values of the fleet seam; its promises are in src/lading/testing/conformance/fleets.py."""

from __future__ import annotations

from lading.dispatch.fleet import Assignment, FleetView, Process


def test_an_assignment_never_shows_its_token() -> None:
    assert "secret" not in repr(Assignment(uuid="u", worker="w", token="secret"))


def test_a_view_begins_unknown_and_empty() -> None:
    assert FleetView() == FleetView(known=False, workers=(), processes={})
    assert Process("w").alive
