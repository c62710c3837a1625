from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bench.tes import TesClient, timed, walk
from lading.client.transport import Response


@dataclass
class FakeApi:
    """Answers of a server with three pages of tasks, and one task in a given state."""

    state: str = "COMPLETE"
    sent: list[Any] = field(default_factory=list)

    async def raw(self, method: str, path: str, *, body: bytes = b"") -> Response:
        if method == "POST":
            self.sent.append(json.loads(body))
            return _json({"id": "one"})
        address = urlsplit(path)
        if address.path.endswith("/tasks/one"):
            return _json({"id": "one", "state": self.state})
        token = parse_qs(address.query).get("page_token", ["0"])[0]
        page: dict[str, Any] = {"tasks": [{"id": token}] * 2}
        if token != "a&2":
            page["next_page_token"] = "a&2" if token == "a&1" else "a&1"
        return _json(page)


def _json(value: object) -> Response:
    return Response(200, {}, json.dumps(value).encode())


async def test_all_pages_are_read() -> None:
    seen, pages = await walk(TesClient(FakeApi()))  # type: ignore[arg-type]
    assert (seen, len(pages)) == (6, 3)


async def test_a_task_that_ends_badly_is_an_error() -> None:
    api = FakeApi()
    client = TesClient(api, "tools:1")  # type: ignore[arg-type]
    assert await client.create("x") == "one"
    assert api.sent[0]["executors"][0]["image"] == "tools:1"
    assert await timed(lambda: client.end("one")) >= 0
    api.state = "SYSTEM_ERROR"
    with pytest.raises(RuntimeError, match="task one ended with SYSTEM_ERROR"):
        await client.end("one")
