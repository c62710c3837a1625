"""Every console block of README and the documentation does what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import played
from tests.docs.player import playing
from tests.docs.sites import SITES
from tests.reality import need_program, need_root

BLOCKS = played()
PLACES = sorted({one.place for one in BLOCKS if not one.is_long})
LONG = sorted({one.place for one in BLOCKS if one.is_long})
FIRST = "README.md"
"""The page that `make test` plays."""


def play(place: str, directory: Path, *, with_long: bool) -> None:
    site = SITES[place]
    need_root()
    for program in ("unshare", "ip", *site.programs):
        need_program(program)
    wanted = [one for one in BLOCKS if one.place == place and (with_long or not one.is_long)]
    with site.around(directory) as variables, playing(directory, dict(variables)) as player:
        player.prepare(site.prepare)
        player.play_blocks(wanted)


# A page has many commands, and each of them two minutes.
@pytest.mark.timeout(600)
@pytest.mark.system
@pytest.mark.parametrize(
    "place", [pytest.param(FIRST, marks=pytest.mark.quick), *sorted({*PLACES} - {FIRST})]
)
def test_a_page(place: str, tmp_path: Path) -> None:
    play(place, tmp_path, with_long=False)


@pytest.mark.system
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("place", LONG)
def test_a_page_with_what_takes_minutes(place: str, tmp_path: Path) -> None:
    play(place, tmp_path, with_long=True)


@pytest.mark.quick
def test_each_place_has_a_site() -> None:
    assert sorted(SITES) == sorted({*PLACES, *LONG})
