"""A bounded run of the calls that are generated from the OpenAPI document; `make fuzz` makes 20,000."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.bodies import try_bodies
from tests.fuzz.document import operations, try_document
from tests.fuzz.site import populated


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_call_breaks_the_document(tmp_path: Path) -> None:
    with populated(tmp_path, seed=1) as site:
        assert try_document(site, calls=800, number=1) == []
        assert {200, 400, 401, 403, 404, 422} <= set(site.statuses)
        assert sum(site.statuses.values()) > len(list(operations()))


def test_spoiled_bodies_are_refused(tmp_path: Path) -> None:
    with populated(tmp_path, seed=2) as site:
        assert try_bodies(site, calls=3000, number=2) == []
        assert {200, 400, 422} <= set(site.statuses)
