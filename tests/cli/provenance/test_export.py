"""`lading export` against a real API and block store."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

from tests.cli.site import Play, Site
from tests.client.provenance.test_cwlprov_export import FLOW, OUTPUT, RESULT, TOOL, play_workflow


def _pipeline(site: Site, here: Path, mark: str) -> None:
    image = site.call(site.world.ensure_image())
    (here / "x").write_text(mark)
    run = ("run", "--image", image, "--name")
    play = Play(files={"kept": mark.encode()}, stderr=b"hello\n")
    site.command(*run, f"clean{mark}", "--input", "/in=x", "--", "c", plays=[play])
    play = Play(files={"<plot>": b"p" + mark.encode()})
    after = ("--input", "/in=last", "--after", "last")
    site.command(*run, f"plot{mark}", *after, "--", "p", plays=[play])


def _verified(crate: Path) -> None:
    subprocess.run(
        ["sha256sum", "--quiet", "-c", "checksums.sha256"], cwd=crate, check=True, timeout=20
    )


def test_one_request(site: Site, here: Path) -> None:
    _pipeline(site, here, "1")
    site.lading("export", "plot1", "-o", "crate")
    crate = here / "crate"
    _verified(crate)
    # Signatures are for the exporter's own use.
    texts = [path.read_text() for path in (crate / "manifests").iterdir()]
    assert not any("+A" in text for text in texts)
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    actions = [one for one in graph if one["@type"] == "CreateAction"]
    assert [one["name"] for one in actions] == ["plot1"]
    assert sorted(path.name for path in crate.iterdir()) == [
        "checksums.sha256", "logs", "manifests", "provenance.jsonld", "records",
        "ro-crate-metadata.json",
    ]  # fmt: skip
    assert "give a new name" in site.lading("export", "plot1", "-o", "crate", code=1).stderr
    assert "not there" in site.lading("export", "plot1", "-o", "no/crate", code=1).stderr
    refused = site.lading("export", "plot1", "-o", "/proc/crate", code=1).stderr
    assert "/proc/crate: cannot be written" in refused


def test_a_tree_with_data_as_an_archive(site: Site, here: Path) -> None:
    _pipeline(site, here, "2")
    done = site.lading("export", "plot2", "--tree", "--data", "--json", "-o", "all.zip")
    assert json.loads(done.stdout) == {"output": "all.zip", "requests": 2, "signed": False}
    with zipfile.ZipFile(here / "all.zip") as packed:
        packed.extractall(here / "all")
    _verified(here / "all")
    names = {path.name for path in (here / "all" / "data").rglob("*") if path.is_file()}
    assert names == {"x", "kept", "<plot>"}
    logs = [path.read_text() for path in (here / "all" / "logs").rglob("stderr.txt")]
    assert any("hello" in text for text in logs)
    graph = json.loads((here / "all" / "ro-crate-metadata.json").read_text())["@graph"]
    ids = {one["@id"] for one in graph}
    actions = [one for one in graph if one["@type"] == "CreateAction"]
    assert {one["name"] for one in actions} == {"clean2", "plot2", "Run of plot2"}
    assert all(
        each["@id"] in ids for one in actions for each in (*one.get("object", ()), *one["result"])
    )


def test_what_cannot_be_exported_leaves_nothing(site: Site, here: Path) -> None:
    image = site.call(site.world.ensure_image())
    site.lading("run", "--image", image, "--detach", "--name", "waiting", "--", "w")
    assert "to its end" in site.lading("export", "waiting", "-o", "c", code=1).stderr
    assert list(here.iterdir()) == []


def test_the_steps_are_a_workflow(site: Site, here: Path) -> None:
    _pipeline(site, here, "3")
    site.lading("export", "plot3", "--tree", "-o", "tree")
    document = json.loads((here / "tree" / "workflow.json").read_text())
    first, second = document["container_requests"]
    assert second["mounts"]["/in"] == {"kind": "output", "container_request": "#0"}
    assert first["command"] == ["c"]
    prov = json.loads((here / "tree" / "provenance.jsonld").read_text())
    kinds = [one["@type"] for one in prov["@graph"]]
    assert kinds.count("prov:Activity") == 2
    graph = json.loads((here / "tree" / "ro-crate-metadata.json").read_text())["@graph"]
    root = next(one for one in graph if one["@id"] == "./")
    assert root["mainEntity"] == {"@id": "workflow.json"}


def test_a_signed_crate(site: Site, here: Path) -> None:
    _pipeline(site, here, "4")
    command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key")
    subprocess.run(command, cwd=here, check=True, timeout=20)
    site.lading("export", "plot4", "--sign", "key", "-o", "signed")
    assert "SSH SIGNATURE" in (here / "signed" / "checksums.sha256.sig").read_text()
    bad = site.lading("export", "plot4", "--sign", "x", "-o", "bad", code=1)
    assert "x: is no private key" in bad.stderr
    assert not (here / "bad").exists()


def test_the_run_of_a_workflow_for_cwlprov(site: Site, here: Path) -> None:
    files = {"flow.cwl": FLOW, "tool.cwl": TOOL}
    output = {**OUTPUT, "cwl.output.json": json.dumps(RESULT).encode()}
    site.call(play_workflow(site.world, files, output))
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", "key"], check=True, timeout=20)
    form = ("--format", "cwlprov", "--sign", "key")
    done = site.lading("export", "chain", *form, "--json", "-o", "bag.zip")
    assert json.loads(done.stdout) == {"output": "bag.zip", "requests": 2, "signed": True}
    with zipfile.ZipFile(here / "bag.zip") as packed:
        packed.extractall(here / "bag")
    for name in ("manifest", "tagmanifest"):
        checked = ["sha1sum", "--quiet", "-c", f"{name}-sha1.txt"]
        subprocess.run(checked, cwd=here / "bag", check=True, timeout=20)
    assert (here / "bag" / "tagmanifest-sha512.txt.sig").is_file()
    refused = site.lading("export", "chain", *form, "--images", "-o", "x", code=2)
    assert "has no place for --images" in refused.stderr
    assert "is a bag for other programs" in site.lading("import", "bag.zip", code=1).stderr


def test_what_is_no_workflow_is_not_for_cwlprov(site: Site, here: Path) -> None:
    _pipeline(site, here, "3")
    done = site.lading("export", "plot3", "--format", "cwlprov", "-o", "bag", code=1)
    assert "no run of a CWL workflow" in done.stderr
    assert not (here / "bag").exists()
