"""Effects are values."""

from __future__ import annotations

from lading.core.containers import effects


def test_effects_compare_by_what_they_ask_for() -> None:
    assert effects.Finish("a") == effects.Finish("a")
    assert effects.Resolve() == effects.Resolve()
    assert effects.Adopt("a") != effects.Adopt("b")
    assert len({effects.Reprioritise(("a",)), effects.Reprioritise(("a",))}) == 1
