"""HTTP that TES and WES share: answers, credentials of callers, bodies.

Credentials: Bearer with a token; Basic with a token as the password, where `None:None` counts as
none (py-tes sends that without credentials); a header or query parameter named by TES.APIKeyName.
Addresses can hold tokens and are never logged.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from lading.config.tasks import TES
from lading.core.errors import (
    LadingError,
    MethodNotAllowed,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lading.core.protocols import http_head
from lading.core.values import Json

READ: Final = ("GET", "HEAD")
_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key",
    "Access-Control-Max-Age": "86400",
}
# Credentials that py-tes sends when it was given none.
_NOBODY: Final = "None:None"
# Bytes of a body that is read before the token is checked.
_SMALL: Final = 64 << 10


class MethodNotOffered(MethodNotAllowed):
    """An address has other methods, which are `offered`."""

    def __init__(self, method: str, offered: Sequence[str]) -> None:
        known = ", ".join(offered)
        super().__init__(f"{method[:20]}: is not offered here; these are: {known}")
        self.offered = offered


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceIdentity:
    """Facts about the installation for service-info."""

    cluster: str
    url: str


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """A response. `body` is not sent with status 204."""

    status: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCall:
    """A checked request to TES or WES. `path` has no slash at its end."""

    incoming: Request
    path: str
    headers: Mapping[str, str]
    query: list[tuple[str, str]]

    @property
    def method(self) -> str:
        """The method of the request."""
        return self.incoming.method


async def respond(
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    carry_out: Callable[[ServiceCall], Awaitable[JsonAnswer]],
    refuse: Callable[[LadingError], JsonAnswer],
    logger: logging.Logger,
) -> None:
    """Answer a request by what `carry_out` returns, an error by what `refuse` makes of it."""
    try:
        if scope["method"] == "OPTIONS":
            answer = JsonAnswer(204, None)
        else:
            answer = await carry_out(_read_call(Request(scope, receive)))
    except ClientDisconnect:
        return
    except LadingError as error:
        answer = refuse(error)
    except Exception:
        # The boundary of a request: a fault of the server must not end the connection.
        logger.exception("request failed method=%s", scope["method"])
        answer = refuse(LadingError("internal error: see the server's log"))
    await send_answer(scope, send, answer)


def _read_call(incoming: Request) -> ServiceCall:
    """The request without its body. Raises Malformed, Forbidden for a page of another origin."""
    scope, headers = incoming.scope, dict(incoming.headers)
    http_head.check_call(incoming.method, headers, scheme=str(scope.get("scheme", "https")))
    query = parse_qsl(
        scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=1000
    )
    path = str(scope["path"]).rstrip("/")
    return ServiceCall(incoming=incoming, path=path, headers=headers, query=query)


def refusal_head(error: LadingError, realm: str) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer to a refused request."""
    headers = {}
    if error.status == 401:
        headers["WWW-Authenticate"] = f'Bearer, Basic realm="{realm}"'
    if isinstance(error, Unavailable):
        headers["Retry-After"] = "1"
    if isinstance(error, MethodNotOffered):
        headers["Allow"] = ", ".join(error.offered)
    # A request that the API understood and refused (422) is malformed for TES.
    return 400 if error.status == 422 else error.status, headers


async def send_answer(scope: Scope, send: Send, answer: JsonAnswer) -> None:
    """Send a response; to HEAD without its body."""
    body = b"" if answer.status == 204 else msgspec.json.encode(answer.body)
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        **_CORS,
        **answer.headers,
    }
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    # The length that a GET would have, without the body.
    sent = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": sent})


def check_method(method: str, *offered: str) -> None:
    """Raise MethodNotOffered for a method that an address does not offer."""
    if method not in offered:
        raise MethodNotOffered(method, offered)


def caller_token(settings: TES, headers: Mapping[str, str], query: list[tuple[str, str]]) -> str:
    """The token that a request acts with. Raises Unauthenticated when nobody is named."""
    token = find_token(headers.get("authorization", ""))
    if not token and (name := settings.APIKeyName):
        token = headers.get(name.lower(), "") or dict(query).get(name, "")
    token = token or settings.AnonymousToken
    if not token:
        raise Unauthenticated("Not logged in: send a token with Authorization: Bearer TOKEN")
    return token


def find_token(header: str) -> str:
    """The token of an Authorization header; "" for none."""
    scheme, _, credential = header.partition(" ")
    match scheme.lower():
        case "bearer" | "oauth2":
            return credential.strip()
        case "basic":
            try:
                text = base64.b64decode(credential.strip(), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                return ""
            return "" if text == _NOBODY else text.partition(":")[2]
    return ""


async def read_body(
    incoming: Request, check: Callable[[], Awaitable[object]], *, most: int
) -> bytes:
    """A body of at most `most` bytes. `check` runs before a large body is read: it raises the error
    of an unknown caller. Raises TooLarge.
    """
    text = incoming.headers.get("content-length", "")
    length = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
    too_large = TooLarge(f"body: at most {most} bytes are taken")
    if length is not None and length > most:
        raise too_large
    if length is None or length > _SMALL:
        await check()
    parts, size = [], 0
    async for piece in incoming.stream():
        parts.append(piece)
        size += len(piece)
        if size > most:
            raise too_large
    return b"".join(parts)
