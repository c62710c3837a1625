"""A call that was passed on: for whom it counts, and what makes it nobody's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.api.container_access.gateway_client import claimed, make_claim, read_claim
from lading.core.errors import Forbidden, Unauthenticated
from lading.core.protocols.forwarding_claims import HEADER, Purpose
from lading.core.records.access import Principal
from lading.testing.world import World, world

UUID = "zzzzz-dz642-000000000000001"


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, Users={"AnonymousUserToken": "anonymous"}) as made:
        yield made


async def told(it: World, principal: Principal | None, *, url: str = "") -> Principal | None:
    """Who calls, as a server hears it that such a call is passed on to."""
    services = it.app.services
    url = url or services.config.ExternalURL
    headers = make_claim(
        services.clock, services.access, url, principal, UUID, Purpose.SHELL, address="10.0.0.1"
    )
    claim = read_claim(services, headers, Purpose.SHELL)
    assert claim is not None
    assert (claim.container_uuid, claim.address) == (UUID, "10.0.0.1")
    return await claimed(services, claim)


async def test_a_call_without_a_claim(it: World) -> None:
    assert read_claim(it.app.services, {}, Purpose.SHELL) is None


async def test_the_user_is_looked_up_anew(it: World) -> None:
    user = await it.ok("GET", "users/current", token=await it.user("alice"))
    principal = Principal(user_uuid=user["uuid"], token_uuid="t", token="secret", is_admin=True)
    found = await told(it, principal)
    assert found is not None
    assert (found.user_uuid, found.is_admin, found.token) == (user["uuid"], False, "")
    await it.ok("PUT", f"users/{user['uuid']}", {"is_active": False})
    with pytest.raises(Forbidden):
        await told(it, principal)
    with pytest.raises(Unauthenticated):
        await told(
            it, Principal(user_uuid="zzzzz-tpzed-000000000000009", token_uuid="t", token="secret")
        )


async def test_nobody_and_the_anonymous_user(it: World) -> None:
    assert await told(it, None) is None
    found = await told(
        it, Principal(user_uuid="zzzzz-tpzed-anonymouspublic", token_uuid="t", token="secret")
    )
    assert found is not None
    assert found.is_anonymous


async def test_a_claim_for_another_server_or_a_later_time(it: World) -> None:
    with pytest.raises(Unauthenticated):
        await told(it, None, url="https://elsewhere:1/")
    services = it.app.services
    headers = make_claim(
        services.clock,
        services.access,
        services.config.ExternalURL,
        None,
        UUID,
        Purpose.SHELL,
        address="",
    )
    with pytest.raises(Unauthenticated):
        read_claim(services, headers, Purpose.PORT)
    it.clock.advance(62)
    with pytest.raises(Unauthenticated):
        read_claim(services, headers, Purpose.SHELL)


async def test_a_claim_opens_nothing_but_a_session(it: World) -> None:
    services = it.app.services
    admin = Principal(
        user_uuid=services.ids.system_user, token_uuid="t", token="secret", is_admin=True
    )
    headers = make_claim(
        services.clock,
        services.access,
        services.config.ExternalURL,
        admin,
        UUID,
        Purpose.SHELL,
        address="",
    )
    value = headers[HEADER]
    for sent in (
        headers,
        {**headers, "authorization": f"Bearer {value}"},
        {"authorization": f"Bearer {value}"},
    ):
        given = {"authorization": "", **sent}
        assert (await it.request("GET", "users/current", headers=given)).status == 401
        assert (
            await it.request("POST", f"containers/{UUID}/gateway_tunnel", headers=given)
        ).status == 401
    given = {"authorization": "", **headers, "upgrade": "ssh"}
    assert (await it.request("POST", f"containers/{UUID}/ssh", headers=given)).status in (
        404,
        422,
        503,
    )
