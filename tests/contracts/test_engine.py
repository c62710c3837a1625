"""The stub keeps to what every engine promises; the real ones are tried in
tests/system/test_engines.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.testing.engine import StubEngine
from tests.contracts.engine_suite import EngineSuite, Kit


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(StubEngine, tmp_path)


class TestStub(EngineSuite):
    """The suite on the stub."""
