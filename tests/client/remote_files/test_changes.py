"""Changes of collections: those that come together are few calls, and each has its own answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lading.client.remote_files.changes import Change, CollectionChanges
from lading.core.data.filetree import File, FileTree
from lading.core.errors import Conflict, Malformed, Unavailable, from_status

UUID = "zzzzz-4zz18-000000000000000"
MANIFEST = ". d41d8cd98f00b204e9800998ecf8427e+0 0:0:a\n"


class Api:
    """Takes the calls; a target named `bad` is refused."""

    def __init__(self, *, changed: int = 0) -> None:
        self.calls: list[dict[str, str]] = []
        self._changed = changed

    async def request(
        self, method: str, path: str, *, body: Any = None, headers: Any = None
    ) -> dict[str, Any]:
        # Others may come meanwhile.
        await asyncio.sleep(0)
        assert (method, path) == ("PUT", f"collections/{UUID}")
        self.calls.append(body["replace_files"])
        if "/lost" in body["replace_files"]:
            raise Unavailable("no answer")
        if "/bad" in body["replace_files"]:
            raise Malformed("bad")
        if headers and self._changed:
            self._changed -= 1
            raise from_status(412, "changed")
        return {}

    async def get(self, plural: str, uuid: str, *, select: Any = None) -> dict[str, Any]:
        return {"etag": "e", "manifest_text": MANIFEST}


async def test_changes_that_come_together_are_one_call() -> None:
    api = Api()
    changes = CollectionChanges(api)
    await asyncio.gather(
        *(changes.apply(UUID, Change(files={f"d/{number}": File()})) for number in range(50))
    )
    assert len(api.calls) == 1
    assert api.calls[0]["/d/7"].startswith("manifest_text/f")


async def test_one_inside_another_and_twice_the_same_are_sent_in_order() -> None:
    api = Api()
    changes = CollectionChanges(api)
    sources = [("a", "x"), ("a", ""), ("a/b", "y"), ("c", "current/a"), ("d", "")]
    await asyncio.gather(
        *(changes.apply(UUID, Change(sources={path: source})) for path, source in sources)
    )
    assert [target for call in api.calls for target in call] == ["/a", "/a", "/a/b", "/c", "/d"]
    assert {"/c": "current/a"} in api.calls


async def test_a_refused_change_does_not_take_others_with_it() -> None:
    api = Api()
    changes = CollectionChanges(api)
    answers = await asyncio.gather(
        *(changes.apply(UUID, Change(sources={name: ""})) for name in ("a", "bad", "c")),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [type(None), Malformed, type(None)]


async def test_a_server_that_does_not_answer_is_asked_once() -> None:
    api = Api()
    changes = CollectionChanges(api)
    answers = await asyncio.gather(
        *(changes.apply(UUID, Change(files={path: File()})) for path in ("a", "lost", "b")),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [Unavailable] * 3
    assert len(api.calls) == 1


async def test_a_change_with_a_check_is_computed_again() -> None:
    trees: list[FileTree] = []
    change = Change(sources={"a": ""}, check=trees.append)
    api = Api(changed=2)
    await CollectionChanges(api).apply(UUID, change)
    assert len(trees) == len(api.calls) == 3
    with pytest.raises(Conflict, match="others change it all the time"):
        await CollectionChanges(Api(changed=1000)).apply(UUID, change)


async def test_a_check_that_fails_changes_nothing() -> None:
    def check(_: FileTree) -> None:
        raise Conflict("it is there")

    api = Api()
    with pytest.raises(Conflict, match="it is there"):
        await CollectionChanges(api).apply(UUID, Change(sources={"a": ""}, check=check))
    assert api.calls == []


async def test_a_waiter_that_goes_away_stops_nobody() -> None:
    api = Api()
    changes = CollectionChanges(api)
    gone = asyncio.create_task(changes.apply(UUID, Change(sources={"a": ""})))
    await asyncio.sleep(0)
    gone.cancel()
    await changes.apply(UUID, Change(sources={"b": ""}))
    assert {"/a", "/b"} <= {target for call in api.calls for target in call}
    await changes.close()
