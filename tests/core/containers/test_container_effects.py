"""Effects are values."""

from __future__ import annotations

from lading.core.containers import container


def test_effects_compare_by_what_they_ask_for() -> None:
    assert container.Finish("a") == container.Finish("a")
    assert container.Resolve() == container.Resolve()
    assert container.Adopt("a") != container.Adopt("b")
    assert len({container.Reprioritise(("a",)), container.Reprioritise(("a",))}) == 1
