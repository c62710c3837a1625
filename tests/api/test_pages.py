"""What browsers and people try first."""

from __future__ import annotations

import pytest

from lading.api.app import OWNED_PATHS
from lading.testing.world import World

PAGE = {"accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}


def _external(it: World) -> str:
    return it.config.ExternalURL.rstrip("/") + "/"


async def test_the_root_says_what_this_is(it: World) -> None:
    reply = await it.request("GET", "/", token="", headers=PAGE)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>Lading" in reply.body
    assert f'href="{_external(it)}arvados/v1/openapi.json"'.encode() in reply.body
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    told = await it.ok("GET", "/", token="")
    assert (told["name"], told["cluster"], told["configuration"]) == (
        "Lading",
        "zzzzz",
        f"{_external(it)}arvados/v1/config",
    )


@pytest.mark.parametrize(
    "path", ["/favicon.ico", "/robots.txt", "/a/b", "/arvados/v1/nothing", "/arvados/v2/users"]
)
async def test_unknown_paths_are_not_found_with_a_sentence(it: World, path: str) -> None:
    for method in ("GET", "POST"):
        reply = await it.request(method, path, token="")
        assert reply.status == 404
        assert f"API endpoint not found: there is nothing at {path} " in reply.error
    assert (await it.request("HEAD", path, token="")).status == 404


async def test_login_leads_to_the_page_and_nowhere_else(it: World) -> None:
    assert "/login" in OWNED_PATHS
    assert "Give your token to other clients" in (await it.ok("GET", "/login", token=""))["message"]
    reply = await it.request(
        "GET", "/login", token="", headers=PAGE, params={"return_to": "https://evil.example/"}
    )
    assert reply.status == 200
    assert "location" not in reply.headers
    assert b"evil" not in reply.body
    assert b'<a href="/ui/login">' in reply.body


async def test_logging_out_ends_the_token(it: World) -> None:
    token = await it.user("u")
    assert (await it.request("GET", "/logout", token="")).status == 401
    assert (await it.request("GET", "/logout", token="v2/no/token")).status == 401
    assert (await it.ok("GET", "/logout", token=token))["message"] == "The token has ended."
    assert (await it.request("GET", "users/current", token=token)).status == 401


async def test_a_token_that_may_not_end_itself_stays(it: World) -> None:
    user = await it.user("u")
    made = await it.ok(
        "POST",
        "api_client_authorizations",
        {"scopes": ["GET /arvados/v1/users/current"]},
        token=user,
    )
    narrow = f"v2/{made['uuid']}/{made['api_token']}"
    assert (await it.request("GET", "/logout", token=narrow)).status == 403
    await it.ok("GET", "users/current", token=narrow)
    # That of the configuration has no record.
    reply = await it.request("POST", "/logout", token="s" * 50, headers=PAGE)
    assert (reply.status, b"stays valid" in reply.body) == (200, True)
