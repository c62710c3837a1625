"""Requests by name, project, age and outcome."""

from __future__ import annotations

import json

import pytest

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


def test_many_are_cancelled_by_name(site: Site, image: str) -> None:
    for name in ("gone.0", "gone.1", "stays"):
        site.lading("run", "--detach", "--image", image, "--name", name, "--", "long", name)
    site.lading("request", "cancel", "--name", "gone.*", code=1)
    assert names(site, "--name", "gone.*", "--state", "Final") == []
    site.lading("request", "cancel", "--name", "gone.*", "--yes")
    assert sorted(names(site, "--name", "gone.*", "--state", "Final")) == ["gone.0", "gone.1"]
    assert names(site, "--name", "stays", "--state", "Committed") == ["stays"]
    site.lading("request", "cancel", "--name", "stays", "--yes")
    refused = site.lading("request", "cancel", "--name", "gone.*", "--yes", code=1)
    assert "no request that has not ended matches" in refused.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("last", "--name", "x"), ("--failed",), ("--failed", "--name", "x")]
)
def test_what_cannot_be_cancelled(site: Site, arguments: tuple[str, ...]) -> None:
    refused = site.lading("request", "cancel", *arguments, code=2)
    assert "Name requests, or give --name, --project or --since" in refused.stderr
