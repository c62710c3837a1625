from __future__ import annotations

from pathlib import Path

import pytest

from lading.wiring.checked_machine import CheckedMachine


@pytest.mark.parametrize(
    ("prefix", "arguments", "optimised"),
    [
        ("/usr", "", True),
        ("/opt/python", "'--enable-shared' '--enable-optimizations'", True),
        ("/opt/python", None, True),
        ("/opt/python", "'--enable-shared'", False),
    ],
)
def test_how_python_was_built(
    monkeypatch: pytest.MonkeyPatch, prefix: str, arguments: str | None, optimised: bool
) -> None:
    monkeypatch.setattr("sys.base_prefix", prefix)
    monkeypatch.setattr("sysconfig.get_config_var", {"CONFIG_ARGS": arguments}.get)
    assert CheckedMachine(data=Path("data"), user=0).python_is_optimised() == optimised
