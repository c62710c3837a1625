"""Secrets and uuids that a server makes."""

from __future__ import annotations

from lading.api.services import hash_secret
from lading.testing.world import World


async def test_secrets_of_containers_can_be_told_again(it: World) -> None:
    services = it.app.services
    assert (
        services.container_secret("t")
        == services.container_secret("t")
        != services.container_secret("u")
    )
    assert len(services.container_secret("t")) == len(services.new_secret()) == 50
    assert services.new_secret() != services.new_secret()
    assert services.new_uuid("dz642").startswith("zzzzz-dz642-")
    assert len(hash_secret("x")) == 64
