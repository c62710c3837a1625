"""The defaults of the loop."""

from __future__ import annotations

from lading.dispatch.settings import DispatchSettings


def test_pauses_grow_and_patience_outlasts_an_outage() -> None:
    defaults = DispatchSettings()
    assert 0 < defaults.retry_first < defaults.retry_longest
    assert defaults.kill_interval < defaults.kill_patience
    assert defaults.kill_patience > 600, (
        "a supervisor may go on trying to reach the API for ten minutes"
    )
