"""Requests by name, project, user, property, age and state, and their order."""

from __future__ import annotations

import json

import pytest

from lading.cli.running.selection import common_beginning
from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


@pytest.fixture(scope="module", autouse=True)
def some(site: Site, image: str) -> None:
    """Four requests, two of which failed."""
    for name, code in (("sel.0", 0), ("sel.1", 7), ("sel.2", 3), ("else", 0)):
        site.command(
            "run", "--image", image, "--name", name, "--", "select", name,
            plays=[Play(exit_code=code)], code=code,
        )  # fmt: skip


def names(site: Site, *arguments: str) -> list[str]:
    found = json.loads(site.lading("request", "list", "--json", *arguments).stdout)
    return [one["name"] for one in found]


def test_by_name_and_outcome(site: Site) -> None:
    assert names(site, "--name", "sel.*") == ["sel.2", "sel.1", "sel.0"]
    assert names(site, "--name", "sel.0", "--name", "el*") == ["else", "sel.0"]
    assert names(site, "--name", "sel.*", "--failed") == ["sel.2", "sel.1"]
    assert names(site, "--name", "sel.*", "--failed", "--limit", "1") == ["sel.2"]
    assert names(site, "--name", "sel.[01]", "--since", "9999d", "--state", "Final") == [
        "sel.1",
        "sel.0",
    ]
    assert names(site, "--project", "zzzzz-j7d0g-000000000000000") == []


def test_a_failure_is_shown_as_one_and_the_rest_is_counted(site: Site) -> None:
    done = site.lading("request", "list", "--limit", "3")
    assert "failed 7" in site.lading("request", "list", "--name", "sel.1").stdout
    assert len(done.stdout.splitlines()) == 4
    assert "lading: 3 of " in done.stderr


def test_by_state_as_it_is_shown(site: Site, image: str) -> None:
    site.lading("run", "--detach", "--image", image, "--name", "sel.waits", "--", "waits")
    site.lading("run", "--detach", "--image", image, "--name", "sel.gone", "--", "gone")
    site.lading("request", "cancel", "sel.gone")
    site.command(
        "run", "--image", image, "--name", "sel.missing", "--", "nosuch", code=127,
        plays=[Play(error="the command cannot be started: not found", failure="user")],
    )  # fmt: skip
    found = {
        state: names(site, "--name", "sel.*", "--state", state)
        for state in ("failed", "Complete", "queued", "Running", "Cancelled", "waiting", "done")
    }
    assert found == {
        "failed": ["sel.missing", "sel.2", "sel.1"],
        "Complete": ["sel.0"],
        "queued": ["sel.waits"],
        "Running": [],
        "Cancelled": ["sel.gone"],
        "waiting": ["sel.waits"],
        "done": ["sel.0"],
    }
    site.lading("request", "cancel", "sel.waits")


def test_by_property(site: Site, image: str) -> None:
    for value in ("1", "2"):
        site.lading(
            "run", "--detach", "--image", image, "--name", f"prop.{value}",
            "--property", f"batch={value}", "--property", "a.b=x", "--", "prop", value,
        )  # fmt: skip
    assert names(site, "--property", "batch=2") == ["prop.2"]
    assert names(site, "--property", "batch=2", "--property", "batch=1") == []
    assert names(site, "--property", "a.b=x") == ["prop.2", "prop.1"]


def test_by_user(site: Site) -> None:
    site.lading("user", "create", "ada")
    mine = json.loads(site.lading("user", "show", "--json").stdout)["uuid"]
    assert names(site, "--user", "ada") == []
    assert len(names(site, "--user", mine, "--name", "sel.?")) == 3
    assert "no user is called so" in site.lading("request", "list", "--user", "eve", code=1).stderr


def test_orders(site: Site, image: str) -> None:
    for number, priority in ((10, 3), (9, 900), (1, 70)):
        site.lading(
            "run", "--detach", "--image", image, "--name", f"sort.{number}",
            "--priority", str(priority), "--", "sort", str(number),
        )  # fmt: skip
    of = ("--name", "sort.*")
    assert names(site, *of, "--sort", "name") == ["sort.1", "sort.9", "sort.10"]
    assert names(site, *of, "--sort", "priority", "--limit", "2") == ["sort.9", "sort.1"]
    assert len(names(site, *of, "--sort", "took")) == len(names(site, *of, "--sort", "state")) == 3
    done = site.lading("request", "list", *of, "--sort", "name", "--limit", "1")
    assert "1 of 3" in done.stderr


def test_more_than_are_shown(site: Site) -> None:
    assert (
        "the newest 1; there are more"
        in site.lading("request", "list", "--limit", "1", "--name", "sel.*").stderr
    )
    assert site.lading("request", "list", "--limit", "3", "--name", "sel.?").stderr == ""


def test_the_beginning_that_patterns_have_in_common() -> None:
    assert common_beginning(["sort.", "sort.1", "sorted"]) == "sort"
    assert (common_beginning(["a"]), common_beginning(["a", "b"])) == ("a", "")
