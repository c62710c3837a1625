"""lading cost against a real API, with containers that are acted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.site import Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


def submit(site: Site, image: str, *more: str) -> tuple[str, str]:
    """The uuids of a new request and of its container."""
    uuid = site.lading("run", "--detach", "--image", image, *more).stdout.strip()
    found = site.call(site.world.ok("GET", f"container_requests/{uuid}"))
    return uuid, str(found["container_uuid"])


def test_costs_by_project_user_tool_and_day(site: Site, image: str) -> None:
    site.lading("project", "create", "dear")
    _, first = submit(site, image, "--project", "dear", "--", "bwa", "mem")
    site.call(site.world.run(first, cost=0.75))
    submit(site, image, "--", "bwa", "mem")
    _, failed = submit(site, image, "--", "sort", "x")
    site.call(site.world.run(failed, exit_code=1, cost=0.5))

    def costs(*options: str) -> Any:
        return json.loads(site.lading("cost", "--json", *options).stdout)

    found = costs("--since", "0")
    assert found["total"] == {
        "requests": 3,
        "spent": 1.25,
        "saved_by_reuse": 0.75,
        "lost_to_preemption": 0.0,
        "lost_to_failures": 0.5,
        "lost_to_cancellation": 0.0,
    }
    named = {one["name"]: one["spent"] for one in found["groups"]}
    assert named.pop("dear") == 0.75
    assert [(name.startswith("home of "), spent) for name, spent in named.items()] == [(True, 0.5)]
    tools = {one["key"]: one["spent"] for one in costs("--by", "tool", "--since", "0")["groups"]}
    assert tools == {"bwa": 0.75, "sort": 0.5}
    (user,) = costs("--by", "user", "--since", "0")["groups"]
    assert (user["requests"], user["name"] != user["key"]) == (3, True)
    assert sum(one["spent"] for one in costs("--by", "day", "--since", "0")["groups"]) == 1.25
    assert costs("--project", "dear", "--since", "0")["total"]["requests"] == 1


def test_the_table_ends_with_the_lines_of_the_total(site: Site) -> None:
    text = site.lading("cost", "--by", "tool", "--since", "0").stdout
    head, *_ = text.splitlines()
    assert head.split()[-1] == "TOOL"
    lines = [line.split("  ", 1)[0] for line in text.splitlines()[-6:]]
    assert lines == [
        "requests",
        "spent",
        "saved by reuse",
        "lost to preemption",
        "lost to failures",
        "lost to cancellation",
    ]
