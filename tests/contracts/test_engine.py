"""The stub keeps to what every engine promises; the real ones are tried in
tests/system/test_engines.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.testing.conformance.engines import EngineSuite, Kit
from lading.testing.engine import StubEngine


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(StubEngine, tmp_path)


class TestStub(EngineSuite):
    """The suite on the stub."""
