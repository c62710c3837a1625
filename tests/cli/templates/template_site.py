"""Ways to call commands of templates, and to read what they made."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.site import Site


def call(site: Site, *arguments: str) -> Any:
    """The JSON that a command of templates prints."""
    return json.loads(site.lading("template", *arguments, "--json").stdout)


def run_of(site: Site, name: str) -> Any:
    """A run, as `lading runs show` has it."""
    return json.loads(site.lading("runs", "show", name, "--json").stdout)


def request(site: Site, uuid: str) -> dict[str, Any]:
    """The record of a request."""
    return dict(site.call(site.world.ok("GET", f"container_requests/{uuid}")))


def request_named(site: Site, name: str) -> str:
    """The uuid of the request of a name."""
    filters = [["name", "=", name]]
    answer = site.call(site.world.ok("GET", "container_requests", params={"filters": filters}))
    return str(answer["items"][0]["uuid"])
