"""A plain HTTPS client of a running server, with any token, and the users and tokens that attacks
need.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import md5
from typing import Any

from lading.core.data import locator
from tests.system.cluster import Cluster

Record = dict[str, Any]
ANONYMOUS = "anonymous0token0of0a0test0that0is0long0enough00000"
QUIET = f"Containers:\n  Dispatcher: none\nUsers:\n  AnonymousUserToken: {ANONYMOUS}\n"
"""Configuration of a server without a dispatcher that lets anonymous callers in."""


@dataclass(frozen=True)
class Answer:
    """Status and body of an answer."""

    status: int
    text: str

    @property
    def json(self) -> Record:
        """The body as JSON."""
        found: Record = json.loads(self.text)
        return found


@dataclass(frozen=True)
class Stranger:
    """Sends requests as they are given."""

    cluster: Cluster

    @property
    def admin(self) -> str:
        """The token of the admin."""
        return self.cluster.environment["ARVADOS_API_TOKEN"]

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; a `bytes` body goes out as it is, anything else as JSON."""
        host, _, port = self.cluster.address.rpartition(":")
        context = ssl.create_default_context(cafile=str(self.cluster.data / "tls.crt"))
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
        sent = {"Authorization": f"Bearer {token}"}
        data = (
            body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        )
        if data is not None and not isinstance(body, bytes):
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, path, data, sent | dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode())
        finally:
            connection.close()

    def call(self, method: str, path: str, body: object = None, *, token: str = "") -> Answer:
        """Send one call below /arvados/v1/, as the admin unless a token is given."""
        return self.send(method, f"/arvados/v1/{path}", body, token=token or self.admin)

    def ok(self, method: str, path: str, body: object = None, *, token: str = "") -> Record:
        """The body of an answer that must be 200."""
        answer = self.call(method, path, body, token=token)
        assert answer.status == 200, answer
        return answer.json

    def user(self, name: str) -> str:
        """A new active user's uuid."""
        return str(
            self.ok("POST", "users", {"username": name, "email": f"{name}@example.org"})["uuid"]
        )

    def token(self, *scopes: str, owner: str = "") -> str:
        """A new token in its v2 form; of the admin unless an owner is given."""
        wanted: Record = {"scopes": list(scopes) or ["all"]}
        made = self.ok(
            "POST", "api_client_authorizations", wanted | ({"owner_uuid": owner} if owner else {})
        )
        return f"v2/{made['uuid']}/{made['api_token']}"

    def keep(self, data: bytes, *, token: str) -> str:
        """Store a block; its signed locator."""
        answer = self.send("PUT", f"/{md5(data).hexdigest()}", data, token=token)
        assert answer.status == 200, answer
        return answer.text.strip()

    def collection(self, data: bytes, *, token: str = "", **attributes: object) -> Record:
        """A collection with one file, `file`, stored by its owner."""
        where = self.keep(data, token=token or self.admin)
        manifest = f". {where} 0:{len(data)}:file\n"
        return self.ok(
            "POST", "collections", {"manifest_text": manifest, **attributes}, token=token
        )


def bare(signed: str) -> str:
    """A locator without its signature."""
    return locator.parse(signed).bare
