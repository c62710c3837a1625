"""A provider of OpenID Connect in this process, which can be wrong in every way that matters.

It checks what a client sends as a real one does: codes are good once and only with the verifier of
their challenge. `claims` are put over the right ones in ID tokens, `signer` signs in place of the
published key, `algorithm` and `described` (the answer of userinfo) are as they are set.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import msgspec
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey
from starlette.types import Receive, Scope, Send

Key = ECKey | RSAKey | OctKey
ISSUER = "https://id.example.org"
CLIENT = "lading"
SECRET = "client secret+"


def make_key(name: str) -> ECKey:
    """A key to sign with."""
    return ECKey.generate_key("P-256", {"kid": name, "use": "sig", "alg": "ES256"})


@dataclass(slots=True, kw_only=True)
class FakeIdentityProvider:
    """An ASGI application; `clock` gives seconds since 1970."""

    clock: Callable[[], float]
    keys: list[Key] = field(default_factory=lambda: [make_key("first")])
    claims: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    described: dict[str, Any] = field(default_factory=dict)
    signer: Key | None = None
    algorithm: str = "ES256"
    token: Any = None
    """Value to return in place of an ID token."""
    holders: dict[str, dict[str, Any]] = field(default_factory=lambda: {"access": {}})
    """Claims by access token."""
    is_down: bool = False
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """Status and JSON by path, in place of the right ones; a `msgspec.Raw` is sent as it is."""
    asked: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _used: int = 0

    def log_in(self, address: str) -> dict[str, str]:
        """A person comes with an address of the client and logs in; the answer's parameters."""
        parts = urlsplit(address)
        query = dict(parse_qsl(parts.query))
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{ISSUER}/authorize"
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        self._used += 1
        code = f"code {self._used}"
        self._codes[code] = query
        return {"code": code, "state": query["state"], "to": query["redirect_uri"]}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call of the client."""
        body = b""
        while scope["method"] == "POST":
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.asked.append(scope["path"])
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        status, answer = self._answer(scope["path"], headers, body.decode())
        start = {"type": "http.response.start", "status": status, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": msgspec.json.encode(answer)})

    def _answer(self, path: str, headers: dict[str, str], body: str) -> tuple[int, Any]:
        if self.is_down:
            return 503, "no JSON object"
        if path in self.answers:
            return self.answers[path]
        match path:
            case "/.well-known/openid-configuration":
                return 200, {
                    "issuer": ISSUER,
                    "authorization_endpoint": f"{ISSUER}/authorize",
                    "token_endpoint": f"{ISSUER}/token",
                    "jwks_uri": f"{ISSUER}/keys",
                    "userinfo_endpoint": f"{ISSUER}/userinfo",
                    **self.metadata,
                }
            case "/keys":
                unknown = {"kty": "later", "kid": "unknown"}
                return 200, {"keys": [unknown, *(_shown(key) for key in self.keys)]}
            case "/userinfo":
                holder = self.holders.get(headers["authorization"].removeprefix("Bearer "))
                if holder is None:
                    return 401, {"error": "invalid_token"}
                return 200, {"sub": self.claims.get("sub", "jane"), **self.described, **holder}
            case _:
                return self._grant(
                    headers, {name: values[0] for name, values in parse_qs(body).items()}
                )

    def _grant(self, headers: dict[str, str], form: dict[str, str]) -> tuple[int, Any]:
        begun = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if begun is None or proof != begun["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        named = headers.get("authorization", "").removeprefix("Basic ")
        pair = base64.b64decode(named).decode() if named else ""
        known = pair == "lading:client+secret%2B" or form.get("client_secret") == SECRET
        if not known or form["redirect_uri"] != begun["redirect_uri"]:
            return 401, {"error": "invalid_client"}
        claims = {
            "iss": ISSUER,
            "aud": CLIENT,
            "sub": "jane",
            "nonce": begun["nonce"],
            "iat": int(self.clock()),
            "exp": int(self.clock()) + 600,
            **self.claims,
        }
        return 200, {"access_token": "access", "id_token": self.token or self._sign(claims)}

    def _sign(self, claims: dict[str, Any]) -> str:
        key = self.signer or self.keys[0]
        head = {"alg": self.algorithm, **({"kid": key.kid} if key.kid else {})}
        kept = {name: value for name, value in claims.items() if value is not None}
        payload = msgspec.json.encode(kept)
        return jws.serialize_compact(head, payload, key, algorithms=[self.algorithm])


def _shown(key: Key) -> dict[str, Any]:
    return dict(key.as_dict() if isinstance(key, OctKey) else key.as_dict(private=False))
