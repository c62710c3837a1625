"""The section on fair share."""

from __future__ import annotations

from lading.config.site import export, load


def test_it_is_read_and_shown() -> None:
    given = {"Enabled": True, "HalfLife": "2h", "Weights": {"zzzzz-j7d0g-000000000000001": 3}}
    config = load(None, {"Containers": {"FairShare": given}})
    found = config.Containers.FairShare
    assert (found.Enabled, found.By, found.HalfLife) == (True, "project", 7200.0)
    assert found.Weights == {"zzzzz-j7d0g-000000000000001": 3.0}
    assert export(config)["Containers"]["FairShare"]["Enabled"] is True


def test_it_is_off_by_default() -> None:
    assert load(None).Containers.FairShare.Enabled is False
