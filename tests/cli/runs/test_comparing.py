"""`lading runs diff`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.runs.runs_site import read, submit
from tests.cli.site import Play, Site


def test_the_first_cause(site: Site, image: str, here: Path) -> None:
    for run, number, content in (("before", "1", b"one\n"), ("after", "2", b"two\n")):
        submit(site, image, run, "align", number, play=Play(files={"x": content}))
        submit(site, image, run, "sort", number, play=Play(files={"y": content}))
    told = site.lading("runs", "diff", "before", "after").stdout
    assert "first cause: align" in told
    assert "- align 1" in told
    assert "+ align 2" in told
    document = read(site, "diff", "before", "after")
    assert document["first_cause"]["reasons"] == ["command"]
    assert len(document["changed"]) == 2
    assert "all 2 steps are equal" in site.lading("runs", "diff", "after", "after").stdout
    site.lading("runs", "diff", "after", code=1)
