"""Client of the API server over any transport: calls.

An error status raises the class of `lading.core.errors` for this status. Calls that may succeed
later are repeated with growing pauses (docs/spec/api, section Retrying). A create may therefore
arrive twice; pass `NO_RETRY` to prevent this.

Source: docs/spec/api, section Addresses and methods.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec

from lading.client.file_parts import FilePart
from lading.client.retry import Retries, RetryPolicy, Sleep
from lading.client.transport import Response, StreamedResponse, Transport
from lading.core.errors import (
    Full,
    Invalid,
    LadingError,
    Unavailable,
    from_status,
)
from lading.core.ids import encode
from lading.core.quantities import shorten, show_bytes
from lading.process.portable import AS_BYTES, NO_INHERIT
from lading.process.telemetry import current_request
from lading.process.tracing import current_traceparent

Json = Any
Record = dict[str, Any]
Page = list[Record]
# The largest page that the server gives (docs/spec/api, section Addresses and methods).
PAGE = 1000
# Seconds for one whole exchange.
_TIMEOUT = 300.0
# The server counts as overloaded when at least _OVERLOADED of the last _REMEMBERED responses were
# 503.
_REMEMBERED, _OVERLOADED = 20, 8
# A GET with a longer address is sent as a POST (docs/spec/api, section Addresses and methods).
_LONGEST_QUERY = 2048
# Characters of a body without JSON that are shown in the error.
_LONGEST_MESSAGE = 500


class ApiClient:
    """Requests with one token over one transport. The caller closes the transport."""

    def __init__(
        self,
        transport: Transport,
        token: str,
        *,
        retry: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        tell: Callable[[LadingError], None] | None = None,
        timeout: float = _TIMEOUT,
    ) -> None:
        self.transport = transport
        self.token = token
        self._retries = Retries(
            policy=retry or RetryPolicy(), sleep=sleep, chance=chance, tell=tell
        )
        self._authorization = f"Bearer {token}"
        self._timeout = timeout
        self.busy_at = 0.0
        """Time of the last 503 of the server, seconds since 1970; 0.0 if there was none."""
        self.overloaded_at = 0.0
        """Time of the last 503 that came while many of the last responses were 503 too; 0.0 if
        there was none.
        """
        self._busy = deque[bool](maxlen=_REMEMBERED)
        self.lease = ""
        """Id of the lease under which a dispatcher makes its calls (`lading.dispatch.lease`)."""
        self.traceparent = ""
        """Trace context of calls outside of any span (`lading.process.tracing`)."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request: the token, the id of the call that this one is made for, or a
        new one, and the trace context.
        """
        sent = {
            "Authorization": self._authorization,
            "X-Request-Id": current_request() or f"req-{encode(os.urandom(13), 20)}",
        }
        if self.lease:
            sent["X-Lading-Lease"] = self.lease
        if traceparent := current_traceparent() or self.traceparent:
            sent["traceparent"] = traceparent
        return sent

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Json] | None = None,
        body: Json = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        repeat: bool = True,
    ) -> Json:
        """Send one request; return the decoded JSON of the response, None if it is empty.

        `path` is below `/arvados/v1/` or starts with `/`. Values of `params` that are not text are
        sent as JSON, None is left out. `timeout`: seconds for the exchange. `repeat`: by the retry
        policy of this client. Raises the error of the response's status; Unavailable without a
        response.
        """
        sent = dict(headers or {})
        content = b""
        if body is not None:
            sent["Content-Type"] = "application/json"
            content = _encode(body)
        query = encode_params(params) if params else ""
        if method == "GET" and len(query) > _LONGEST_QUERY:
            method, content, query = "POST", query.encode(), ""
            sent["Content-Type"] = "application/x-www-form-urlencoded"
            sent["X-Http-Method-Override"] = "GET"
        answer = await self._send(
            method, _address(path, query), sent, content, timeout, repeat=repeat
        )
        if not answer.body:
            return None
        try:
            return msgspec.json.decode(answer.body)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"{method} {path}: the answer is not JSON; is this the right address?"
            ) from error

    async def raw(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Json] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        """Send one request; return the response undecoded, for bodies that are not JSON (logs).
        Raises as `request`.
        """
        query = encode_params(params) if params else ""
        return await self._send(method, _address(path, query), dict(headers or {}), body, timeout)

    @asynccontextmanager
    async def stream(
        self, path: str, *, headers: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> AsyncGenerator[StreamedResponse]:
        """Send one GET; the body of the response is read in pieces and is never in memory as a
        whole.

        The request is retried until a response begins. A response that breaks off later raises
        Unavailable: the caller requests the rest. `timeout`: seconds between two pieces. Raises as
        `request`.
        """
        address = _address(path, "")
        limit = self._timeout if timeout is None else timeout

        async def attempt() -> tuple[AsyncExitStack, StreamedResponse]:
            # The exchange stays open after the retry loop: its context is moved to `opened`, and
            # closed here if the attempt fails.
            async with AsyncExitStack() as opened:
                sent = {**(headers or {}), **self.headers}
                answer = await opened.enter_async_context(
                    self.transport.stream("GET", address, headers=sent, timeout=limit)
                )
                if answer.status >= 400:
                    raise error_of(
                        Response(answer.status, answer.headers, await answer.read()), f"GET {path}"
                    )
                return opened.pop_all(), answer

        opened, answer = await self._retries.run(attempt)
        async with opened:
            yield answer

    async def save(
        self,
        path: str,
        target: Path,
        *,
        params: Mapping[str, Json] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Write the body of one response to the file `target`. Raises as `request`."""
        address = _address(path, encode_params(params) if params else "")
        limit = self._timeout if timeout is None else timeout

        async def attempt() -> None:
            async with self.transport.stream(
                "GET", address, headers=self.headers, timeout=limit
            ) as answer:
                if answer.status >= 400:
                    raise error_of(
                        Response(answer.status, answer.headers, await answer.read()), f"GET {path}"
                    )
                # Opened in each attempt: a repeated response starts again with an empty file.
                with await asyncio.to_thread(target.open, "wb") as file:
                    async for chunk in answer.chunks:
                        await asyncio.to_thread(file.write, chunk)

        await self._retries.run(attempt)

    async def get(self, plural: str, uuid: str, *, select: Iterable[str] | None = None) -> Record:
        """One record with all fields, or with the selected ones. Raises NotFound."""
        return _record(
            await self.request("GET", f"{plural}/{uuid}", params={"select": _names(select)})
        )

    async def list(
        self,
        plural: str,
        *,
        filters: Iterable[Any] = (),
        order: Iterable[str] = (),
        select: Iterable[str] = (),
        limit: int | None = None,
        count: str = "none",
        **more: Json,
    ) -> Page:
        """The records that match all filters, at most `limit` (server: 100 by default, 1000 at
        most).
        """
        params = {
            "filters": _names(filters),
            "order": _names(order),
            "select": _names(select),
            "limit": limit,
            "count": count,
            **more,
        }
        answer = _record(await self.request("GET", plural, params=params))
        items: Page = answer["items"]
        return items

    async def pages(
        self,
        plural: str,
        *,
        filters: Iterable[Any] = (),
        select: Iterable[str] = (),
        size: int = PAGE,
        **more: Json,
    ) -> AsyncGenerator[Page]:
        """All records that match the filters, in pages of at most `size`, ordered by uuid.

        A page starts after the last uuid of the previous one, so that records created or deleted
        meanwhile neither hide nor repeat others.
        """
        columns = list(select)
        if columns and "uuid" not in columns:
            columns.append("uuid")
        base, last = list(filters), ""
        while True:
            after = [["uuid", ">", last]] if last else []
            page = await self.list(
                plural,
                filters=[*base, *after],
                order=["uuid asc"],
                select=columns,
                limit=size,
                **more,
            )
            if not page:
                return
            yield page
            last = page[-1]["uuid"]

    async def create(self, plural: str, attributes: Mapping[str, Json], **params: Json) -> Record:
        """Create a record and return it; `params` are for example ensure_unique_name=True."""
        return _record(
            await self.request("POST", plural, body={_singular(plural): attributes, **params})
        )

    async def create_large(
        self,
        plural: str,
        attributes: Mapping[str, Json],
        texts: Mapping[str, Iterable[str]],
        folder: Path,
        **params: Json,
    ) -> Record:
        """Variant of `create` for attributes of any size: `texts` has their pieces, and the body is
        written to a file in `folder`.

        Select few fields of the response, which is in memory as a whole. Raises Full when `folder`
        has no room.
        """
        file = folder / "body"
        try:
            await asyncio.to_thread(_write_body, file, _singular(plural), attributes, texts, params)
        except OSError as error:
            raise Full(f"{folder}: the request cannot be written: {error.strerror}") from error
        descriptor = os.open(file, os.O_RDONLY | NO_INHERIT | AS_BYTES)
        try:
            part = FilePart(descriptor, 0, os.fstat(descriptor).st_size)
            return _record(await self._post_file(_address(plural, ""), part))
        finally:
            os.close(descriptor)
            file.unlink()

    async def update(
        self, plural: str, uuid: str, attributes: Mapping[str, Json], **params: Json
    ) -> Record:
        """Change a record; return it after the change."""
        return _record(
            await self.request(
                "PUT", f"{plural}/{uuid}", body={_singular(plural): attributes, **params}
            )
        )

    async def delete(self, plural: str, uuid: str) -> Record:
        """Delete or trash a record; return it."""
        return _record(await self.request("DELETE", f"{plural}/{uuid}"))

    async def action(
        self,
        plural: str,
        uuid: str | None,
        name: str,
        *,
        method: str = "POST",
        body: Json = None,
        repeat: bool = True,
        **params: Json,
    ) -> Json:
        """Call a method of one record (`containers/{uuid}/lock`), or of the type if `uuid` is
        None. See `request` for `repeat`.
        """
        path = f"{plural}/{name}" if uuid is None else f"{plural}/{uuid}/{name}"
        return await self.request(method, path, params=params or None, body=body, repeat=repeat)

    async def _send(
        self,
        method: str,
        address: str,
        headers: dict[str, str],
        body: bytes,
        timeout: float | None,
        *,
        repeat: bool = True,
    ) -> Response:
        headers.update(self.headers)
        limit = self._timeout if timeout is None else timeout

        async def attempt() -> Response:
            answer = await self.transport.request(
                method, address, headers=headers, body=body, timeout=limit
            )
            self._note(busy=answer.status == Unavailable.status)
            if answer.status >= 400:
                raise error_of(answer, f"{method} {address.partition('?')[0]}")
            return answer

        return await (self._retries.run(attempt) if repeat else attempt())

    async def _post_file(self, address: str, file: FilePart) -> Json:
        async def attempt() -> bytes:
            sent = {
                "Content-Type": "application/json",
                "Content-Length": str(file.length),
                **self.headers,
            }
            exchange = self.transport.stream(
                "POST", address, headers=sent, body=file, timeout=self._timeout
            )
            async with exchange as begun:
                answer = Response(begun.status, begun.headers, await begun.read())
            self._note(busy=answer.status == Unavailable.status)
            if answer.status >= 400:
                raise error_of(answer, f"POST {address}")
            return answer.body

        return msgspec.json.decode(await self._retries.run(attempt))

    def _note(self, *, busy: bool) -> None:
        self._busy.append(busy)
        if busy:
            self.busy_at = time.time()
            if self._busy.count(True) >= _OVERLOADED:
                self.overloaded_at = self.busy_at


def error_of(answer: Response, call: str) -> LadingError:
    """The exception for a response with an error status, with the server's text (docs/spec/api,
    section Errors).
    """
    try:
        sentences = msgspec.json.decode(answer.body)["errors"]
        message = "; ".join(str(sentence) for sentence in sentences)
    except (msgspec.DecodeError, KeyError, TypeError):
        message = " ".join(answer.body[:_LONGEST_MESSAGE].decode(errors="replace").split())
    return from_status(answer.status, message or f"{call}: the server answered {answer.status}")


def _write_body(
    file: Path,
    singular: str,
    attributes: Mapping[str, Json],
    texts: Mapping[str, Iterable[str]],
    params: Mapping[str, Json],
) -> None:
    """Write the JSON body of a create to a file. `attributes` must not be empty."""
    encode = msgspec.json.encode
    with file.open("wb") as body:
        # The closing brace of the attributes is left out: the long texts follow inside the same
        # object.
        body.write(b"{%b:%b" % (encode(singular), encode(attributes)[:-1]))
        for name, pieces in texts.items():
            body.write(b',%b:"' % encode(name))
            for piece in pieces:
                # JSON escapes each character by itself, so the pieces of a text can be encoded one
                # by one.
                body.write(encode(piece)[1:-1])
            body.write(b'"')
        body.write(b"}")
        for name, value in params.items():
            body.write(b",%b:%b" % (encode(name), encode(value)))
        body.write(b"}")


def encode_params(params: Mapping[str, Json]) -> str:
    """The query string: text unchanged, other values as JSON, None left out."""
    pairs = [
        (name, value if isinstance(value, str) else _encode(value).decode())
        for name, value in params.items()
        if value is not None
    ]
    try:
        return urlencode(pairs)
    except UnicodeEncodeError as error:
        raise _not_text(error) from error


def _encode(value: Json) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise _not_text(error) from error


def _not_text(error: UnicodeEncodeError) -> Invalid:
    """The error for text of the command line or of a file name with bytes that are not UTF-8."""
    shown = show_bytes(error.object.encode("utf-8", "backslashreplace").decode())
    return Invalid(
        f"'{shorten(shown, 100)}' is not UTF-8 text, and records hold no other; rename the file or"
        " change the argument"
    )


def _singular(plural: str) -> str:
    return plural[:-3] + "y" if plural.endswith("ies") else plural[:-1]


def _address(path: str, query: str) -> str:
    full = path if path.startswith("/") else f"/arvados/v1/{path}"
    return f"{full}?{query}" if query else full


def _names(values: Iterable[Any] | None) -> list[Any] | None:
    return list(values or ()) or None


def _record(answer: Json) -> Record:
    if not isinstance(answer, dict):
        raise Unavailable("the answer is not a record; is this the right address?")
    return answer
