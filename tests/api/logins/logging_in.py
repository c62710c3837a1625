"""A world whose people log in at a provider in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lading.core.records.schema import JSON, Record
from lading.testing.asgi import AsgiTransport
from lading.testing.identity_provider import CLIENT, ISSUER, SECRET, FakeIdentityProvider
from lading.testing.world import START, ApiReply, World, world


@dataclass(slots=True, kw_only=True)
class LoginWorld:
    """A world and its provider."""

    world: World
    provider: FakeIdentityProvider

    async def finish(self, **changes: JSON) -> ApiReply:
        """A login from its begin to its end; `changes` are of the last call."""
        return await self.take(await self.begin(), **changes)

    async def begin(self) -> Record:
        """What the page keeps, with the code of the provider."""
        begun: Record = await self.world.ok("POST", "openid_connect/begin", token="")
        answer = self.provider.log_in(begun["authorization_url"])
        assert answer["state"] == begun["state"]
        assert answer["to"] == "https://127.0.0.1:9440/ui/openid_connect/done"
        return {**begun, "code": answer["code"]}

    async def take(self, begun: Record, **changes: JSON) -> ApiReply:
        """The end of a login."""
        sent = {name: begun[name] for name in ("code", "nonce", "code_verifier")}
        return await self.world.request(
            "POST", "openid_connect/finish", {**sent, **changes}, token=""
        )

    async def user(self, **changes: JSON) -> Record:
        """The user of a login."""
        reply = await self.finish(**changes)
        assert reply.status == 200, reply.error
        found: Record = await self.world.ok("GET", "users/current", token=token_of(reply))
        return found


def token_of(reply: ApiReply) -> str:
    """The token of a finished login."""
    return f"v2/{reply.json['uuid']}/{reply.json['api_token']}"


@asynccontextmanager
async def login_world(root: Path, **settings: Any) -> AsyncIterator[LoginWorld]:
    """A world with a provider; `settings` are keys of Login.OpenIDConnect. New users are active."""
    moment = [START.timestamp()]
    provider = FakeIdentityProvider(clock=lambda: moment[0])
    login = {
        "Enable": True, "Issuer": ISSUER, "ClientID": CLIENT, "ClientSecret": SECRET, **settings,
    }  # fmt: skip
    async with world(
        root,
        connect=lambda _: AsgiTransport(provider),
        Login={"OpenIDConnect": login},
        Users={"NewUsersAreActive": True},
    ) as made:
        provider.clock = lambda: made.clock.moment.timestamp()
        yield LoginWorld(world=made, provider=provider)
