"""Several dispatchers on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.core.resources import Resources
from lading.dispatch.capacity import Shares

WHOLE, ONE = Resources(4, 100), Resources(3, 50)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Shares, Shares]]:
    first, second = Shares(tmp_path / "shares", name="a"), Shares(tmp_path / "shares", name="b")
    yield first, second
    second.close()


def test_what_one_gives_away_the_other_cannot(pair: tuple[Shares, Shares]) -> None:
    first, second = pair
    assert first.claim(Resources(), ONE, WHOLE)
    assert second.others() == ONE
    assert not second.claim(Resources(), ONE, WHOLE)
    assert second.claim(Resources(), Resources(1, 50), WHOLE)
    first.tell(Resources())
    assert second.claim(Resources(1, 50), Resources(3, 50), WHOLE)
    first.close()


def test_a_dispatcher_that_is_gone_counts_no_longer(
    pair: tuple[Shares, Shares], tmp_path: Path
) -> None:
    first, second = pair
    first.tell(ONE)
    first.close()
    assert second.others() == Resources()
    (tmp_path / "shares/dispatcher-dead").write_text("[1,1,1,1]")
    (tmp_path / "shares/dispatcher-torn").write_text("[1,")
    assert second.others() == Resources()


def test_a_name_is_held_once(pair: tuple[Shares, Shares], tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError):
        Shares(tmp_path / "shares", name="a")
    pair[0].close()
