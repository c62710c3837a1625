"""`lading runs rerun`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.runs.runs_site import read, submit
from tests.cli.site import Play, Site


def test_a_run_is_run_again_as_its_next_attempt(site: Site, image: str, here: Path) -> None:
    run = ("run", "--quiet", "--image", image, "--run", "twice")
    site.command(*run, "--name", "a", "--", "a", plays=[Play()])
    first = read(site, "show", "twice")["steps"][0]["requests"][0]
    source = f"/in={first['output']}"
    site.command(
        *run, "--name", "b", "--input", source, "--", "b", plays=[Play(exit_code=2)], code=2
    )
    site.lading("runs", "rerun", "twice", code=1, stdin=b"")
    assert read(site, "show", "twice")["attempt"] == 1
    previewed = site.lading("runs", "rerun", "twice", "--from", "b", "--preview").stdout
    assert "twice#2: 1 step runs again, 1 reuses its result where possible" in previewed
    assert "2 steps: 1 reused, 1 to run" in previewed
    made = read(site, "rerun", "twice", "--from", "b", "--yes")
    assert (made["name"], made["attempt"], len(made["requests"])) == ("twice", 2, 2)
    shown = read(site, "show", "twice")
    assert shown["counts"]["reused"] == 1
    assert [step["needs"] for step in shown["steps"]] == [[], ["a"]]
    refused = site.lading("runs", "rerun", "twice", "--yes", code=1)
    assert "twice#2: is running" in refused.stderr
    site.lading("runs", "cancel", "twice", "--yes")
    again = site.lading("runs", "rerun", "twice#1", "--yes", "--priority", "3")
    assert again.stdout == "twice#3\n"
    third = read(site, "show", "twice")
    assert third["counts"]["waiting"] == 2
    mounts = request(site, third["steps"][1]["requests"][0]["uuid"])["mounts"]
    maker = third["steps"][0]["requests"][0]["uuid"]
    assert mounts["/in"] == {"kind": "output", "container_request": maker}
    site.lading("runs", "cancel", "twice", "--yes")


def test_other_parameters_need_the_program(site: Site, image: str, here: Path) -> None:
    submit(site, image, "fixed", "a", play=Play())
    refused = site.lading("runs", "rerun", "fixed", "--set", "k=31", "--yes", code=1)
    assert 'eval "$(lading runs begin fixed --param k=31)", then' in refused.stderr
    assert read(site, "show", "fixed")["attempt"] == 1


def test_a_workflow_is_run_again_with_other_inputs(site: Site, image: str, here: Path) -> None:
    target = "/var/lib/cwl/cwl.input.json"
    attributes: dict[str, Any] = {
        "name": "flow",
        "scheduling_parameters": {"supervisor": True},
        "mounts": {
            "/out": {"kind": "tmp", "capacity": 1000},
            target: {"kind": "json", "content": {"k": 1}},
        },
    }
    runner = site.call(site.world.submit("cwl", **attributes))
    site.lading("runs", "cancel", runner["uuid"], "--yes")
    named = ("rerun", runner["uuid"], "--yes")
    assert "leave it out" in site.lading("runs", *named, "--from", "x", code=1).stderr
    assert "it has k" in site.lading("runs", *named, "--set", "j=2", code=1).stderr
    made = read(site, *named, "--set", "k=2")
    assert made["uuid"] != runner["uuid"]
    assert request(site, made["uuid"])["mounts"][target]["content"] == {"k": 2}
    assert read(site, "show", made["uuid"])["params"] == {"k": 2}
    site.lading("runs", "cancel", made["uuid"], "--yes")


def request(site: Site, uuid: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(site.lading("request", "show", "--json", uuid).stdout)
    return shown


def test_a_missing_secret_begins_no_attempt(site: Site, image: str, here: Path) -> None:
    run = ("run", "--detach", "--image", image, "--run", "hidden", "--secret", "key=abc")
    site.lading(*run, "--", "a")
    site.lading("runs", "cancel", "hidden", "--yes")
    assert "key" in site.lading("runs", "rerun", "hidden", "--yes", code=1).stderr
    assert read(site, "show", "hidden")["attempt"] == 1
    again = read(site, "rerun", "hidden", "--yes", "--secret", "key=abc")
    assert again["attempt"] == 2
    site.lading("runs", "cancel", "hidden", "--yes")
