"""`lading runs begin`, `end` and `add`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runs.runs_site import read
from tests.cli.site import Play, Site


def test_begin_end_and_add(
    site: Site, image: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = site.lading("runs", "begin", "explicit", "--param", "k=25")
    assert "'lading runs show explicit'" in begun.stderr
    exported = begun.stdout
    words = exported.removeprefix("export ").split()
    for word in words:
        name, _, value = word.partition("=")
        monkeypatch.setenv(name, value)
    site.command("run", "--image", image, "--", "step", "x", plays=[Play()])
    assert read(site, "show", "explicit")["params"] == {"k": 25}
    assert read(site, "end", "--failed", "--note", "no plot")["state"] == "failed"
    monkeypatch.delenv("LADING_RUN")
    monkeypatch.delenv("LADING_ATTEMPT")
    site.lading("runs", "end", code=1)
    site.command("run", "--image", image, "--name", "loose", "--", "loose", plays=[Play()])
    added = read(site, "add", "fresh", "loose", "--step", "first")
    assert (added["name"], added["counts"]["done"]) == ("fresh", 1)
    assert read(site, "add", "fresh", "loose")["counts"]["done"] == 1


def test_the_next_command_quotes_the_name(site: Site) -> None:
    begun = site.lading("runs", "begin", "cohort ü 1")
    assert "lading runs show 'cohort ü 1'" in begun.stderr
