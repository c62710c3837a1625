"""Waiting for a person who allows a login."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from lading.client.api import ApiClient
from lading.client.servers.device_login import page_address, wait_until_allowed
from lading.core.errors import Unauthenticated
from lading.core.policy.device_logins import LONGEST_NAME


class Api:
    """An API that knows the token after some calls."""

    def __init__(self, refusals: int) -> None:
        self._left = refusals
        self.pauses: list[float] = []

    async def request(self, method: str, path: str) -> dict[str, Any]:
        if self._left:
            self._left -= 1
            raise Unauthenticated("Not logged in")
        return {"uuid": path}

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def test_it_asks_until_the_login_is_allowed() -> None:
    api = Api(refusals=3)
    user, token = await wait_until_allowed(cast(ApiClient, api), sleep=api.sleep)
    assert user == {"uuid": "users/current"}
    assert token == {"uuid": "api_client_authorizations/current"}
    assert api.pauses == [2.0, 2.0, 2.0]


async def test_a_login_that_nobody_allows_ends() -> None:
    api = Api(refusals=100)
    with pytest.raises(Unauthenticated, match="nobody allowed the login within 1 minutes"):
        await wait_until_allowed(cast(ApiClient, api), sleep=api.sleep, life=60.0)
    assert sum(api.pauses) == 60.0


def test_the_address_has_the_digest_and_a_bounded_name() -> None:
    address = urlsplit(page_address("lab:1", "d" * 64, name="ann & bob" + "x" * 100))
    assert (address.scheme, address.netloc, address.path) == ("https", "lab:1", "/ui/device")
    query = parse_qs(address.query)
    assert query["digest"] == ["d" * 64]
    assert query["name"][0].startswith("ann & bob")
    assert len(query["name"][0]) == LONGEST_NAME
