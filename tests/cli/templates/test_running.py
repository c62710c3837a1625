"""`lading template run`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Play, Site
from tests.cli.templates.template_site import call, request, request_named, run_of


def test_a_run_is_saved_and_run_with_other_values(site: Site, saved: str, here: Path) -> None:
    shown = call(site, "show", saved)
    assert (shown["kind"], shown["version"], shown["description"]) == (
        "template", 1, "Counts k-mers",
    )  # fmt: skip
    properties = shown["schema"]["properties"]
    assert properties["k"] == {
        "type": "integer", "default": 25, "minimum": 11, "maximum": 63,
        "description": "size of k-mers",
    }  # fmt: skip
    assert properties["mode"]["enum"] == ["fast", "slow"]
    assert properties["reads"]["default"].endswith("/reads.fq")
    assert all("+" in each["container_image"] for each in shown["requests"])
    (here / "other.fq").write_text("TTTT")
    made = call(
        site, "run", saved, "--set", "k=31", "--set", "reads=other.fq", "--set", "mode=slow",
        "--run", f"{saved}-8",
    )  # fmt: skip
    assert (made["name"], made["attempt"], len(made["requests"])) == (f"{saved}-8", 1, 2)
    first, second = (request(site, uuid) for uuid in made["requests"])
    assert first["command"] == ["align", "-k", "31", "/in/reads.fq"]
    assert first["environment"]["MODE"] == "slow"
    mount = first["mounts"]["/in/reads.fq"]
    assert mount["path"] == "other.fq"
    assert mount["portable_data_hash"] != properties["reads"]["default"].partition("/")[0]
    assert second["command"] == ["count", "--k=31"]
    assert second["mounts"]["/in"]["container_request"] == first["uuid"]
    record = run_of(site, f"{saved}-8")
    assert (record["params"]["k"], record["source"]["template"]) == (31, saved)
    site.lading("runs", "cancel", f"{saved}-8", "--yes")
    again = site.lading("template", "run", saved, "--run", f"{saved}-8")
    assert again.stdout == f"{saved}-8#2\n"
    # The values are those of the run that was saved.
    assert run_of(site, f"{saved}-8")["counts"]["reused"] == 2


def test_a_refused_call_changes_nothing(site: Site, saved: str) -> None:
    name = f"{saved}-none"
    wrong = (
        ("k=3", "below 11"), ("k=x", "must be of type integer"), ("k=31; rm", "of type integer"),
        ("mode=-rf", "none of fast, slow"), ("reads=missing.fq", "no file here"),
        ("j=1", "has the parameters k, reads, mode"), ("k", "is not NAME=VALUE"),
    )  # fmt: skip
    for value, message in wrong:
        refused = site.lading("template", "run", saved, "--set", value, "--run", name, code=1)
        assert message in refused.stderr
    # An input that the caller cannot read is found by the server, which begins no run then.
    unknown = f"reads={'0' * 32}+5/x"
    site.lading("template", "run", saved, "--set", unknown, "--run", name, code=1)
    assert "no run is called so" in site.lading("runs", "show", name, code=1).stderr


def test_a_value_is_one_argument(site: Site, saved: str) -> None:
    version = call(site, "save", saved, "--name", f"{saved}-text", "--param", "mode=fast")
    assert version["schema"]["properties"]["mode"] == {"type": "string", "default": "fast"}
    evil = "x; rm -rf / $(id) `id`"
    made = call(site, "run", f"{saved}-text", "--set", f"mode={evil}", "--run", f"{saved}-evil")
    assert request(site, made["requests"][0])["environment"]["MODE"] == evil
    site.lading("runs", "cancel", f"{saved}-evil", "--yes")


def test_a_request_is_a_template_too(site: Site, image: str, here: Path) -> None:
    site.command(
        "run", "--image", image, "--name", "alone", "--secret", "key=abc", "--", "tool", "7",
        plays=[Play()],
    )  # fmt: skip
    uuid = request_named(site, "alone")
    made = call(site, "save", uuid, "--param", "n=7")
    assert (made["name"], len(made["requests"])) == ("alone", 1)
    assert "abc" not in json.dumps(made)
    assert "key" in site.lading("template", "run", "alone", code=1).stderr
    started = call(site, "run", "alone", "--set", "n=8", "--secret", "key=abc")
    assert request(site, started["requests"][0])["command"] == ["tool", "8"]
    site.lading("runs", "cancel", "alone", "--yes")
