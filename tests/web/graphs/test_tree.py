"""Requests that belong together."""

from __future__ import annotations

from lading.web.graphs.tree import needed

UUID = "zzzzz-xvhdp-000000000000000"
OTHER = "zzzzz-xvhdp-000000000000001"


def test_requests_that_are_needed() -> None:
    mounts = {"/in": {"container_request": OTHER}, "/x": {"kind": "tmp"}}
    assert list(needed({"depends_on": [UUID, "x"], "mounts": mounts})) == [UUID, OTHER]
    assert list(needed({"depends_on": None, "mounts": None})) == []
