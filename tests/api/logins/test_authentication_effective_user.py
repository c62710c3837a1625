"""For whom a request acts."""

from __future__ import annotations

import pytest

from lading.api.logins.authentication import acting_for, authenticate
from lading.core.errors import Invalid
from lading.testing.world import World
from tests.records import make_request


async def test_a_runtime_token_acts_for_its_user(it: World) -> None:
    services = it.app.services
    admin, alice = (
        await authenticate(services, it.admin),
        await authenticate(services, await it.user("alice")),
    )
    assert admin is not None
    assert alice is not None
    assert await acting_for(services, make_request(), admin) == admin
    with_token = make_request(runtime_token=await it.user("alice"))
    assert (await acting_for(services, with_token, admin)).user_uuid == alice.user_uuid
    for token in ("x" * 50, ""):
        with pytest.raises(Invalid, match="Runtime token failed validation"):
            await acting_for(
                services,
                make_request(runtime_token=token or "v2/zzzzz-gj3su-000000000000001/x"),
                admin,
            )
