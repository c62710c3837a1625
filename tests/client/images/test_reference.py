"""How images of registries are written."""

from __future__ import annotations

import pytest

from lading.client.images.reference import parse_reference
from lading.core.errors import Invalid
from lading.core.image_names import HUB

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


@pytest.mark.parametrize(
    ("text", "repository", "names"),
    [
        ("debian", "library/debian", ("debian:latest", "{}/library/debian:latest")),
        ("debian:12", "library/debian", ("debian:12", "{}/library/debian:12")),
        ("library/debian:12", "library/debian", ("library/debian:12", "{}/library/debian:12")),
        ("bio/tools:1", "bio/tools", ("bio/tools:1", "{}/bio/tools:1")),
        (f"debian@{_HEX}", "library/debian", (f"debian@{_HEX}", f"{{}}/library/debian@{_HEX}")),
    ],
)
@pytest.mark.parametrize("registry", [HUB, "127.0.0.1:5000"])
def test_names_without_a_registry(
    text: str, repository: str, names: tuple[str, ...], registry: str
) -> None:
    found = parse_reference(text, registry=registry)
    assert (found.host, found.repository) == (registry, repository)
    assert found.names == tuple(name.format(registry) for name in names)


def test_the_hub_is_served_and_logged_into_elsewhere() -> None:
    found = parse_reference(f"{HUB}/debian:12")
    assert (found.repository, found.names) == ("library/debian", (f"{HUB}/library/debian:12",))
    assert (found.address, found.login_host) == (f"registry-1.{HUB}", f"index.{HUB}/v1/")
    other = parse_reference("h:5000/tools")
    assert (other.address, other.login_host, other.names) == (
        "h:5000",
        "h:5000",
        ("h:5000/tools:latest",),
    )


@pytest.mark.parametrize(
    "text", ["", "h:5/", "h:5/A", "h:5/a:", "h:5/a@sha256:1", "h:5/../a", "h:5/a b", "-h:5/a"]
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(Invalid, match="is no image of a registry: write .HOST"):
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
