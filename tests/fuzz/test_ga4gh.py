"""A bounded run of the calls that are generated from the documents of TES and WES; `make fuzz`
makes 10,000 of each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.ga4gh import KINDS, try_ga4gh


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("kind", [*KINDS])
def test_no_call_breaks_the_document(tmp_path: Path, kind: str) -> None:
    faults, statuses = try_ga4gh(kind, tmp_path, calls=300, number=1)
    assert faults == []
    assert {200, 400, 401, 404} <= set(statuses)
    assert sum(statuses.values()) > 200
