"""`lading admin end`: an administrator ends what another one holds."""

from __future__ import annotations

import json

from lading.core.records.schema import Record
from tests.cli.site import Site


def running(site: Site) -> str:
    request: Record = site.call(site.world.submit())
    site.call(site.world.lock(request["container_uuid"]))
    return str(request["container_uuid"])


def test_it_ends_containers_and_tells_why(site: Site) -> None:
    uuid = running(site)
    said = site.lading("admin", "end", uuid, "--reason", "hangs").stderr
    assert f"ended {uuid}" in said
    found: Record = site.call(site.world.ok("GET", f"containers/{uuid}"))
    error = "Ended by the administrator admin: hangs"
    assert (found["state"], found["runtime_status"]["error"]) == ("Cancelled", error)
    other = running(site)
    shown = json.loads(site.lading("admin", "end", other, "--json").stdout)
    assert shown == {"ended": [other]}


def test_a_mistake_ends_nothing(site: Site) -> None:
    uuid, absent = running(site), "zzzzz-dz642-000000000000000"
    site.lading("admin", "end", uuid, absent, code=1)
    found: Record = site.call(site.world.ok("GET", f"containers/{uuid}"))
    assert found["state"] == "Locked"
