"""trash and undelete against a real API."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Site


def test_into_the_trash_and_back(site: Site, here: Path) -> None:
    (here / "f").write_text("trash")
    uuid = json.loads(site.lading("put", "--json", "--name", "rubbish", "f").stdout)["uuid"]
    assert f"'lading undelete {uuid}' takes it out" in site.lading("trash", "rubbish").stderr
    assert "trash" in site.lading("ls", uuid, code=1).stderr
    assert [one["uuid"] for one in json.loads(site.lading("undelete", "--json").stdout)] == [uuid]
    assert uuid in site.lading("undelete").stdout
    assert f"{uuid} (rubbish) is back" in site.lading("undelete", uuid).stderr
    assert site.lading("cat", f"{uuid}/f").stdout == "trash"
    assert [one["uuid"] for one in json.loads(site.lading("trash", "--json", uuid).stdout)] == [
        uuid
    ]
    assert [one["uuid"] for one in json.loads(site.lading("undelete", "--json", uuid).stdout)] == [
        uuid
    ]


def test_mistakes_change_nothing(site: Site, here: Path) -> None:
    (here / "f").write_text("kept")
    uuid = json.loads(site.lading("put", "--json", "f").stdout)["uuid"]
    assert "names nothing stored" in site.lading("trash", uuid, "nosuch", code=1).stderr
    assert "takes files out of a collection" in site.lading("trash", f"{uuid}/f", code=2).stderr
    assert "not the uuid of a collection" in site.lading("undelete", "f", code=1).stderr
    assert site.lading("cat", f"{uuid}/f").stdout == "kept"
