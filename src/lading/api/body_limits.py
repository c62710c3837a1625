"""Bodies of requests: read after their sender is known, or in a small memory shared by strangers.

A token in the head or in the query makes a sender known. A form may also hold the token in its
body, which is then read first: such bodies are small, come in time, and have little memory
together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from lading.config import API
from lading.core.errors import Malformed, TooLarge, Unauthenticated, Unavailable, from_status
from lading.core.protocols.connection_limits import Allowance

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_DIGITS: Final = 15


def announced(headers: Mapping[str, str]) -> int | None:
    """Bytes of the body that a head announces; None where it does not say."""
    text = headers.get("content-length", "")
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    return None if text or "transfer-encoding" in headers else 0


class BodyReader:
    """Reads bodies within the limits of the configuration."""

    def __init__(self, limits: API) -> None:
        self._limits = limits
        self._strangers = Allowance(limits.MaxUnauthenticatedBodies)

    @property
    def reserved(self) -> int:
        """Bytes that bodies of strangers may have now."""
        return self._strangers.taken

    async def read(self, receive: Receive, headers: Mapping[str, str], *, known: bool) -> bytes:
        """The whole body. Nothing of it is read when it is refused.

        Raises TooLarge, Malformed when the connection ends before the body; for strangers also
        Unauthenticated, Unavailable, and RequestError (408) for a body that comes too slowly.
        """
        length = announced(headers)
        if length == 0:
            # A server passes on no body here. An application that is called without one may.
            return await _read(receive, self._limits.MaxRequestSize)
        if length is not None and length > self._limits.MaxRequestSize:
            raise TooLarge(
                f"request body: {length} bytes; at most {self._limits.MaxRequestSize} are taken"
            )
        if known:
            return await _read(receive, self._limits.MaxRequestSize)
        return await self._read_of_stranger(receive, length)

    async def _read_of_stranger(self, receive: Receive, length: int | None) -> bytes:
        most, patience = self._limits.MaxUnauthenticatedBody, self._limits.RequestHeadTimeout
        if length is None or length > most:
            raise Unauthenticated(
                "Not logged in: send a token in the Authorization header with a large body"
            )
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
            # What came is not what was meant: half of it may well be a valid request.
            raise Malformed("request body: the connection ended before all of it was there")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), bool(message.get("more_body"))
        if size > limit:
            raise TooLarge(f"request body: more than {limit} bytes")
    return b"".join(parts)
