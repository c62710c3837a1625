"""A login that a person allows on the page of the site (`core.policy.device_logins`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlencode

from lading.client.api import ApiClient
from lading.core.errors import Unauthenticated
from lading.core.policy.device_logins import LIFE, LONGEST_NAME, PAGE

_PAUSE: Final = 2.0
"""Seconds between two questions whether the login is allowed."""


def page_address(site: str, digest: str, *, name: str) -> str:
    """The address of the page for a login at `https://SITE`. `name` says who asks, in the words of
    the program.
    """
    return f"https://{site}{PAGE}?{urlencode({'digest': digest, 'name': name[:LONGEST_NAME]})}"


async def wait_until_allowed(
    api: ApiClient,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    life: float = LIFE,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The user and the record of the token of `api`, once the site knows its secret. Raises
    Unauthenticated after `life` seconds.
    """
    for _ in range(round(life / _PAUSE)):
        try:
            user = await api.request("GET", "users/current")
        except Unauthenticated:
            await sleep(_PAUSE)
        else:
            return user, await api.request("GET", "api_client_authorizations/current")
    raise Unauthenticated(
        f"nobody allowed the login within {life / 60:.0f} minutes; run the command again, "
        "or give --token-file"
    )
