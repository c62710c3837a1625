"""Ways to submit steps of runs and to read what commands print."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.site import Play, Site


def submit(site: Site, image: str, run: str, *command: str, play: Play, code: int = 0) -> None:
    """Run a step of a run."""
    site.command("run", "--image", image, "--run", run, "--", *command, plays=[play], code=code)


def read(site: Site, *arguments: str) -> Any:
    """The JSON that a command prints."""
    return json.loads(site.lading("runs", *arguments, "--json").stdout)
