"""What anybody may ask: the exported configuration, the vocabulary, whether the server lives (api-contract 4.16)."""

from __future__ import annotations

import hmac

from lading.api.authentication import find_token
from lading.api.exchange import Answer, Call
from lading.config import export
from lading.core.errors import Forbidden, Unauthenticated
from lading.core.records import USERS
from lading.core.schema import Record
from lading.store import records

_NO_URL: Record = {"ExternalURL": ""}


async def get_config(call: Call) -> Answer:
    """The configuration without its private keys."""
    config = call.services.config
    url = config.ExternalURL
    shown: Record = export(config)
    shown["Collections"] |= {"CollectionVersioning": False, "ManagedProperties": {}}
    shown["Services"] = {
        "Controller": {"ExternalURL": url},
        "Keepproxy": {"ExternalURL": url},
        "Websocket": {"ExternalURL": websocket_url(url)},
        **{name: dict(_NO_URL) for name in ("WebDAV", "WebDAVDownload", "Workbench1", "Workbench2")},
    }
    shown |= {
        "RemoteClusters": {},
        "InstanceTypes": {},
        "Login": {},
        "Users": {"AnonymousUserToken": ""},
        "Volumes": {},
        "Workbench": {},
        "TLS": {"Insecure": False},
    }
    return Answer(body=shown)


def websocket_url(url: str) -> str:
    """Where events are listened to."""
    return url.replace("http", "ws", 1).rstrip("/") + "/websocket" if url else ""


async def get_vocabulary(call: Call) -> Answer:
    """The vocabulary: every property is free."""
    del call
    return Answer(body={"strict_tags": False, "tags": {}})


async def get_health(call: Call) -> Answer:
    """Whether the server and its database answer; asks for the management token."""
    token = find_token(call.headers, call.params)
    wanted = call.services.config.ManagementToken
    if not token:
        raise Unauthenticated("Not logged in: send the management token")
    if not wanted or not hmac.compare_digest(token.encode(), wanted.encode()):
        raise Forbidden("Forbidden: this is not the management token")
    async with call.services.database.reading() as tx:
        await records.get(tx, USERS, call.services.system_user)
    return Answer(body={"health": "OK"})
