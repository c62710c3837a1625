"""The sections on the server: limits, the trail, addresses, the database."""

from __future__ import annotations

import pytest

from lading.config.site import export, load
from lading.core.errors import Invalid


def test_addresses_stand_in_a_section_of_each_service() -> None:
    config = load(None, {"Services": {"Workbench2": {"ExternalURL": "https://w.example/"}}})
    assert config.Services.Workbench2.ExternalURL == "https://w.example/"
    assert export(config)["Services"]["Workbench2"] == {"ExternalURL": "https://w.example/"}


def test_defences_and_the_database_are_private() -> None:
    connection = {"host": "db.example.org", "password": "hush", "port": 5433}
    config = load(None, {"PostgreSQL": {"Connection": connection}})
    assert config.PostgreSQL.Connection == connection
    exported = export(config)
    assert exported["PostgreSQL"] == {}
    assert "MaxConnections" not in exported["API"]
    assert exported["API"]["MaxItemsPerResponse"] == 1000
    with pytest.raises(Invalid, match=r"PostgreSQL\.Connection"):
        load(None, {"PostgreSQL": {"Connection": {"port": 1.5}}})
