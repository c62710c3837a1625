"""HTTP of the API: the call, with its body and parameters, and the response.

- Parameters come from query, form and JSON (docs/spec/api, section Parameters and attributes). The
  rules of record types are elsewhere, and records in responses too (`serializer`).
- `BodyReader` reads a body once its sender is known by a token in the head or in the query. A form
  may hold the token in its body, which is then read first: such bodies must be small and come in
  time, and have a small share of memory together.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
)
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from lading.api.server.vocabulary import VOCABULARY
from lading.api.services import ApiServices
from lading.config.server import API
from lading.core.errors import (
    Invalid,
    Malformed,
    TooLarge,
    Unauthenticated,
    Unavailable,
    from_status,
)
from lading.core.protocols import http_head
from lading.core.protocols.connection_limits import SharedAllowance
from lading.core.records.access import Principal
from lading.core.records.schema import JSON, Record, RecordType
from lading.core.resources import KIB, MIB
from lading.core.values import MAX_DEPTH, is_too_deep
from lading.net.pipes import Pipe

TAKE_OVER: Final = "lading.take_over"
"""The ASGI extension by which a connection becomes plain bytes: given a head, it sends that and
hands it over.
"""
TakeOver = Callable[[bytes], Awaitable[Pipe]]
ROUTE: Final = "lading.route"
"""Key of an ASGI scope: the name of the route of a call, once it is found."""
BOOLEANS: Final = frozenset(
    {
        "distinct",
        "ensure_unique_name",
        "include_trash",
        "include_old_versions",
        "redirect_to_new_user",
        "send_notification_email",
        "bypass_federation",
        "recursive",
        "exclude_home_project",
        "no_forward",
        "satisfy",
    }
)
STRANGER_BODY: Final = 64 * KIB
"""Largest body that is read before its sender is known, in bytes."""
STRANGER_BODIES: Final = 4 * MIB
"""Most bytes of all such bodies at once."""
_BESIDE: Final = frozenset(
    {"ensure_unique_name", "select", "cluster_id", "satisfy", "replace_files", "replace_segments"}
)
_TRANSPORT: Final = frozenset(
    {"alt", "api_token", "oauth_token", "_method", "reader_tokens", "pp", "prettyPrint"}
)
# Parameters that may be objects, or have the name of an attribute.
_WITH_RECORDS: Final = frozenset(
    {"filters", "where", "include", "order", "uuid", "updates", "collections", "blocks"}
)
_FORM: Final = "application/x-www-form-urlencoded"
_TOO_DEEP: Final = f"{{what}}: more than {MAX_DEPTH} nested objects and arrays"
_decode = msgspec.json.Decoder().decode
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
# Digits of a Content-Length: more could not be a length, and a long number takes long to parse.
_DIGITS: Final = 15


@dataclass(slots=True, kw_only=True)
class ApiResponse:
    """The response to a call. `body` is JSON, unless it is bytes; `stream` yields bytes to send.

    With `session` the connection ends to be HTTP after the head: `session` serves it until it ends.
    """

    body: JSON = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    stream: AsyncGenerator[bytes] | None = None
    session: Callable[[Pipe], Awaitable[None]] | None = None
    is_endless: bool = False
    """The stream continues until its reader disconnects."""


@dataclass(slots=True, kw_only=True)
class ApiCall:
    """One request that has been read and authenticated.

    `uuid` is the record that it names, "" for a collection of records; `subpath` is the path after
    the action.
    """

    services: ApiServices
    method: str
    path: str
    headers: Mapping[str, str]
    principal: Principal | None
    request_id: str = ""
    address: str = ""
    uuid: str = ""
    subpath: str = ""
    params: dict[str, JSON] = field(default_factory=dict)
    document: JSON = None
    raw: bytes = b""
    take_over: TakeOver | None = None
    """Makes plain bytes of the connection after a head was sent; None where that is not
    possible.
    """

    @property
    def caller(self) -> Principal:
        """The principal. Raises Unauthenticated for a call without one."""
        if self.principal is None:
            raise Unauthenticated
        return self.principal

    def attributes(self, kind: RecordType) -> Record:
        """The attributes that were sent: below the type's name, or else the whole body.

        Raises Malformed, also for properties outside of the vocabulary; Invalid for attributes in a
        place where they would be ignored.
        """
        given = self._sent(kind)
        if isinstance(given.get("properties"), dict):
            self.services.features[VOCABULARY].check(given["properties"])
        return given

    def _sent(self, kind: RecordType) -> Record:
        attributes = self.params.get(kind.singular)
        bare = self.document if attributes is None and isinstance(self.document, dict) else {}
        _check_beside(self.params, kind, bare)
        if attributes is None:
            return {name: value for name, value in bare.items() if not _beside(name, kind)}
        if not isinstance(attributes, dict):
            raise Malformed(f"{kind.singular}: must be an object of attributes")
        return attributes


def _beside(name: str, kind: RecordType) -> bool:
    return name not in kind.by_name and (name in _TRANSPORT or name in _BESIDE)


def _check_beside(params: Mapping[str, JSON], kind: RecordType, bare: Mapping[str, JSON]) -> None:
    """Refuse attributes that stand beside the object of attributes, where they would be ignored.
    Raises Invalid.

    A token whose `scopes` were ignored would be a token without limits. `bare` are the attributes
    that were sent in their place.
    """
    for name, value in params.items():
        if (
            name == kind.singular
            or name in bare
            or name in _TRANSPORT
            or name in _BESIDE
            or name in _WITH_RECORDS
        ):
            continue
        found = kind.by_name.get(name)
        is_attribute = (
            found is not None and not found.fixed and name not in ("kind", "etag", "href")
        )
        if is_attribute or isinstance(value, dict) or name.startswith(f"{kind.singular}["):
            raise Invalid(
                f"{name[:80]}: is not a parameter of this call; nothing was done. "
                "Send attributes as a JSON object, with 'Content-Type: application/json', "
                f"or as the parameter {kind.singular}={{...}}"
            )


def read_query(query: bytes) -> dict[str, JSON]:
    """Parameters of a query string. Raises Malformed."""
    return _form(query) if query else {}


def read_body(raw: bytes, content_type: str) -> tuple[dict[str, JSON], JSON]:
    """The parameters in a body, and its JSON document, None for a form. Raises Malformed."""
    if not raw:
        return {}, None
    media = content_type.partition(";")[0].strip().lower()
    if media == _FORM:
        return _form(raw), None
    if media == http_head.FORM_MEDIA:
        return {
            name: _value(name, value) for name, value in http_head.parse_form(raw, content_type)
        }, None
    if media not in ("", "application/json"):
        raise Malformed(
            f"Content-Type {media[:80]!r}: send application/json, {_FORM} or {http_head.FORM_MEDIA}"
        )
    document = decode(raw, "request body")
    if not isinstance(document, dict):
        raise Malformed("request body: must be a JSON object")
    return {name: _value(name, value) for name, value in document.items()}, document


def _form(body: bytes) -> dict[str, JSON]:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except (UnicodeDecodeError, ValueError) as error:
        raise Malformed(f"parameters: {error}") from None
    if any(name.lstrip().startswith(("{", "[", '"')) and name.strip() != "{}" for name, _ in pairs):
        # As a parameter it would have a strange name, and be ignored. An empty object says nothing
        # in either form.
        raise Malformed(
            f"request: JSON was sent as {_FORM}, as 'curl -d' does by default; nothing was done."
            " Add the header 'Content-Type: application/json'"
        )
    return {name: _value(name, value) for name, value in pairs}


def _value(name: str, value: JSON) -> JSON:
    if name in BOOLEANS:
        return value not in ("", "false", "0", None, False, 0)
    if not isinstance(value, str):
        return value
    if value in ("", "null"):
        return None
    # A parameter of a query string may be JSON; a plain text that begins like it stays a text.
    if value[0] in '[{"':
        try:
            return decode(value, name)
        except Malformed:
            if name in ("filters", "where", "select"):
                raise
    return value


def decode(encoded: bytes | str, subject: str) -> JSON:
    """The JSON document in a text that a client sent. Raises Malformed, also for a document that is
    nested too deep.
    """
    try:
        document = _decode(encoded)
    except RecursionError:
        raise Malformed(_TOO_DEEP.format(what=subject)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Malformed(f"{subject}: not JSON: {error}") from None
    brackets = (
        # Most documents have fewer brackets than the limit has levels, and need no walk.
        encoded.count("[") + encoded.count("{")
        if isinstance(encoded, str)
        else encoded.count(b"[") + encoded.count(b"{")
    )
    if brackets > MAX_DEPTH and is_too_deep(document):
        raise Malformed(_TOO_DEEP.format(what=subject))
    return document


def announced(headers: Mapping[str, str]) -> int | None:
    """Bytes of the body that the head announces; None where the head does not tell."""
    text = headers.get("content-length", "")
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    # A length that cannot be read counts as unknown: the limits for bodies of any size apply.
    return None if text or "transfer-encoding" in headers else 0


class BodyReader:
    """Reads bodies within the limits of the configuration. A body of an unknown sender has at most
    `stranger_body` bytes, all of them at once `stranger_bodies`.
    """

    def __init__(
        self,
        limits: API,
        *,
        stranger_body: int = STRANGER_BODY,
        stranger_bodies: int = STRANGER_BODIES,
    ) -> None:
        self._limits = limits
        self._stranger_body = stranger_body
        self._strangers = SharedAllowance(stranger_bodies)

    @property
    def reserved(self) -> int:
        """Bytes that are reserved for bodies of unknown senders."""
        return self._strangers.taken

    async def read(self, receive: Receive, headers: Mapping[str, str], *, is_known: bool) -> bytes:
        """The whole body. A body that is refused is not read.

        Raises TooLarge, Malformed when the connection ends before the body; for unknown senders
        also Unauthenticated, Unavailable, and RequestError (408) for a body that comes too slowly.
        """
        length = announced(headers)
        if length == 0:
            # A server passes on no body here. An application that is called without one may.
            return await _read(receive, self._limits.MaxRequestSize)
        if length is not None and length > self._limits.MaxRequestSize:
            raise TooLarge(
                f"request body: {length} bytes; at most {self._limits.MaxRequestSize} are taken"
            )
        if is_known:
            return await _read(receive, self._limits.MaxRequestSize)
        return await self._read_of_stranger(receive, length)

    async def _read_of_stranger(self, receive: Receive, length: int | None) -> bytes:
        most, patience = self._stranger_body, self._limits.RequestHeadTimeout
        if length is None or length > most:
            raise Unauthenticated(
                "Not logged in: send a token in the Authorization header with a large body"
            )
        # All strangers together: many small bodies at once would fill the memory as well as a large
        # one.
        if not self._strangers.take(length):
            raise Unavailable(
                "too many requests without a token in the Authorization header; try again later"
            )
        try:
            async with asyncio.timeout(patience):
                return await _read(receive, length)
        except TimeoutError:
            raise from_status(408, f"request body: it did not come within {patience:g} s") from None
        finally:
            self._strangers.give_back(length)


async def _read(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            # The body is incomplete: half of it may well be a valid request.
            raise Malformed("request body: the connection ended before its end")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), bool(message.get("more_body"))
        if size > limit:
            raise TooLarge(f"request body: more than {limit} bytes")
    return b"".join(parts)
