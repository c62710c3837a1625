"""A bounded run of the calls that are generated from the OpenAPI document; `make fuzz` makes
20,000.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.bodies import try_bodies
from tests.fuzz.document import operations, try_document
from tests.fuzz.site import populated
from tests.postgres import PostgresServer


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> PostgresServer | None:
    found: PostgresServer | None = (
        request.getfixturevalue("postgres") if request.param == "postgresql" else None
    )
    return found


def test_no_call_breaks_the_document(tmp_path: Path, server: PostgresServer | None) -> None:
    with populated(tmp_path, seed=1, server=server) as site:
        assert try_document(site, calls=500, number=1) == []
        assert {200, 400, 401, 403, 404, 422} <= set(site.statuses)
        assert sum(site.statuses.values()) > len(list(operations()))


def test_spoiled_bodies_are_refused(tmp_path: Path, server: PostgresServer | None) -> None:
    with populated(tmp_path, seed=2, server=server) as site:
        assert try_bodies(site, calls=1500, number=2) == []
        assert {200, 400, 422} <= set(site.statuses)
