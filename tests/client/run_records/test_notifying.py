"""Wishes to be told of the end of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.run_records import notifying, reading
from lading.core.errors import Invalid
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[World]:
    """An API."""
    async with world(tmp_path) as served:
        yield served


async def test_an_equal_wish_is_made_once(it: World) -> None:
    api = ApiClient(AsgiTransport(it.app), it.admin)
    uuid = (await reading.begin(api, "r"))["uuid"]
    first = await notifying.notify(api, uuid, "r", "https://a.example/")
    again = await notifying.notify(api, uuid, "r", "https://a.example/")
    assert (bool(first.secret), again.secret) == (True, "")
    assert again.webhook["uuid"] == first.webhook["uuid"]
    # Another webhook of the project is no wish about its end.
    body = {"url": "https://b.example/", "event_types": ["*"], "project_uuid": uuid}
    await api.create("webhooks", body)
    assert len(await notifying.wishes(api, uuid)) == 1
    assert await notifying.forget(api, uuid) == 1


async def test_who_has_no_address_gives_one(it: World) -> None:
    token = await it.user("ada")
    me = await it.ok("GET", "users/current", token=token)
    await it.ok("PATCH", f"users/{me['uuid']}", {"email": None})
    api = ApiClient(AsgiTransport(it.app), token)
    uuid = (await reading.begin(api, "r"))["uuid"]
    with pytest.raises(Invalid, match="you have no e-mail address"):
        await notifying.notify(api, uuid, "r", notifying.ME)
