from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.client.transport import Response, StreamedResponse
from lading.core.errors import Gone, Invalid, LadingError, Unauthenticated, Unavailable
from lading.core.kubernetes.pod_manifest import make_pod, selector
from lading.core.scheduling.planning import TrackedContainer
from lading.core.values import JsonObject
from lading.dispatch.fleets.kubernetes.api_client import (
    AlreadyThere,
    KubernetesApi,
    NotAllowed,
    WatchEvent,
)
from lading.testing.containers import TOKEN
from lading.testing.kubernetes import NAMESPACE, FakeCluster
from lading.testing.kubernetes_objects import Malice, status
from lading.testing.simulated_loop import play
from tests.kubernetes_clusters import KIND, api_of, pod_settings

UUIDS = [f"zzzzz-dz642-{n:015d}" for n in range(8)]
SELECTOR = selector(TOKEN)


class Scripted(FakeCluster):
    """Gives prepared answers, the last one again and again; `times` are those of the requests."""

    def __init__(self, *answers: Response, lines: tuple[bytes, ...] = ()) -> None:
        super().__init__()
        self.answers = list(answers)
        self.lines = lines
        self.times: list[float] = []

    async def request(self, *_: Any, **__: Any) -> Response:
        self.times.append(asyncio.get_running_loop().time())
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def stream(self, *_: Any, **__: Any) -> Any:
        return _Stream(self.lines)


class _Stream:
    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        self._pieces = pieces

    async def __aenter__(self) -> StreamedResponse:
        return StreamedResponse(200, {}, self._chunks())

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    async def _chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def pod(uuid: str = UUIDS[0]) -> JsonObject:
    return make_pod(pod_settings(), KIND, TrackedContainer(uuid=uuid), attempt="a")


def refusal(code: int, message: str = "", **headers: str) -> Response:
    return Response(code, headers, msgspec.json.encode(status(code, message=message)))


async def events_of(api: KubernetesApi, version: str = "1") -> list[WatchEvent]:
    async with aclosing(api.watch("pods", SELECTOR, version)) as events:
        return [one async for one in events]


async def test_an_object_is_made_found_and_deleted() -> None:
    cluster = FakeCluster()
    api = api_of(cluster, token=lambda: "abc")
    made = await api.create("pods", pod())
    with pytest.raises(AlreadyThere):
        await api.create("pods", pod())
    name = str(made["metadata"]["name"])  # type: ignore[index,call-overload]
    assert await api.get("pods", name) == made
    await api.delete("pods", name, uid="another")
    assert name in cluster.pods
    await api.delete("pods", name, grace=0)
    await api.delete("pods", name, grace=0)
    assert await api.get("pods", name) is None
    assert set(cluster.tokens) == {"Bearer abc"}
    await cluster.close()


async def test_a_list_has_all_pages() -> None:
    cluster = FakeCluster(slots=0)
    api = api_of(cluster)
    for uuid in UUIDS:
        await api.create("pods", pod(uuid))
    found, version = await api.list_all("pods", SELECTOR)
    assert len(found) == len(UUIDS)
    assert version == str(1 + len(UUIDS))
    cluster.malice = Malice(old=1.0)
    with pytest.raises(Unavailable, match="grows old"):
        await api.list_all("pods", SELECTOR)
    await cluster.close()


@pytest.mark.parametrize("items", [b"null", b"[]"])
async def test_a_list_may_be_empty(items: bytes) -> None:
    answer = Response(200, {}, b'{"items": %b, "metadata": {"resourceVersion": "7"}}' % items)
    assert await api_of(Scripted(answer)).list_all("pods", SELECTOR) == ([], "7")


async def test_a_list_that_is_none_is_refused() -> None:
    answer = Response(200, {}, b'{"items": {"a": 1}, "metadata": {"resourceVersion": "7"}}')
    with pytest.raises(Unavailable, match="the list of pods cannot be read"):
        await api_of(Scripted(answer)).list_all("pods", SELECTOR)


def test_a_pause_that_is_asked_for_is_made() -> None:
    cluster = Scripted(refusal(429, **{"retry-after": "7"}), refusal(503), Response(200, {}, b"{}"))

    async def ask() -> None:
        await KubernetesApi(cluster, namespace=NAMESPACE).get("pods", "x")

    play(ask())
    first, second, third = cluster.times
    assert second - first == 7.0
    assert 0.0 < third - second < 7.0


def test_it_is_given_up_after_the_patience() -> None:
    cluster = Scripted(refusal(500))

    async def ask() -> None:
        with pytest.raises(Unavailable):
            await KubernetesApi(cluster, namespace=NAMESPACE, patience=60.0).get("pods", "x")

    play(ask())
    assert 30.0 < cluster.times[-1] < 60.0


def test_a_look_is_given_up_sooner() -> None:
    cluster = Scripted(refusal(500))

    async def ask() -> None:
        with pytest.raises(Unavailable):
            await KubernetesApi(cluster, namespace=NAMESPACE).with_patience(5.0).get("pods", "x")

    play(ask())
    assert 0.0 < cluster.times[-1] < 5.0


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(401), Unauthenticated),
        (refusal(403), NotAllowed),
        (refusal(422, "Required value"), Invalid),
        (refusal(409), AlreadyThere),
        (Response(409, {}, b'{"reason": "Conflict"}'), Unavailable),
        (Response(200, {}, b"<html>"), Unavailable),
        (Response(502, {}, b"<html>"), Unavailable),
    ],
)
def test_a_refusal_has_its_error(answer: Response, error: type[LadingError]) -> None:
    async def ask() -> None:
        with pytest.raises(error):
            await api_of(Scripted(answer)).create("pods", pod())

    play(ask())


def test_a_refusal_of_a_right_names_it() -> None:
    async def ask() -> None:
        cluster = FakeCluster()
        cluster.rights.remove(("list", "pods"))
        with pytest.raises(NotAllowed, match="lacks the verb list for pods"):
            await api_of(cluster).list_all("pods", SELECTOR)

    play(ask())


def test_a_watch_shows_changes_and_ends_in_time() -> None:
    async def watch() -> None:
        cluster = FakeCluster(slots=0)
        api = api_of(cluster, watch_time=5.0)
        made = await api.create("pods", pod())
        found = await events_of(api)
        assert (found[0].kind, found[0].object["metadata"]) == ("ADDED", made["metadata"])
        assert found[-1].version == "2"
        cluster.compact()
        with pytest.raises(Gone):
            await events_of(api)
        await cluster.close()

    play(watch())


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON\n",
        b'{"type": 3, "object": {}}\n',
        b'{"type": "ADDED"}\n',
        b'{"type": "ERROR", "object": {"code": 410}}\n',
        b"x" * (9 << 20),
    ],
    ids=["text", "type", "object", "410", "long"],
)
async def test_an_event_that_cannot_be_read_means_a_new_list(line: bytes) -> None:
    with pytest.raises(Gone):
        await events_of(api_of(Scripted(lines=(line,))))


async def test_another_error_of_a_watch_is_no_reason_to_list_anew() -> None:
    line = b'{"type": "ERROR", "object": {"code": 500, "message": "oh"}}\n'
    with pytest.raises(Unavailable, match="oh"):
        await events_of(api_of(Scripted(lines=(line,))))


@given(st.lists(st.integers(0, 1000), max_size=5), st.lists(st.integers(1, 40), max_size=30))
def test_lines_may_be_split_anywhere(versions: list[int], cuts: list[int]) -> None:
    def cut(data: bytes) -> Callable[[], tuple[bytes, ...]]:
        pieces, rest = [], data
        for length in cuts:
            pieces.append(rest[:length])
            rest = rest[length:]
        return lambda: (*pieces, rest)

    text = b"".join(
        msgspec.json.encode(
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(one)}}}
        )
        + b"\n"
        for one in versions
    )
    found = play(events_of(api_of(Scripted(lines=cut(text)()))))
    assert [one.version for one in found] == [str(one) for one in versions]
