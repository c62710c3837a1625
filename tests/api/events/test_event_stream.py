"""Events as server-sent events."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from lading.api.events import event_stream
from lading.core.records.attributes import MAX_INTEGER
from lading.core.records.schema import JSON
from lading.testing.world import World

PATIENCE = 8.0


class Reader:
    """A client that reads until it leaves."""

    def __init__(self, it: World, token: str, *, last: str = "", **params: str) -> None:
        self.status = 0
        self._text = ""
        self._seen = 0
        self._news, self._left = asyncio.Event(), asyncio.Event()
        headers = [(b"authorization", f"Bearer {token}".encode())]
        if last:
            headers.append((b"last-event-id", last.encode()))
        scope = {
            "type": "http", "method": "GET", "path": "/events", "headers": headers,
            "query_string": urlencode(params).encode(), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        self._task = asyncio.create_task(it.app(scope, self._receive, self._send))

    async def __aenter__(self) -> Reader:
        await self._until(lambda: self.status != 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._left.set()
        await asyncio.wait_for(self._task, PATIENCE)

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self._text += message.get("body", b"").decode()
        self._news.set()

    async def _until(self, is_so: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def said(self, word: str) -> None:
        """Wait for a word."""
        await self._until(lambda: word in self._text)

    async def end(self) -> str:
        """All that was said, once the server has ended it."""
        await asyncio.wait_for(self._task, PATIENCE)
        return self._text

    def events(self) -> list[tuple[int, JSON]]:
        """The events so far, with their numbers."""
        found = []
        for part in self._text.split("\n\n"):
            if part.startswith("id: "):
                number, _, data = part.partition("\ndata: ")
                found.append((int(number.removeprefix("id: ")), msgspec.json.decode(data)))
        return found

    async def next(self) -> tuple[int, JSON]:
        """The next event."""
        self._seen += 1
        await self._until(lambda: len(self.events()) >= self._seen)
        return self.events()[self._seen - 1]


async def test_what_changes_is_told_as_cloud_events(it: World) -> None:
    await it.ok("POST", "collections", {"name": "before"})
    async with Reader(it, it.admin) as reader:
        assert reader.status == 200
        await reader.said("retry: ")
        made = await it.ok("POST", "collections", {"name": "a b"})
        number, told = await reader.next()
        assert told["type"] == "lading.collection.create"
        assert told["subject"] == made["uuid"]
        assert told["data"]["properties"]["new_attributes"]["name"] == "a b"
        assert told["data"]["log_id"] == number


async def test_a_client_that_comes_back_gets_what_it_missed(it: World) -> None:
    async with Reader(it, it.admin) as reader:
        await it.ok("POST", "collections", {"name": "one"})
        number, _ = await reader.next()
    for name in ("two", "three"):
        await it.ok("POST", "collections", {"name": name})
    async with Reader(it, it.admin, last=str(number)) as reader:
        names = [(await reader.next())[1]["data"]["properties"] for _ in range(2)]
        assert [one["new_attributes"]["name"] for one in names] == ["two", "three"]
        await it.ok("POST", "collections", {"name": "four"})
        _, told = await reader.next()
        assert told["data"]["properties"]["new_attributes"]["name"] == "four"


async def test_only_what_the_caller_may_read(it: World) -> None:
    user = await it.user("u")
    async with Reader(it, user) as reader:
        await it.ok("POST", "collections", {"name": "of the admin"})
        mine = await it.ok("POST", "collections", {"name": "mine"}, token=user)
        _, told = await reader.next()
        assert told["subject"] == mine["uuid"]
    async with Reader(it, user, last="1") as reader:
        await reader.said(mine["uuid"])
        names = [told["data"]["properties"] for _, told in reader.events()]
        assert "of the admin" not in str(names)


async def test_filters_are_those_of_the_websocket(it: World) -> None:
    filters = '[["object_uuid", "is_a", "arvados#link"], ["event_type", "in", ["delete"]]]'
    async with Reader(it, it.admin, filters=filters) as reader:
        await it.ok("POST", "collections", {"name": "x"})
        user = (await it.ok("GET", "users/current"))["uuid"]
        link = {"link_class": "star", "name": "x", "head_uuid": user, "tail_uuid": user}
        gone = await it.ok("POST", "links", link)
        await it.ok("DELETE", f"links/{gone['uuid']}")
        _, told = await reader.next()
        assert (told["type"], told["subject"]) == ("lading.link.delete", gone["uuid"])


@pytest.mark.parametrize(
    "filters", ["[1]", "{}", "[", '[["a", "b"]]', f'[["a", "in", {[1] * 1001}]]']
)
async def test_other_filters_are_refused(it: World, filters: str) -> None:
    reply = await it.request("GET", "/events", params={"filters": filters})
    assert reply.status in (400, 422)


async def test_strangers_are_refused(it: World) -> None:
    async with Reader(it, "no token") as reader:
        assert reader.status == 401


async def test_a_token_that_ends_ends_the_events(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "SILENCE", 0.02)
    user = await it.user("u")
    async with Reader(it, user) as reader:
        await reader.said(": still there")
        await it.ok("DELETE", f"api_client_authorizations/{user.split('/')[1]}")
        await reader.end()


async def test_a_client_that_does_not_keep_up_is_let_go(
    it: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "SILENCE", 0.02)
    async with Reader(it, it.admin) as reader:
        await reader.said(": still there")
        for listener in it.app.services.events.bus.listeners:
            listener.lost = True
        await reader.end()


def test_positions() -> None:
    assert event_stream.position("17") == 17
    assert event_stream.position("9" * 40) == MAX_INTEGER
    assert event_stream.position("container:17") is None
    assert event_stream.position("") is None
