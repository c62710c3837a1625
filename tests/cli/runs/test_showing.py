"""`lading runs show`: failures with their last lines, steps as a tree."""

from __future__ import annotations

from pathlib import Path

from tests.cli.runs.runs_site import read, submit
from tests.cli.site import Play, Site


def test_inputs_are_contents_that_no_step_made(site: Site, image: str, here: Path) -> None:
    data = here / "reads.txt"
    data.write_text("acgt")
    named = ("--input", f"/in={data}")
    run = ("run", "--quiet", "--image", image, "--run", "reading")
    site.command(*run, "--name", "a", *named, "--", "a", plays=[Play()])
    first = read(site, "show", "reading")
    output = first["steps"][0]["requests"][0]["output"]
    site.command(*run, "--name", "b", "--input", f"/in={output}", "--", "b", plays=[Play()])
    (source,) = read(site, "show", "reading")["inputs"]
    assert source["readers"] == ["a"]
    assert source["content"] != output
    shown = site.lading("runs", "show", "reading").stdout
    assert source["content"] in shown
    assert "READ BY" in shown


def test_a_failure_is_found_by_one_command(site: Site, image: str, here: Path) -> None:
    submit(site, image, "cohort-7", "align", "1", play=Play())
    submit(
        site, image, "cohort-7", "sort", "1", code=3, play=Play(exit_code=3, stderr=b"no reads\n")
    )
    shown = site.lading("runs", "show", "cohort-7").stdout
    assert "failed: 1 of 2 done, 1 failed" in shown
    assert "  | no reads" in shown
    document = read(site, "show", "cohort-7")
    assert [step["name"] for step in document["steps"]] == ["align", "sort"]
    assert document["failures"][0]["last_lines"] == ["no reads"]
    assert document["attempt"] == 1
    listed = site.lading("runs").stdout
    assert "cohort-7" in listed
    assert read(site, "list", "--state", "failed", "--name", "HORT")[0]["counts"]["failed"] == 1
    everything = site.lading("runs", "show", "cohort-7", "--all", "--lines", "0").stdout
    assert "no reads" not in everything
