from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lading.client.api import ApiClient, encode_params, error_of
from lading.client.retry import NO_RETRY, RetryPolicy
from lading.client.transport import Response
from lading.core.errors import (
    Forbidden,
    Full,
    Invalid,
    LadingError,
    NotFound,
    RequestError,
    Unavailable,
)
from lading.testing.asgi import AsgiTransport, FlakyTransport
from lading.testing.containers import FakeContainers

UUID = "zzzzz-dz642-000000000000000"
Answer = tuple[int, bytes]
Seen = dict[str, Any]


class Server:
    """Answers with what it was given, and remembers what it was asked."""

    def __init__(self, *answers: Answer | Callable[[Seen], Answer]) -> None:
        self._answers = list(answers)
        self.seen: list[Seen] = []
        self.pauses: list[float] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        timeout: float = 0,
    ) -> Response:
        split = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.seen.append(
            {
                "method": method,
                "path": split.path,
                "query": query,
                "headers": dict(headers),
                "body": body,
                "url": path,
            }
        )
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        status, content = answer(self.seen[-1]) if callable(answer) else answer
        return Response(status, {}, content)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def client(self, retry: RetryPolicy | None = None) -> ApiClient:
        return ApiClient(self, "v2/a/b", retry=retry, sleep=self.sleep, chance=lambda: 0.0)  # type: ignore[arg-type]


def _json(value: object, status: int = 200) -> Answer:
    return status, json.dumps(value).encode()


async def test_get_carries_the_token_a_request_id_and_the_selection() -> None:
    server = Server(_json({"uuid": UUID}))
    assert await server.client().get("containers", UUID, select=["uuid", "state"]) == {"uuid": UUID}
    seen = server.seen[0]
    assert (seen["method"], seen["path"]) == ("GET", f"/arvados/v1/containers/{UUID}")
    assert seen["query"] == {"select": '["uuid","state"]'}
    assert seen["headers"]["Authorization"] == "Bearer v2/a/b"
    assert len(seen["headers"]["X-Request-Id"]) == 24


async def test_a_plain_get_has_no_query() -> None:
    server = Server(_json({"uuid": UUID}))
    await server.client().get("containers", UUID)
    assert server.seen[0]["url"] == f"/arvados/v1/containers/{UUID}"


async def test_list() -> None:
    server = Server(_json({"items": [{"uuid": UUID}]}))
    filters = [["uuid", "in", [UUID]]]
    assert await server.client().list(
        "containers", filters=filters, limit=5, include_trash=True
    ) == [{"uuid": UUID}]
    query = server.seen[0]["query"]
    assert query == {
        "filters": f'[["uuid","in",["{UUID}"]]]', "limit": "5", "count": "none",
        "include_trash": "true"
    }  # fmt: skip


async def test_a_long_query_goes_as_a_form() -> None:
    server = Server(_json({"items": []}))
    await server.client().list("containers", filters=[["uuid", "in", [UUID] * 100]])
    seen = server.seen[0]
    assert (seen["method"], seen["query"]) == ("POST", {})
    assert seen["headers"]["X-Http-Method-Override"] == "GET"
    assert seen["headers"]["Content-Type"] == "application/x-www-form-urlencoded"
    assert json.loads(parse_qs(seen["body"].decode())["filters"][0]) == [
        ["uuid", "in", [UUID] * 100]
    ]


async def test_pages_follow_the_last_uuid_to_an_empty_page() -> None:
    server = Server(
        _json({"items": [{"uuid": "a"}, {"uuid": "b"}]}),
        _json({"items": [{"uuid": "c"}]}),
        _json({"items": []}),
    )
    pages = server.client().pages("links", filters=[["name", "=", "x"]], select=["name"], size=2)
    assert [[row["uuid"] for row in page] async for page in pages] == [["a", "b"], ["c"]]
    asked = [json.loads(seen["query"]["filters"]) for seen in server.seen]
    assert asked == [
        [["name", "=", "x"]],
        [["name", "=", "x"], ["uuid", ">", "b"]],
        [["name", "=", "x"], ["uuid", ">", "c"]],
    ]
    assert server.seen[0]["query"]["select"] == '["name","uuid"]'


async def test_pages_without_a_selection() -> None:
    server = Server(_json({"items": []}))
    assert [page async for page in server.client().pages("links")] == []
    assert "select" not in server.seen[0]["query"]


@pytest.mark.parametrize(
    ("call", "method", "path", "body"),
    [
        (
            lambda api: api.create("container_requests", {"name": "x"}, ensure_unique_name=True),
            "POST",
            "container_requests",
            {"container_request": {"name": "x"}, "ensure_unique_name": True},
        ),
        (
            lambda api: api.update("containers", UUID, {"priority": 2**59 + 1}),
            "PUT",
            f"containers/{UUID}",
            {"container": {"priority": 2**59 + 1}},
        ),
        (lambda api: api.delete("collections", UUID), "DELETE", f"collections/{UUID}", None),
        (
            lambda api: api.action("containers", UUID, "lock"),
            "POST",
            f"containers/{UUID}/lock",
            None,
        ),
        (
            lambda api: api.action("users", None, "current", method="GET"),
            "GET",
            "users/current",
            None,
        ),
        (
            lambda api: api.action("dispatch", None, "statuses", body={"items": {}}),
            "POST",
            "dispatch/statuses",
            {"items": {}},
        ),
    ],
)
async def test_writes(
    call: Callable[[ApiClient], Any], method: str, path: str, body: object
) -> None:
    server = Server(_json({"uuid": UUID}))
    assert await call(server.client()) == {"uuid": UUID}
    seen = server.seen[0]
    assert (seen["method"], seen["path"]) == (method, f"/arvados/v1/{path}")
    assert (json.loads(seen["body"]) if seen["body"] else None) == body


async def test_raw_bytes_both_ways_and_a_path_of_its_own() -> None:
    server = Server((206, b"\xff\x00"))
    answer = await server.client().raw(
        "POST", "/live/x", params={"offset": 5}, headers={"Range": "bytes=1-"}, body=b"\xfe"
    )
    assert (answer.status, answer.body) == (206, b"\xff\x00")
    seen = server.seen[0]
    assert (seen["url"], seen["body"], seen["headers"]["Range"]) == (
        "/live/x?offset=5",
        b"\xfe",
        "bytes=1-",
    )


async def test_an_empty_answer_is_none() -> None:
    assert await Server((204, b"")).client().request("POST", "/sys/trash_sweep") is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, Forbidden), (404, NotFound), (422, Invalid), (418, RequestError), (507, Unavailable)],
)
async def test_errors_by_status_are_not_tried_again(status: int, kind: type[LadingError]) -> None:
    server = Server(_json({"errors": ["first", "second (req-x)"]}, status))
    with pytest.raises(kind, match=r"first; second \(req-x\)"):
        await server.client().get("containers", UUID)
    assert len(server.seen) == 1


async def test_what_passes_is_tried_again() -> None:
    server = Server((503, b"busy"), (500, b""), _json({"uuid": UUID}))
    assert await server.client().get("containers", UUID) == {"uuid": UUID}
    assert server.pauses == [0.05, 0.1]


async def test_lost_messages_are_tried_again() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"uuid":"x"}'})

    flaky = FlakyTransport(AsgiTransport(app), seed=3, loss=0.4)
    client = ApiClient(flaky, "t", retry=RetryPolicy(attempts=100), sleep=Server(_json({})).sleep)
    for _ in range(20):
        assert await client.get("containers", UUID) == {"uuid": "x"}


async def test_no_retry_raises_at_once() -> None:
    server = Server((503, b""))
    with pytest.raises(
        Unavailable, match=r"GET /arvados/v1/containers/\S+: the server answered 503"
    ):
        await server.client(NO_RETRY).get("containers", UUID)


@pytest.mark.parametrize("answer", [b"<html>", b"[1]", b""])
async def test_an_answer_that_is_no_record_is_unavailable(answer: bytes) -> None:
    with pytest.raises(Unavailable, match="right address"):
        await Server((200, answer)).client().get("containers", UUID)


@pytest.mark.parametrize(
    "body", [b"[]", b'{"errors": 5}', b'{"message": "x"}', b"plain\n text", b"\xff"]
)
def test_errors_of_any_shape_are_one_line(body: bytes) -> None:
    message = error_of(Response(404, {}, body), "GET /x").message
    assert message
    assert "\n" not in message


def test_parameters_are_text_or_json() -> None:
    assert (
        encode_params({"a": "x y", "b": [1, "é"], "c": True, "d": None})
        == "a=x+y&b=%5B1%2C%22%C3%A9%22%5D&c=true"
    )


@pytest.mark.parametrize(
    ("plural", "singular"), [("collections", "collection"), ("repositories", "repository")]
)
async def test_attributes_go_below_the_name_of_the_type(plural: str, singular: str) -> None:
    server = Server(_json({"uuid": UUID}))
    await server.client().create(plural, {"name": "x"})
    assert json.loads(server.seen[0]["body"]) == {singular: {"name": "x"}}


async def test_a_body_of_any_size_is_saved(tmp_path: Path) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        status = 200 if scope["path"].endswith("here") else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 300_000, "more_body": True})
        await send({"type": "http.response.body", "body": b"y"})

    client = ApiClient(AsgiTransport(answer), "v2/a/b", retry=NO_RETRY)
    await client.save("here", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"x" * 300_000 + b"y"
    with pytest.raises(NotFound):
        await client.save("gone", tmp_path / "other", params={"a": 1}, timeout=5.0)


async def test_it_knows_when_the_server_was_busy_and_when_overloaded() -> None:
    server = FakeContainers()
    client = ApiClient(server, "secret", retry=NO_RETRY)
    server.down = True
    with pytest.raises(Unavailable):
        await client.get("api_client_authorizations", "current")
    assert client.busy_at > 0.0 == client.overloaded_at
    for _ in range(8):
        with pytest.raises(Unavailable):
            await client.get("api_client_authorizations", "current")
    assert client.overloaded_at == client.busy_at


class _Large:
    """A server of one path, which is busy at first, and keeps what it was sent."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.calls: list[tuple[str, bytes, dict[bytes, bytes]]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        sent, more = b"", True
        while more:
            message = await receive()
            sent, more = sent + message.get("body", b""), message.get("more_body", False)
        self.calls.append((scope["method"], sent, dict(scope["headers"])))
        status = 503 if len(self.calls) == 1 else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": self._body})

    def client(self) -> ApiClient:
        return ApiClient(AsgiTransport(self), "v2/a/b", retry=RetryPolicy(base=0.0))


async def test_a_text_in_pieces_goes_as_any_attribute(tmp_path: Path) -> None:
    server = _Large(b'{"uuid": "u"}')
    pieces = (one for one in ('. a "quoted', "\\name\n", "é"))
    made = await server.client().create_large(
        "collections", {"name": "n"}, {"manifest_text": pieces}, tmp_path, select=["uuid"]
    )
    method, sent, headers = server.calls[-1]
    assert (made, method, len(server.calls)) == ({"uuid": "u"}, "POST", 2)
    fields = {"name": "n", "manifest_text": '. a "quoted\\name\né'}
    assert json.loads(sent) == {"collection": fields, "select": ["uuid"]}
    assert headers[b"content-length"] == b"%d" % len(sent)
    assert list(tmp_path.iterdir()) == []


async def test_no_room_for_a_body(tmp_path: Path) -> None:
    with pytest.raises(Full, match="the request cannot be written: No such file"):
        await _Large(b"").client().create_large("collections", {"name": "n"}, {}, tmp_path / "none")


async def test_an_answer_is_streamed_once_it_has_begun() -> None:
    server = _Large(b"x" * 200_000)
    async with server.client().stream("a/b", headers={"Range": "bytes=0-"}) as answer:
        assert sum([len(one) async for one in answer.chunks]) == 200_000
    method, _, headers = server.calls[-1]
    assert (method, len(server.calls), headers[b"range"]) == ("GET", 2, b"bytes=0-")
