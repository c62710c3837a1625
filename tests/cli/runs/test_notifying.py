"""`lading runs notify`, and --notify."""

from __future__ import annotations

from pathlib import Path

from tests.cli.runs.runs_site import read, submit
from tests.cli.site import Play, Site

URL = "https://ci.example/hook"


def test_a_wish_is_made_once_and_taken_back(site: Site, image: str, here: Path) -> None:
    submit(site, image, "told", "a", play=Play())
    assert "nobody is told" in site.lading("runs", "notify", "told").stderr
    made = site.lading("runs", "notify", "told", "--webhook", URL)
    assert "whsec_" in made.stdout
    assert "https://ci.example/…" in made.stdout
    again = read(site, "notify", "told", "--webhook", URL)
    assert [(wish["url"], wish["secret"], wish["states"]) for wish in again] == [(URL, "", [])]
    more = read(site, "notify", "told", "--webhook", URL, "--on-failure")
    assert sorted(len(wish["states"]) for wish in more) == [0, 2]
    assert "failed or cancelled" in site.lading("runs", "notify", "told").stdout
    assert read(site, "notify", "told", "--off") == []


def test_receivers_are_urls_and_addresses(site: Site, image: str, here: Path) -> None:
    submit(site, image, "mailed", "a", play=Play())
    own = site.call(site.world.ok("GET", "users/current"))["email"]
    if own:
        (wish,) = read(site, "notify", "mailed", "--email", "me")
        assert (wish["url"], wish["format"]) == (f"mailto:{own}", "email")
    mail = read(site, "notify", "mailed", "--email", "ada@example.org")
    assert "mailto:ada@example.org" in [wish["url"] for wish in mail]
    refused = site.lading("runs", "notify", "mailed", "--webhook", "nowhere", code=1)
    assert "is neither a URL" in refused.stderr
    site.lading("runs", "notify", "mailed", "--off", "--email", "me", code=2)
    site.lading("runs", "notify", "mailed", "--off")


def test_a_workflow_has_no_wish(site: Site, image: str, here: Path) -> None:
    runner = site.call(site.world.submit("cwl", scheduling_parameters={"supervisor": True}))
    refused = site.lading("runs", "notify", runner["uuid"], "--webhook", URL, code=1)
    assert "is the request of a workflow" in refused.stderr
    site.lading("runs", "cancel", runner["uuid"], "--yes")


def test_a_step_can_make_the_wish(site: Site, image: str, here: Path) -> None:
    step = ("run", "--image", image, "--notify", URL, "--run", "wished", "--", "a")
    done = site.command(*step, plays=[Play()])
    assert "signed with whsec_" in done.stderr
    assert len(read(site, "notify", "wished")) == 1
    refused = site.lading("run", "--image", image, "--notify", URL, "--", "a", code=125)
    assert "name the run with --run" in refused.stderr
