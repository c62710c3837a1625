"""`lading runs report`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.runs.runs_site import submit
from tests.cli.site import Play, Site


def test_pages_and_a_crate(site: Site, image: str, here: Path) -> None:
    submit(site, image, "told", "a", play=Play())
    submit(site, image, "told", "b", code=2, play=Play(exit_code=2, stderr=b"<bad> reads\n"))
    site.lading("runs", "report", "told")
    page = (here / "told-1.html").read_text()
    assert "&lt;bad&gt; reads" in page
    site.lading("runs", "report", "told", code=1)
    site.lading("runs", "report", "told", "-o", "told.md", "--crate", "crate")
    assert "## Steps" in (here / "told.md").read_text()
    assert (here / "crate/ro-crate-metadata.json").exists()
    site.lading("runs", "report", "told", "-o", "x.md", "--crate", "crate", code=1)
