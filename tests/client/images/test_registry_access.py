"""Logins: where they are found, and to whom they are given."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from lading.client.images.registry_access import Login, find_login, parse_challenge, read_token
from lading.core.errors import Invalid, Unauthenticated


def _write(path: Path, **auths: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = {host: {"auth": b64encode(text.encode()).decode()} for host, text in auths.items()}
    path.write_text(json.dumps({"auths": entries, "credsStore": "x"}))
    return path


def test_the_first_file_that_knows_the_host(tmp_path: Path) -> None:
    environ = {
        "REGISTRY_AUTH_FILE": str(_write(tmp_path / "a.json", one="ann:secret:1")),
        "DOCKER_CONFIG": str(_write(tmp_path / "docker" / "config.json", one="other:x").parent),
        "HOME": str(_write(tmp_path / "home" / ".docker" / "config.json", two="bob:b").parents[1]),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
    }
    assert find_login(environ, "one") == Login("ann", "secret:1")
    assert find_login(environ, "two") == Login("bob", "b")
    assert find_login(environ, "three") is None
    assert find_login({}, "one") is None


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Login("ann", "secret"))


@pytest.mark.parametrize(
    "text", ["{", '{"auths": {"h": {"auth": "?"}}}', '{"auths": {"h": {"auth": "/w=="}}}']
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "auth.json").write_text(text)
    with pytest.raises(Invalid, match=r"auth\.json: damaged: .*docker login h"):
        find_login({"REGISTRY_AUTH_FILE": str(tmp_path / "auth.json")}, "h")
    with pytest.raises(Invalid, match="cannot be read: Is a directory"):
        find_login({"REGISTRY_AUTH_FILE": str(tmp_path)}, "h")


def test_challenges() -> None:
    found = parse_challenge('Bearer realm="https://t/x",service="s",scope="repository:a:pull"')
    assert found.scheme == "bearer"
    assert (
        found.token_address("https://h", "b") == "https://t/x?scope=repository%3Aa%3Apull&service=s"
    )
    bare = parse_challenge('Bearer realm="http://t?x=1"')
    assert bare.token_address("http://h", "a/b") == "http://t?x=1&scope=repository%3Aa%2Fb%3Apull"
    assert parse_challenge("Basic").scheme == "basic"


@pytest.mark.parametrize(
    ("realm", "fault"), [("http://t/x", "unencrypted HTTP"), ("file:///x", "which is no address")]
)
def test_logins_are_given_to_nobody_else(realm: str, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        parse_challenge(f'Bearer realm="{realm}"').token_address("https://h", "a")


def test_tokens() -> None:
    assert read_token(b'{"token": "a"}', "h") == "a"
    assert read_token(b'{"access_token": "b"}', "h") == "b"
    for body in (b"", b"[]", b"{}", b'{"token": "a\\nb"}', b"\xff"):
        with pytest.raises(Unauthenticated, match="h: gave no token"):
            read_token(body, "h")
