"""Keys of S3 on both databases, as records matter."""

from __future__ import annotations

from pathlib import Path

from lading.api.logins.s3_keys import find_s3_secret
from lading.testing.world import world


async def test_the_secret_of_a_key_is_sealed(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        services = it.app.services
        token = await it.ok("POST", "api_client_authorizations", {"is_s3_key": True})
        assert await find_s3_secret(services, token["uuid"]) == token["api_token"]
        async with services.database.reading() as tx:
            rows = await tx.fetch(
                "SELECT s3_secret FROM api_client_authorizations WHERE uuid = ?", (token["uuid"],)
            )
        assert str(rows[0][0]).startswith("sealed1:"), "the database alone opens nothing"
        shown = await it.ok("GET", f"api_client_authorizations/{token['uuid']}")
        assert token["api_token"] not in str(shown)
        plain = await it.ok("POST", "api_client_authorizations", {})
        assert await find_s3_secret(services, plain["uuid"]) == ""
        assert await find_s3_secret(services, "zzzzz-gj3su-000000000000999") == ""


async def test_a_client_cannot_choose_the_secret(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        chosen = {"is_s3_key": True, "s3_secret": "chosen"}
        reply = await it.request("POST", "api_client_authorizations", chosen)
        assert reply.status in (400, 422)
