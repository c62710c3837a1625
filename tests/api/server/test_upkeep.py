"""What a server remembers until its sweep stores it."""

from __future__ import annotations

from lading.api.server.upkeep import Upkeep


def test_the_last_use_of_each_token_is_kept_until_it_is_taken() -> None:
    upkeep = Upkeep()
    upkeep.note("a", "2026-01-01", "10.0.0.1")
    upkeep.note("a", "2026-01-02", "10.0.0.2")
    upkeep.note("b", "2026-01-03", "")
    assert upkeep.uses(["a", "c"]) == {"a": ("2026-01-02", "10.0.0.2")}
    assert upkeep.take().keys() == {"a", "b"}
    assert upkeep.take() == {}
