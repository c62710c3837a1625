"""Inputs as the command line has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.cli.references import FileReference
from lading.cli.running.inputs import Input, parse_input
from lading.core.errors import Invalid

_PDH = "1f4b0bc7583c2a7f9102c395f4ffc5e3+45"


def test_a_path_that_is_there_wins_over_a_name(here: Path) -> None:
    assert parse_input(f"/in={_PDH}/a") == Input(target="/in", stored=FileReference(_PDH, "a"))
    (here / _PDH).write_text("")
    assert parse_input(f"/in={_PDH}") == Input(target="/in", path=Path(_PDH))


@pytest.mark.parametrize("text", ["", "/in", "/in=", "=x", "in=.", "/=.", "/a/../b=.", "stdout=."])
def test_what_is_no_input(text: str) -> None:
    with pytest.raises(Invalid):
        parse_input(text)
