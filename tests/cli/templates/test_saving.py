"""`lading template save`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.site import Play, Site
from tests.cli.templates.template_site import call


def test_places_and_a_schema_file(site: Site, saved: str, here: Path) -> None:
    (here / "schema.json").write_text('{"properties": {"k": {"title": "K", "maximum": 99}}}')
    other = call(
        site, "save", saved, "--name", f"{saved}-b", "--param", "k=25", "--bind", "k=align:2",
        "--schema", "schema.json", "--type", "k=integer",
    )  # fmt: skip
    assert other["schema"]["properties"]["k"]["title"] == "K"
    assert [binding["step"] for binding in other["bindings"]["k"]] == [0]
    (here / "bad.json").write_text("{")
    for option, message in (
        (("--schema", "bad.json"), "is not JSON"), (("--schema", "none.json"), "No such file"),
        (("--bind", "j=x:1"), "j is no parameter"), (("--bind", "k=align:99"), "no such argument"),
        (("--type", "k=text"), "must be one of"), (("--choice", "k"), "is not NAME=VALUE"),
    ):  # fmt: skip
        refused = site.lading("template", "save", saved, "--param", "k=25", *option, code=1)
        assert message in refused.stderr


def test_a_live_run_is_no_template(site: Site, image: str, here: Path) -> None:
    site.lading("run", "--detach", "--image", image, "--run", "live", "--", "a")
    assert "is waiting" in site.lading("template", "save", "live", code=1).stderr
    site.lading("runs", "cancel", "live", "--yes")


def test_a_script_takes_no_value(site: Site, image: str, here: Path) -> None:
    run = ("run", "--quiet", "--image", image, "--run", "script", "--name", "s", "--")
    site.command(*run, "sh", "-c", "align -k 25", plays=[Play()])
    refused = site.lading("template", "save", "script", "--param", "k=25", code=1)
    assert "only in a script of s" in refused.stderr


def test_the_next_commands_quote_the_name(site: Site, saved: str, here: Path) -> None:
    stored = site.lading("template", "save", saved, "--name", "my ü", "--param", "k=25")
    assert "lading template run 'my ü'" in stored.stderr
    assert "lading template show 'my ü'" in stored.stderr
