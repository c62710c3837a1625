"""A server of its parts, as the configuration asks for them."""

from __future__ import annotations

from pathlib import Path

from lading.api.logins.authentication import ACCEPT_TOKEN
from lading.api.logins.provider_client import PROVIDER
from lading.api.server.machine_board import MACHINES, OwnMachines
from lading.api.server.wait_statuses import STATUSES, OwnStatuses
from lading.testing.world import world


async def test_a_server_alone_keeps_reports_in_memory(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        features = it.app.services.features
        assert isinstance(features[STATUSES], OwnStatuses)
        assert isinstance(features[MACHINES], OwnMachines)
        assert (features[PROVIDER], features[ACCEPT_TOKEN]) == (None, None)


async def test_a_provider_is_asked_where_one_is_configured(tmp_path: Path) -> None:
    login = {
        "Enable": True,
        "Issuer": "https://login.example/",
        "ClientID": "c",
        "ClientSecret": "s",
    }
    for accepts in (False, True):
        root = tmp_path / str(accepts)
        root.mkdir()
        settings = {"OpenIDConnect": {**login, "AcceptAccessToken": accepts}}
        async with world(root, Login=settings) as it:
            features = it.app.services.features
            assert features[PROVIDER] is not None
            assert (features[ACCEPT_TOKEN] is not None) is accepts
