"""Conditions on who sees a row: plain values. What they find is in the tests of
`store.permission_queries` and of the API.
"""

from __future__ import annotations

from lading.core.records.permissions import Accessible, Inside, Reachable, Untrashed


def test_they_are_values() -> None:
    assert Accessible("u") == Accessible("u", None, None, dense=False) != Accessible("u", ())
    assert Reachable("u", "uuid") == Reachable("u", "uuid", 1, owning=False)
    assert (
        len(
            {Untrashed("uuid", "t"), Untrashed("uuid", "t", frozen=True), Inside("owner_uuid", "p")}
        )
        == 3
    )
