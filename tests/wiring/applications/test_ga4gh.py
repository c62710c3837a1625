"""TES and WES as the server makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.config.site import load
from lading.core.errors import Invalid
from lading.core.tes.file_roots import make_roots
from lading.testing.asgi import AsgiTransport
from lading.testing.world import call_asgi, world
from lading.wiring.applications.ga4gh import make_ga4gh, transfer_site

ROOTS = {"/data": {"Path": "/mnt"}}


async def test_service_info_names_the_storage(tmp_path: Path) -> None:
    async with world(tmp_path, TES={"FileRoots": ROOTS}) as it:
        made = make_ga4gh(AsgiTransport(it.app), it.config, it.database)
        app: Any = made.app
        reply = await call_asgi(app, "GET", "/ga4gh/tes/v1/service-info", headers={})
        assert "file:///data/" in reply.json["storage"]
        reply = await call_asgi(app, "GET", "/ga4gh/wes/v1/service-info", headers={})
        assert reply.json["type"]["artifact"] == "wes"
        await made.worker.look()


def test_settings_of_transfers() -> None:
    config = load(None, {"ClusterID": "zzzzz", "TES": {"AllowedNetworks": ["10.0.0.0/8"]}})
    site = transfer_site(config, make_roots(config.TES.FileRoots))
    assert site.network.allowed == ("10.0.0.0/8",)
    config = load(None, {"ClusterID": "zzzzz", "TES": {"AllowedNetworks": ["ten"]}})
    with pytest.raises(Invalid, match=r"TES\.AllowedNetworks"):
        transfer_site(config, ())
