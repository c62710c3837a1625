"""`lading trace` against a real API and block store."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.cli.site import Play, Site
from tests.client.provenance.test_cwlprov_export import FLOW, TOOL, play_workflow


@pytest.fixture
def chain(site: Site, here: Path) -> tuple[str, str]:
    """Two requests, of which `second` reads the output of `first`; the input's hash and the uuid of
    the first one. The input is called like the test's directory.
    """
    (here / "x").write_text(here.name)
    pdh = site.lading("put", "--name", here.name, "x").stdout.strip()
    image = site.call(site.world.ensure_image())
    run = ("run", "--image", image)
    site.command(*run, "--name", "first", "--input", f"/in={here.name}", "--", "a", plays=[Play()])
    first = json.loads(site.lading("request", "show", "--json", "first").stdout)["uuid"]
    play = Play(files={"two": b"2"})
    site.command(*run, "--name", "second", "--input", "/in=last", "--", "b", plays=[play])
    return pdh, first


def test_both_ways(site: Site, here: Path, chain: tuple[str, str]) -> None:
    pdh, first = chain
    lines = site.lading("trace", "first").stdout.splitlines()
    assert lines[0] == f"first  done  {first}"
    above, below = lines.index("made from"), lines.index("used by")
    assert f"{here.name}  collection  {pdh}" in "\n".join(lines[above:below])
    assert any("image" in line for line in lines[above:below])
    assert lines[below + 1].startswith("└─ output of first  collection")
    assert lines[below + 2].startswith("   └─ second  done")
    only = site.lading("trace", "--from", "first").stdout
    assert "used by" not in only
    near = site.lading("trace", "--to", "--depth", "1", "first").stdout
    assert "output of first" in near
    assert "second" not in near


def test_collections_and_files(site: Site, here: Path, chain: tuple[str, str]) -> None:
    pdh, _ = chain
    for what in (here.name, pdh, f"{here.name}/x"):
        lines = site.lading("trace", what).stdout.splitlines()
        # A hash stands for every collection with this content, so it has no name.
        name = pdh[:12] if what == pdh else here.name
        assert lines[0] == f"{name}  collection  {pdh}"
        assert "made from: nothing that is recorded" in lines
        assert any("first  done" in line for line in lines)
    assert "holds no nothing" in site.lading("trace", f"{here.name}/nothing", code=1).stderr
    assert "names nothing stored" in site.lading("trace", "unknown/x", code=1).stderr
    assert "no request has this name" in site.lading("trace", "unknown", code=1).stderr


def test_documents_and_pictures(site: Site, here: Path, chain: tuple[str, str]) -> None:
    pdh, first = chain
    found = json.loads(site.lading("trace", "--json", first).stdout)
    assert found["complete"] is True
    nodes = {one["key"]: one for one in found["nodes"]}
    assert nodes[pdh] == {
        "key": pdh, "kind": "collection", "name": here.name, "state": "", "status": "",
        "request": None, "readable": True,
    }  # fmt: skip
    assert nodes[found["start"]]["request"] == first
    assert {"from": pdh, "to": found["start"]} in found["edges"]
    ElementTree.fromstring(site.lading("trace", "--format", "svg", "last").stdout)
    assert site.lading("trace", "--format", "dot", "last").stdout.startswith("digraph")
    assert site.lading("trace", "--format", "mermaid", "last").stdout.startswith("flowchart")


def test_a_local_file_and_users(site: Site, here: Path, chain: tuple[str, str]) -> None:
    pdh, _ = chain
    assert pdh in site.lading("trace", "./x").stdout.splitlines()[0]
    (here / "y.txt").write_text("unknown")
    assert "no collection has this content" in site.lading("trace", "y.txt", code=1).stderr
    assert "  user" in site.lading("trace", "--users", "first").stdout


def test_a_workflow_leads_to_its_steps(site: Site, here: Path) -> None:
    del here
    files = {"flow.cwl": FLOW, "tool.cwl": TOOL}
    runner = site.call(play_workflow(site.world, files, {"x": b"x"}))
    lines = site.lading("trace", "--to", runner["uuid"]).stdout.splitlines()
    assert any(line.startswith(("├─ sort_2  done", "└─ sort_2  done")) for line in lines)
    # And back.
    above = site.lading("trace", "--from", "sort_2").stdout
    assert "chain  done" in above
