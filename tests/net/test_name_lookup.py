from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from lading.net.name_lookup import NameLookup


async def test_the_resolver_of_the_machine() -> None:
    look_up = NameLookup()
    assert "127.0.0.1" in await look_up("localhost", 80) + await look_up("127.0.0.1", None)


async def test_a_name_that_is_none() -> None:
    with pytest.raises(UnicodeError):
        await NameLookup()("a" * 64 + ".example", 80)


async def test_further_names_wait_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    release, asked = threading.Event(), threading.Semaphore(0)

    def hang(host: str, *_: object, **__: object) -> list[Any]:
        asked.release()
        release.wait(60)
        raise socket.gaierror(-2, f"no {host}")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    look_up = NameLookup(most=1)
    first, second = (asyncio.create_task(look_up(name, 80)) for name in ("a", "b"))
    assert await asyncio.to_thread(asked.acquire, True, 30)
    assert not asked.acquire(blocking=False)
    # The place of a caller that gave up is free when its answer has come.
    first.cancel()
    release.set()
    with pytest.raises(socket.gaierror, match="no b"):
        await second
    assert first.cancelled()
