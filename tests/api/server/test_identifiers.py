"""Secrets and uuids that a server makes."""

from __future__ import annotations

from lading.api.server.identifiers import hash_secret
from lading.testing.world import World


async def test_secrets_of_containers_can_be_told_again(it: World) -> None:
    services = it.app.services
    assert (
        services.ids.container_secret("t")
        == services.ids.container_secret("t")
        != services.ids.container_secret("u")
    )
    assert len(services.ids.container_secret("t")) == len(services.ids.new_secret()) == 50
    assert services.ids.new_secret() != services.ids.new_secret()
    assert services.ids.new_uuid("dz642").startswith("zzzzz-dz642-")
    assert len(hash_secret("x")) == 64
