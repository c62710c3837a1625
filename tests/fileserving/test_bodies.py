from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.requests import Request

from lading.core.errors import LadingError
from lading.fileserving.bodies import read_paced
from lading.testing.jumping_loop import jumping


async def _silent() -> MutableMapping[str, Any]:
    await asyncio.Event().wait()
    return {"type": "http.disconnect"}


@jumping
async def test_a_body_that_stands_still_is_refused() -> None:
    incoming = Request({"type": "http", "method": "PUT", "headers": []}, _silent)
    with pytest.raises(LadingError, match="fewer than 10 bytes a second") as caught:
        async for _ in read_paced(incoming, 10):
            raise AssertionError
    assert caught.value.status == 408


async def test_a_body_comes_in_pieces() -> None:
    messages = iter(
        (
            {"type": "http.request", "body": b"a", "more_body": True},
            {"type": "http.request", "body": b"b", "more_body": False},
        )
    )

    async def receive() -> MutableMapping[str, Any]:
        return next(messages)

    incoming = Request({"type": "http", "method": "PUT", "headers": []}, receive)
    assert b"".join([piece async for piece in read_paced(incoming, 0)]) == b"ab"
