"""`lading template list`, `show` and `rm`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Site
from tests.cli.templates.template_site import call


def test_a_save_under_the_same_name_is_a_version(site: Site, saved: str) -> None:
    second = site.lading("template", "save", saved, "--param", "k=25", "--note", "no reads")
    assert second.stdout == f"{saved}@2\n"
    assert list(call(site, "show", saved)["schema"]["properties"]) == ["k"]
    assert len(call(site, "show", f"{saved}@1")["schema"]["properties"]) == 3
    listed = {each["name"]: each for each in call(site, "list", "--name", saved)}
    assert [each["number"] for each in listed[saved]["versions"]] == [1, 2]
    assert "2" in site.lading("template", "list").stdout
    old = call(site, "run", f"{saved}@1", "--set", "k=13", "--run", f"{saved}-old")
    assert old["version"] == 1
    site.lading("runs", "cancel", f"{saved}-old", "--yes")
    site.lading("template", "rm", f"{saved}@1", "--yes")
    assert "has no version 1" in site.lading("template", "show", f"{saved}@1", code=1).stderr
    assert "no other version" in site.lading("template", "rm", f"{saved}@2", "--yes", code=1).stderr
    site.lading("template", "rm", saved, code=1, stdin=b"")
    site.lading("template", "rm", saved, "--yes")
    assert "no template is called so" in site.lading("template", "show", saved, code=1).stderr


def test_what_a_template_is_is_shown_to_people(site: Site, saved: str) -> None:
    text = site.lading("template", "show", saved).stdout
    assert "integer, 11 to 63" in text
    assert "align:2, count:1" in text
    assert "one of fast, slow" in text
    schema = json.loads(site.lading("template", "show", saved, "--schema").stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    preview = site.lading("template", "run", saved, "--preview").stdout
    assert "2 steps" in preview
    kept = site.lading("template", "save", saved, "--preview", "--param", "k=25")
    assert "k: at align:2, count:1" in kept.stderr


def test_workflows_of_the_site_are_in_the_list(site: Site, image: str, here: Path) -> None:
    document = {"cwlVersion": "v1.2", "class": "Workflow", "inputs": {"n": "int"}}
    flow = {"name": "flow", "definition": json.dumps(document)}
    site.call(site.world.ok("POST", "workflows", flow))
    site.call(site.world.ok("POST", "workflows", {"name": "old", "definition": "name: x"}))
    listed = {each["name"]: each for each in call(site, "list")}
    assert (listed["flow"]["kind"], listed["flow"]["fault"]) == ("cwl", "")
    assert "is not JSON" in listed["old"]["fault"]
    assert "is not JSON" in site.lading("template", "list").stdout
    assert "is not JSON" in site.lading("template", "show", "old").stdout
    assert "(needed)" in site.lading("template", "show", "flow").stdout
    assert "n: has no default" in site.lading("template", "run", "flow", code=1).stderr
    refused = site.lading("template", "run", "flow", "--set", "n=1", code=1)
    assert "act in your name" in refused.stderr
    assert "is a CWL workflow" in site.lading("template", "rm", "flow", "--yes", code=1).stderr
