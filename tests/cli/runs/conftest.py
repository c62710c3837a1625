"""The image of the steps of all runs."""

from __future__ import annotations

import pytest

from tests.cli.site import Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())
