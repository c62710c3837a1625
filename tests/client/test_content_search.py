"""Searches for stored collections by content, which share calls of the API."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lading.client.api import ApiClient
from lading.client.files.deposits import ContentSearch
from lading.client.transport import HttpTransport, Response
from lading.core.errors import Invalid


class Store(HttpTransport):
    """Answers lists of collections, `stored` by hash; the first call waits until it may `go`."""

    def __init__(self, stored: Counter[str], status: int = 200) -> None:
        super().__init__(unix_socket="unused")
        self.stored, self.status = stored, status
        self.calls: list[list[str]] = []
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def request(self, method: str, path: str, **options: Any) -> Response:
        query = parse_qs(urlsplit(path).query)
        ((_, _, hashes),) = json.loads(query["filters"][0])
        self.calls.append(sorted(hashes))
        status = self.status
        self.asked.set()
        await self.go.wait()
        rows = [{"portable_data_hash": one} for one in hashes for _ in range(self.stored[one])]
        answer = {"items": rows[: int(query["limit"][0])], "errors": ["refused"]}
        return Response(status, {}, json.dumps(answer).encode())


async def test_searches_share_the_next_call() -> None:
    store = Store(Counter(a=1, c=2))
    search = ContentSearch(ApiClient(store, "token"))
    first = asyncio.create_task(search.find("a"))
    await store.asked.wait()
    # "a" again: a collection may have been created since the first call began.
    others = [asyncio.create_task(search.find(one)) for one in "abc"]
    await asyncio.sleep(0)
    store.go.set()
    found = await asyncio.gather(first, *others)
    assert [len(one) for one in found] == [1, 1, 0, 2]
    assert store.calls == [["a"], ["a", "b", "c"]]


async def test_the_others_ask_again_after_an_error() -> None:
    store = Store(Counter(a=1, b=1), status=422)
    search = ContentSearch(ApiClient(store, "token"))
    first = asyncio.create_task(search.find("a"))
    await store.asked.wait()
    others = [asyncio.create_task(search.find(one)) for one in "ab"]
    await asyncio.sleep(0)
    store.status = 200
    store.go.set()
    with pytest.raises(Invalid):
        await first
    assert [len(one) for one in await asyncio.gather(*others)] == [1, 1]
    assert store.calls == [["a"], ["a", "b"]]


async def test_a_token_that_may_only_store_finds_none() -> None:
    store = Store(Counter(a=1), status=403)
    store.go.set()
    assert await ContentSearch(ApiClient(store, "token")).find("a") == []


async def test_many_collections_of_one_content_hide_no_others() -> None:
    store = Store(Counter(a=2000, b=1))
    search = ContentSearch(ApiClient(store, "token"))
    first = asyncio.create_task(search.find("x"))
    await store.asked.wait()
    others = [asyncio.create_task(search.find(one)) for one in "ab"]
    await asyncio.sleep(0)
    store.go.set()
    assert [len(one) for one in await asyncio.gather(first, *others)] == [0, 1000, 1]
