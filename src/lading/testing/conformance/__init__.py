"""Conformance suites for authors of an engine, a fleet, a driver or a volume.

Each suite is a class of tests with a fixture that its subclass gives: `engines`, `isolation`
(engines that isolate the command), `fleets`, `drivers`, `volumes`. They need pytest, and
pytest-asyncio in its mode `auto`; no other module of Lading imports these two.
"""

from __future__ import annotations

import pytest

# Before the suites are imported, so that pytest shows the values of their assertions.
for _name in ("drivers", "engines", "fleets", "isolation", "volumes"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")
