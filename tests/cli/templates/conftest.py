"""The image of the steps of all runs, and a template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.site import Play, Site
from tests.cli.templates.template_site import run_of


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


@pytest.fixture
def saved(site: Site, image: str, here: Path) -> str:
    """A run of two steps, of which the second reads what the first made, saved as a template."""
    name = f"pipe-{here.name[-8:]}".replace("_", "-")
    (here / "reads.fq").write_text("ACGT")
    begun = site.lading("runs", "begin", name, "--param", "k=25", "--json").stdout
    uuid = json.loads(begun)["uuid"]
    step = ("run", "--quiet", "--image", image, "--run", f"{uuid}#1")
    site.command(
        *step, "--name", "align", "--input", "/in/reads.fq=reads.fq", "--env", "MODE=fast",
        "--", "align", "-k", "25", "/in/reads.fq", plays=[Play()],
    )  # fmt: skip
    first = run_of(site, name)["steps"][0]["requests"][0]
    site.command(
        *step, "--name", "count", "--input", f"/in={first['output']}", "--", "count", "--k=25",
        plays=[Play()],
    )  # fmt: skip
    site.lading(
        "template", "save", name, "--param", "k", "--param", "reads", "--param", "mode=fast",
        "--min", "k=11", "--max", "k=63", "--about", "k=size of k-mers", "--choice", "mode=fast",
        "--choice", "mode=slow", "--description", "Counts k-mers",
    )  # fmt: skip
    return name
