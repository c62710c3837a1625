"""The text of the join."""

from __future__ import annotations

from lading.store.permissions import COMPUTED, reached, reaches


def test_conditions_have_one_placeholder() -> None:
    for text in (
        reaches("c.owner_uuid", 2, owning=True),
        reaches("c.uuid", 1),
        reached(owning=True),
    ):
        assert text.count("?") == 1
    assert "level >= 2" in reaches("c", 2)
    assert "owning" not in reaches("c", 1) + reached(owning=False)
    assert "WHEN 3 THEN 'can_manage'" in COMPUTED
