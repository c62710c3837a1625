"""Addresses to which a registry leads."""

from __future__ import annotations

import pytest

from lading.client.images.registry_addresses import check_origin, look_up, shown, split_address
from lading.core.errors import Invalid


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("https://h", ("https://h", "/")),
        ("http://h:5/a?b=c%20d#e", ("http://h:5", "/a?b=c%20d")),
        ("https://[2001:db8::1]:5/a", ("https://[2001:db8::1]:5", "/a")),
        ("https://a_b.example./a", ("https://a_b.example.", "/a")),
    ],
)
def test_an_address_is_an_origin_and_a_path(address: str, parts: tuple[str, str]) -> None:
    assert split_address(address, "r") == parts


@pytest.mark.parametrize(
    "address", ["h/a", "ftp://h/", "https://u@h/", "https://h:0/", "https://["]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(Invalid, match="r: sends to .* which is no web address"):
        split_address(address, "r")


async def test_the_machine_is_reached_from_itself_only() -> None:
    assert "127.0.0.1" in await look_up("127.0.0.1")

    async def lookup(host: str) -> list[str]:
        if host == "absent.example":
            raise OSError("no such host")
        return ["127.0.0.1"] if host == "own.example" else ["192.0.2.1"]

    with pytest.raises(Invalid, match="an address of this machine"):
        await check_origin("http://own.example", "http://far.example", lookup)
    await check_origin("http://own.example:1", "http://own.example:2", lookup)
    await check_origin("http://absent.example", "http://far.example", lookup)


def test_texts_in_messages() -> None:
    assert shown("x" * 200) == "x" * 100
    assert shown("\x1b[2J") == r"'\x1b[2J'"
