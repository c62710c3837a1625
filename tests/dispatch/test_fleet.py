"""The values of the fleet seam; its promises are in src/lading/testing/conformance/fleets.py."""

from __future__ import annotations

from lading.dispatch.fleet import FleetView, StartRequest, SupervisorProcess


def test_an_assignment_never_shows_its_token() -> None:
    assert "secret" not in repr(StartRequest(uuid="u", worker="w", token="secret"))


def test_a_view_begins_unknown_and_empty() -> None:
    assert FleetView() == FleetView(is_known=False, workers=(), processes={})
    assert SupervisorProcess("w").alive
