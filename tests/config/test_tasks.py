"""The section on GA4GH tasks."""

from __future__ import annotations

from lading.config.site import export, load


def test_it_is_read_and_kept_private() -> None:
    config = load(
        None,
        {
            "TES": {
                "AnonymousToken": "hush",
                "FileRoots": {"/data": {"Path": "/srv/data", "Write": True}},
                "MaxObjectSize": "5GiB",
            }
        },
    )
    assert config.TES.FileRoots == {"/data": {"Path": "/srv/data", "Write": True}}
    assert config.TES.MaxObjectSize == 5 << 30
    assert export(config)["TES"] == {}
