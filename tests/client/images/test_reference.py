"""How images of registries are written."""

from __future__ import annotations

import pytest

from lading.client.images.registry_access import parse_reference
from lading.core.errors import Invalid

_HEX = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "host", "repository", "version", "name"),
    [
        ("h:5000/tools", "h:5000", "tools", "latest", "h:5000/tools:latest"),
        ("r.example.org/a/b-c:1.0", "r.example.org", "a/b-c", "1.0", "r.example.org/a/b-c:1.0"),
        (f"localhost/a@{_HEX}", "localhost", "a", _HEX, f"localhost/a@{_HEX}"),
        (f"[::1]:5/a:1@{_HEX}", "[::1]:5", "a", _HEX, f"[::1]:5/a@{_HEX}"),
    ],
)
def test_references(text: str, host: str, repository: str, version: str, name: str) -> None:
    found = parse_reference(text)
    assert (found.host, found.repository, found.version, found.name) == (
        host,
        repository,
        version,
        name,
    )


def test_a_digest_names_content_for_ever() -> None:
    assert parse_reference("h:5000/a/b:1").pinned(_HEX) == f"h:5000/a/b@{_HEX}"


@pytest.mark.parametrize("text", ["tools", "tools:1", "library/tools:1", "a/b/c"])
def test_the_registry_has_to_be_named(text: str) -> None:
    with pytest.raises(Invalid, match="write HOST"):
        parse_reference(text)


@pytest.mark.parametrize(
    "text", ["", "h:5/", "h:5/A", "h:5/a:", "h:5/a@sha256:1", "h:5/../a", "h:5/a b", "-h:5/a"]
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(Invalid, match="is no image of a registry: write HOST"):
        parse_reference(text)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.1.2.3:80", True),
        ("[::1]:5", True),
        ("10.0.0.1:5", False),
        ("r.example.org", False),
        ("127.0.0.1.example.org:5", False),
    ],
)
def test_registries_on_this_machine(host: str, is_local: bool) -> None:
    assert parse_reference(f"{host}/a").is_local is is_local
