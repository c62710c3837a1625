"""The configuration of log lines."""

from __future__ import annotations

import pytest

from lading.config.site import export, load
from lading.core.errors import Invalid


def test_logs_are_text_unless_the_configuration_says_otherwise() -> None:
    logs = load().SystemLogs
    assert (logs.Format, logs.LogLevel, logs.LogRequests) == ("text", "info", "faults")
    assert load(None, {"SystemLogs": {"Format": "json"}}).SystemLogs.Format == "json"
    with pytest.raises(Invalid, match=r"SystemLogs\.Formatt"):
        load(None, {"SystemLogs": {"Formatt": "json"}})


def test_clients_are_not_told() -> None:
    assert export(load()).get("SystemLogs", {}) == {}
