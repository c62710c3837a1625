"""Templates on the server: saved, found, removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lading
from lading.client.templates import records
from lading.core.errors import RequestError
from tests.cli.site import Site
from tests.client.templates.making import save


def test_a_save_of_somebody_else_is_not_lost(
    stage: Site, image: str, connecting: Callable[[], lading.Site]
) -> None:
    with connecting() as site:
        first = save(site, image, "both")
        save(site, image, "both")
        # It was read before the second version was saved.
        with pytest.raises(RequestError):
            site.call(records.remove(site.api, first, 1))
        found, _ = site.call(records.find_template(site.api, first.uuid))
        site.call(records.remove(site.api, found, 1))
        found, _ = site.call(records.find_template(site.api, "both"))
        assert [version.number for version in found.versions] == [2]
