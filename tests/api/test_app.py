"""Reading, routing, refusing: the shell around all handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lading.api import routes
from lading.api.app import OWNED_PATHS
from lading.api.http import ApiCall, ApiResponse
from lading.api.logins.authentication import find_user
from lading.core.errors import Forbidden, Unauthenticated
from lading.testing.world import World, call_asgi, world


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/arvados/v1/nope", 404),
        ("GET", "/nope", 404),
        ("GET", "/arvados/v1/collections/x/nope", 404),
        ("GET", "/arvados/v1/collections/x/trash/more", 404),
        ("DELETE", "/arvados/v1/collections", 405),
        ("GET", "/arvados/v1/containers/x/lock", 405),
        ("POST", "/arvados/v1/users/current", 405),
    ],
)
async def test_paths_that_are_not_there(it: World, method: str, path: str, status: int) -> None:
    reply = await it.request(method, path)
    assert reply.status == status
    assert reply.error.startswith("API endpoint not found")


async def test_errors_are_one_line_with_the_request_id(it: World) -> None:
    reply = await it.request(
        "GET", "collections/zzzzz-4zz18-000000000000009", headers={"x-request-id": "req-mine"}
    )
    assert reply.status == 404
    assert reply.error.endswith("(req-mine)")
    assert reply.headers["x-request-id"] == "req-mine"
    made = await it.request("GET", "users/current", headers={"x-request-id": "x" * 2000})
    assert made.headers["x-request-id"].startswith("req-")


@pytest.mark.parametrize(
    "token", ["nonsense", "v2/zzzzz-gj3su-aaaaaaaaaaaaaaa/wrong", "v2/x/y", "v2/a/b/c/d"]
)
async def test_wrong_tokens(it: World, token: str) -> None:
    reply = await it.request("GET", "users/current", token=token)
    assert reply.status == 401
    assert "Not logged in" in reply.error
    assert "www-authenticate" in reply.headers


async def test_no_token(it: World) -> None:
    for path in ("users/current", "containers/current", "collections"):
        assert (await it.request("GET", path, token="")).status == 401


async def test_options_and_head(it: World) -> None:
    reply = await it.request("OPTIONS", "collections", token="")
    assert (reply.status, reply.body, reply.headers["access-control-max-age"]) == (
        200,
        b"",
        "86486400",
    )
    head = await it.request("HEAD", "users/current")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) > 100


@pytest.mark.parametrize(
    ("body", "status", "fault"),
    [
        (b"{", 400, "not JSON"),
        (b'{"a": "\xff"}', 400, "not JSON"),
        (b"[1]", 400, "must be a JSON object"),
        (b'{"collection": 5}', 400, "collection: must be an object"),
        (b"[" * 100_000, 400, "more than 100 nested objects and arrays"),
        (
            b'{"collection":{"properties":' + b'{"a":' * 100 + b"1" + b"}" * 102,
            400,
            "more than 100 nested objects and arrays",
        ),
        (b'{"filters":"' + b"[" * 101 + b"]" * 101 + b'"}', 400, "filters: more than 100"),
    ],
)
async def test_bodies_that_cannot_be_read(it: World, body: bytes, status: int, fault: str) -> None:
    reply = await it.request("POST", "collections", raw=body)
    assert reply.status == status
    assert fault in reply.error
    assert await it.collections() == []


@pytest.mark.parametrize("name", ["filters", "where", "select"])
async def test_parameters_that_are_nested_too_deep(it: World, name: str) -> None:
    for depth in (101, 100_000):
        reply = await it.request("GET", "collections", params={name: "[" * depth + "]" * depth})
        assert (reply.status, f"{name}: more than 100" in reply.error) == (400, True)
    assert (
        await it.request("GET", "collections", params={"order": "[" * 101 + "]" * 101})
    ).status == 422
    operand = '"' + "[" * 5000 + "]" * 5000 + '"'
    reply = await it.request(
        "GET", "collections", params={"filters": f'[["properties","=",{operand}]]'}
    )
    assert reply.status == 422


@pytest.mark.parametrize(
    "media", ["text/xml", "multipart/form-data; boundary=x", "application/jsonx", ";;"]
)
async def test_bodies_of_other_types_are_not_passed_over(it: World, media: str) -> None:
    reply = await it.request("POST", "collections", {"name": "x"}, headers={"content-type": media})
    assert reply.status == (400 if media != ";;" else 200)
    assert len(await it.collections()) == (0 if media != ";;" else 1)


async def test_a_body_that_is_too_large(tmp_path: Path) -> None:
    async with world(tmp_path, API={"MaxRequestSize": 100}) as it:
        named = await it.request("POST", "collections", raw=b"x", headers={"content-length": "101"})
        assert named.status == 413
        assert "at most 100" in named.error
        assert (await it.request("POST", "collections", raw=b'{"name":"x"}')).status == 200
        parts = [
            {"type": "http.request", "body": b" " * 60, "more_body": True},
            {"type": "http.request", "body": b" " * 60, "more_body": True},
        ]
        assert await _status(it, parts) == 413


async def test_a_body_in_parts(it: World) -> None:
    parts = [
        {"type": "http.request", "body": b'{"name":', "more_body": True},
        {"type": "http.request", "body": b'"x"}', "more_body": False},
    ]
    assert await _status(it, parts) == 200


@pytest.mark.parametrize("sent", [[], [b'{"name":"x"}']])
async def test_half_a_body_changes_nothing(it: World, sent: list[bytes]) -> None:
    parts = [{"type": "http.request", "body": one, "more_body": True} for one in sent]
    before = await it.ok("GET", "collections")
    assert await _status(it, [*parts, {"type": "http.disconnect"}]) == 400
    assert await it.ok("GET", "collections") == before


async def _status(it: World, parts: list[dict[str, Any]]) -> int:
    sent: list[Any] = []

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/arvados/v1/collections",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer " + it.admin.encode())],
    }
    await it.app(scope, receive, send)
    return int(sent[0]["status"])


async def test_method_override(it: World) -> None:
    part = "--x\r\nContent-Disposition: form-data; name="
    form = f'{part}"_method"\r\n\r\nGET\r\n{part}"limit"\r\n\r\n1\r\n--x--\r\n'.encode()
    for headers, body in (
        (
            {"content-type": "application/x-www-form-urlencoded"},
            b"_method=GET&limit=1&select=[%22uuid%22]",
        ),
        ({"content-type": "multipart/form-data; boundary=x"}, form),
        (
            {"content-type": "application/x-www-form-urlencoded", "x-http-method-override": "GET"},
            b"limit=1",
        ),
    ):
        reply = await it.request("POST", "users", raw=body, headers=headers)
        assert (reply.status, reply.json["limit"]) == (200, 1)


async def test_scopes_and_inactive_users(it: World) -> None:
    user = await it.ok("POST", "users", {"username": "u", "is_active": False})
    scopes = ["GET /arvados/v1/users/current", "GET /arvados/v1/links"]
    token = await it.ok(
        "POST", "api_client_authorizations", {"owner_uuid": user["uuid"], "scopes": scopes}
    )
    secret = token["api_token"]
    assert (await it.request("GET", "users/current", token=secret)).status == 200
    assert "not active" in (await it.request("GET", "links", token=secret)).error
    reply = await it.request("GET", "collections", token=secret)
    assert (reply.status, "scopes" in reply.error) == (403, True)


async def test_a_fault_of_ours_is_a_500(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(type(it.app.services.clock), "now", lambda self: broken())
    reply = await it.request("GET", "collections")
    assert reply.status == 500
    assert "internal error" in reply.error


async def test_check_token(it: World) -> None:
    for writing in (False, True):
        user = (await it.ok("GET", "users/current"))["uuid"]
        assert await it.app.check_token(it.admin, writing=writing) == user
        assert await find_user(it.app.services, it.admin) == user
        for wrong in ("", "x"):
            with pytest.raises(Unauthenticated):
                await it.app.check_token(wrong, writing=writing)
    narrow = await it.ok("POST", "api_client_authorizations", {"scopes": ["GET /"]})
    await it.app.check_token(narrow["api_token"], writing=False)
    with pytest.raises(Forbidden, match="store collections"):
        await it.app.check_token(narrow["api_token"], writing=True)


async def test_nobody_is_the_user_of_an_invalid_token_and_of_none(it: World) -> None:
    for token in ("", "x", f"v2/{'z' * 27}/x"):
        assert await find_user(it.app.services, token) == ""


async def test_lifespan(it: World) -> None:
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await it.app({"type": "lifespan"}, receive, send)
    await it.app({"type": "other"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_requests_that_are_cancelled_stay_cancelled(it: World) -> None:
    waiting = asyncio.Event()

    async def receive() -> Any:
        waiting.set()
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "POST", "path": "/x", "query_string": b"", "headers": []}
    task = asyncio.create_task(it.app(scope, receive, send))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_is_owned() -> None:
    assert "/websocket" in OWNED_PATHS


async def test_slashes_are_collapsed(it: World) -> None:
    headers = {"authorization": f"OAuth2 {it.admin}"}
    reply = await call_asgi(it.app, "GET", "//arvados//v1/users/current", headers=headers)
    assert reply.status == 200


async def test_a_handler_that_never_ends_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(call: ApiCall) -> ApiResponse:
        async with call.services.database.writing():
            await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setitem(routes.HANDLERS, "links.create", never)
    async with world(tmp_path, API={"RequestTimeout": 0.05}) as it:
        reply = await it.request("POST", "links", {})
        assert (reply.status, "took too long" in reply.error) == (503, True)
        assert (
            await it.request("POST", "collections", {"name": "the database is free again"})
        ).status == 200


async def test_an_answer_that_is_read_slowly_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def parts() -> AsyncGenerator[bytes]:
        yield b"a"
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.Event().wait()
        yield b"b"

    async def stream(call: ApiCall) -> ApiResponse:
        return ApiResponse(stream=parts())

    monkeypatch.setitem(routes.HANDLERS, "links.list", stream)
    async with world(tmp_path, API={"RequestTimeout": 0.05}) as it:
        assert (await it.request("GET", "links")).body == b"ab"


async def test_a_large_body_of_a_stranger_is_not_read(it: World) -> None:
    large = b'{"description": "' + b"x" * (2 << 20) + b'"}'
    length = {"content-length": str(len(large))}
    reply = await it.request("POST", "collections", raw=large, token="", headers=length)
    assert (reply.status, "with a large body" in reply.error) == (401, True)
    chunked = {"transfer-encoding": "chunked"}
    assert (
        await it.request("POST", "collections", raw=large, token="unknown", headers=chunked)
    ).status == 401
    assert (await it.request("POST", "collections", raw=large, headers=length)).status == 200


async def test_sessions_are_told_of_calls(it: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They give way while somebody calls, whatever the answer is."""
    told: list[str] = []
    monkeypatch.setattr(it.app.services.access.turns, "note_call", lambda: told.append("call"))
    await it.request("GET", "users/current")
    await it.request("GET", "nothing")
    assert told == ["call"] * 2
