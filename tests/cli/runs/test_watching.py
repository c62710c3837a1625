"""`lading runs watch`."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from lading.cli.runs import watching
from lading.cli.runs.showing import RunPicture
from lading.core.runs.step_groups import read_step
from tests.cli.runs.runs_site import read, submit
from tests.cli.site import Play, Site


def test_a_run_that_has_ended(site: Site, image: str, here: Path) -> None:
    submit(site, image, "watched", "a", play=Play())
    assert site.lading("runs", "watch", "watched").stdout == "watched  done: 1 of 1 done\n"
    submit(site, image, "watched", "b", code=2, play=Play(exit_code=2))
    told = site.lading("runs", "watch", "watched", "--json", code=1).stdout
    assert json.loads(told.splitlines()[-1])["counts"]["total"] in (1, 2)


def test_a_screen(site: Site, image: str, here: Path) -> None:
    submit(site, image, "drawn", "odd", code=2, play=Play(exit_code=2))
    run = {**read(site, "show", "drawn"), "expected_end": "1970-01-01T00:00:00Z"}
    usual = {"uuid": "u", "is_reused": False, "created_at": "1", "exit_code": 2}
    step = read_step({**usual, "name": "align", "state": "failed"})
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(
        watching.screen(RunPicture(run=run, steps=[step], lines={"u": ["bad"]}), datetime.now(UTC))
    )
    drawn = console.export_text()
    assert "failed align: exit code 2 bad" in drawn
    assert "ends in a few seconds" in drawn
