"""Forms."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from starlette.requests import Request

from lading.core.errors import Malformed, TooLarge
from lading.web.visit import read_form

_FORM = "application/x-www-form-urlencoded"


def _incoming(body: bytes, kind: str = _FORM) -> Request:
    async def receive() -> Mapping[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}
    return Request(scope, receive)  # type: ignore[arg-type]


async def test_fields_may_be_repeated() -> None:
    fields = await read_form(_incoming(b"a=1&a=2&b=&c=%C3%BC"))
    assert fields == {"a": ["1", "2"], "b": [""], "c": ["ü"]}


@pytest.mark.parametrize("body", [b"a=%ff", b"\xff", b"&".join([b"a=1"] * 2001)])
async def test_what_cannot_be_read(body: bytes) -> None:
    with pytest.raises(Malformed):
        await read_form(_incoming(body))


async def test_other_kinds_are_refused() -> None:
    with pytest.raises(Malformed, match="x-www-form-urlencoded"):
        await read_form(_incoming(b"{}", "text/plain"))


async def test_large_forms_are_refused() -> None:
    with pytest.raises(TooLarge):
        await read_form(_incoming(b"a" * 70_000))
