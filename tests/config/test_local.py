"""The section on the dispatcher of one machine."""

from __future__ import annotations

from lading.config.site import load
from lading.wiring.dispatcher import settings


def test_the_limit_for_backfill_reaches_the_dispatcher() -> None:
    assert settings(load(None), "local").passing == 600.0
    config = load(None, {"Local": {"BackfillLimit": "2m"}})
    assert settings(config, "kubernetes").passing == 120.0
