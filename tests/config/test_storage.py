"""The sections on blocks, collections and volumes."""

from __future__ import annotations

import pytest

from lading.config.site import export, load
from lading.core.errors import Invalid

UUID = "zzzzz-nyw5e-000000000000001"


def test_a_volume_has_a_section_by_its_uuid() -> None:
    volume = {
        "Driver": "S3",
        "StorageClasses": {"archive": True},
        "DriverParameters": {"Bucket": "b", "Race": 2, "UseTLS": True},
        "AccessViaHosts": {"https://keep1.example": {"ReadOnly": True}},
    }
    config = load(None, {"Volumes": {UUID: volume}})
    settings = config.Volumes[UUID]
    assert settings.DriverParameters == {"Bucket": "b", "Race": 2, "UseTLS": True}
    assert (settings.Driver, settings.Replication, settings.ReadOnly) == ("S3", 1, False)
    assert settings.AccessViaHosts == {"https://keep1.example": {"ReadOnly": True}}
    assert "Volumes" not in export(config)


def test_an_unknown_key_of_a_volume_is_named() -> None:
    with pytest.raises(Invalid, match=rf"unknown key Volumes\.{UUID}\.Colour"):
        load(None, {"Volumes": {UUID: {"Colour": "red"}}})


def test_sizes_and_times_have_units() -> None:
    collections = load(
        None, {"Collections": {"WebDAVCacheSize": "2GiB", "BlobSigningTTL": "1h"}}
    ).Collections
    assert (collections.WebDAVCacheSize, collections.BlobSigningTTL) == (2 << 30, 3600.0)
