"""Details of differences: trees, images and small files."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.provenance.test_differences import _run
from tests.cli.site import Play, Site


def test_whole_trees_and_what_differs_in_collections(site: Site, here: Path) -> None:
    for number in ("3", "4"):
        _run(site, f"tidy.{number}", number.encode(), "--env", f"Q={number}")
        _run(site, f"draw.{number}", b"p" + number.encode(), "--input", "/in=last")
    seen = site.lading("diff", "--tree", "draw.3", "draw.4", code=1).stdout
    assert "2 steps, 0 of them equal" in seen
    found = json.loads(site.lading("diff", "--tree", "--json", "draw.3", "draw.4", code=1).stdout)
    assert [one["name"] for one in found["tree"]] == ["tidy", "draw"]
    assert found["contents"] == {"out": ["@@ -1 +1 @@", "-p3", "+p4"]}
    assert site.lading("diff", "--tree", "draw.3", "draw.3").stdout
    for name in ("a", "b"):
        (here / name).mkdir()
        (here / name / "t.csv").write_text(f"n\n{name}\n")
        site.lading("put", "--name", f"tables {name}", f"{name}/")
    both = ("tables a", "tables b")
    assert "-a" in site.lading("diff", "--text", *both, code=1).stdout
    assert "must both be requests" in site.lading("diff", "--tree", *both, code=1).stderr
    assert (
        "Give --files or --tree"
        in site.lading("diff", "--tree", "--files", "x", "y", code=2).stderr
    )


def test_images_are_compared_or_the_reason_is_told(site: Site, here: Path) -> None:
    del here
    _run(site, "old", b"1")
    pdh = site.call(site.world.collection({f"sha256:{'1' * 64}.tar": b"another"}))
    image = str(pdh["portable_data_hash"])
    command = ("run", "--image", image, "--name", "new", "--", "sort")
    site.command(*command, plays=[Play(files={"out": b"2"})])
    assert "the images are not compared" in site.lading("diff", "old", "new", code=1).stderr
