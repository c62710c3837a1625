"""Addresses and URLs that lead a server of ours elsewhere than their text says, in process.

The same rules hold for webhooks, transfers of tasks and the repositories of users.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.api.webhooks.mail import Mailer
from lading.api.webhooks.receivers import OutsideSender
from lading.config.webhooks import Mail
from lading.core.containers.container_network import is_inside_address
from lading.core.errors import Forbidden, Invalid, LadingError, Unavailable
from lading.core.webhooks.signature import make_secret
from lading.core.webhooks.subscription import check_webhook, web_address
from lading.net.name_lookup import NameLookup
from lading.net.outside_way import OutsideNetwork
from lading.testing.world import world
from tests.api.webhooks.fake_sender import FakeSender, hook
from tests.api.webhooks.test_receivers import EVENT

# The addresses of a service of the machine, of its links, its cloud and its inside network.
INSIDE = (
    "127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
    "169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192",
)  # fmt: skip
# Addresses of IPv6 alone.
INSIDE_6 = (
    "::", "::1", "fe80::1", "fe80::a9fe:a9fe", "fec0::1", "fc00::1", "fd00:ec2::254",
    "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "ff02::1", "fd12:3456:789a::1",
)  # fmt: skip
# Forms of IPv6 in which an IPv4 address travels: mapped and compatible (RFC 4291), translated (RFC
# 2765), NAT64 (RFC 6052, 8215), 6to4 (RFC 3056), Teredo (RFC 4380).
EMBEDDED = (
    "::ffff:{hex}", "::{hex}", "::ffff:0:{hex}", "64:ff9b::{hex}", "64:ff9b:1::{hex}",
    "2002:{hex}::1", "2001:0:{hex}::1",
)  # fmt: skip


def _hex(address: str) -> str:
    packed = ipaddress.IPv4Address(address).packed.hex()
    return f"{packed[:4]}:{packed[4:]}"


ADDRESSES = (
    *INSIDE,
    *INSIDE_6,
    *(form.format(hex=_hex(one)) for form in EMBEDDED for one in INSIDE),
    "0.1.2.3", "127.255.255.254", "224.0.0.1", "240.0.0.1", "255.255.255.255", "198.18.0.1",
)  # fmt: skip


@pytest.mark.attack("gives a name an address of the machine or an inside network, in any form")
@pytest.mark.parametrize("address", ADDRESSES)
async def test_a_name_with_an_inside_address(address: str) -> None:
    assert is_inside_address(ipaddress.ip_address(address))
    for answers in ([address], ["1.1.1.1", address], [address, "2606:4700::1111"]):

        async def lookup(host: str, port: int, answers: list[str] = answers) -> list[str]:
            return answers

        with pytest.raises(Forbidden):
            await OutsideNetwork(lookup=lookup).addresses("name.example", 80)


# Spellings of 127.0.0.1 that resolvers of C take, or a reader of URLs takes for another host.
HOSTS = (
    "127.0.0.1", "127.1", "127.0.1", "0", "0x7f.1", "0x7f000001", "0177.0.0.1", "2130706433",
    "017700000001", "0x7f.0.0.1", "127.0.0.1.", "localhost", "LOCALHOST", "localhost.",
    "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[::127.0.0.1]",
    "0.0.0.0", "00000.0", "127.000.000.001",
)  # fmt: skip


@pytest.mark.attack("spells an address of the machine in a way that a filter does not know")
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("url", ["http://{}/", "https://{}:8443/x", "http://{}:80/?q=1"])
async def test_spelled_address(host: str, url: str) -> None:
    location = web_address(url.format(host))
    with pytest.raises((Forbidden, Unavailable)):
        await OutsideNetwork().addresses(location.host, location.port)


ODD_URLS = (
    "http://good.example@127.0.0.1/", "http://127.0.0.1@good.example/", "http://a:b@c.example/",
    "http://good.example\\@127.0.0.1/", "http://127.0.0.1\\.good.example/", "http://a b.example/",
    "http://[::1", "http://::1/", "http://[::1%25lo]/", "http://[fe80::1%lo]/", "http://[v1.x]/",
    "http://%31%32%37.0.0.1/", "http://127.0.0.1%00.good.example/", "http://127。0。0。1/",
    "http://①②⑦.⓪.⓪.①/", "http://ⓛocalhost/", "http://localhost:0/", "http://good.example:65536/",
    "http://good.example:-1/", "http://good.example:80:80/", "http://good.example:8a/",
    "http://good.example:٨٠/", "http:///etc/passwd", "http:/good.example", "http:good.example",
    "//good.example/", "file:///etc/passwd", "gopher://127.0.0.1/_x", "dict://127.0.0.1:11211/",
    "ftp://good.example/x", "ldap://good.example/", "jar:http://good.example!/", "javascript:x",
    "data:text/plain,x", "unix:///run/docker.sock", "http+unix://%2Frun%2Fdocker.sock/", "s3://b/k",
    "http://good.example/\r\nX-Evil: 1", "http://good.example\r\n/", "http://good.example/\t",
    "http://good.example/\x00", "\x00http://good.example/", " http://good.example/", "http://",
    "http://good.example#@127.0.0.1:80:1/x y\n", "http://" + "a" * 9000, "", "http://?", "http://#",
    "http://.example@/", "keep:abc", "/etc/passwd", "mailto:a@b.example", "HTTP\u017f://x/",
)  # fmt: skip


@pytest.mark.attack("names a URL that different readers take for different hosts")
@pytest.mark.parametrize("url", ODD_URLS)
def test_odd_url(url: str) -> None:
    record = {"format": "cloudevents", "event_types": ["*"], "states": [], "project_uuid": None}
    with pytest.raises(Invalid) as caught:
        check_webhook({**record, "url": url})
    assert len(caught.value.message) <= 300
    assert "\n" not in caught.value.message


class Inside:
    """A service of the machine at 127.0.0.1 that must hear of nobody, and one of the attacker at
    127.0.0.77 of the same port.
    """

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request as a receiver of webhooks."""
        self.heard.append(writer.get_extra_info("sockname")[0])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()


@asynccontextmanager
async def inside() -> AsyncIterator[Inside]:
    found = Inside()
    first = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = first.sockets[0].getsockname()[1]
    second = await asyncio.start_server(found.serve, "127.0.0.77", found.port)
    async with first, second:
        yield found


def sender(lookup: Any) -> OutsideSender:
    network = OutsideNetwork(
        allowed=("127.0.0.77/32",), key="Webhooks.AllowedNetworks", lookup=lookup
    )
    return OutsideSender(network, Mailer(Mail()), timeout=5.0, clock=lambda: datetime.now(UTC))


@pytest.mark.attack("answers the second look-up of a name with an address of the machine")
async def test_rebinding() -> None:
    asked: list[str] = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.77"] if len(asked) == 1 else ["127.0.0.1"]

    async with inside() as found:
        webhook = {"url": f"http://rebind.example:{found.port}/", "format": "cloudevents"}
        webhook["secret"] = make_secret(b"k" * 32)
        network = sender(lookup)
        answer = await network.send(webhook, EVENT)
        assert (answer.outcome, found.heard) == ("delivered", ["127.0.0.77"])
        answer = await network.send(webhook, EVENT)
        assert (answer.outcome, found.heard) == ("refused", ["127.0.0.77"])


@pytest.mark.attack("keeps every thread of the server busy with names whose servers never answer")
async def test_names_that_are_never_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    release, waiting = threading.Event(), threading.Semaphore(0)

    def hang(host: str, *_: object, **__: object) -> list[Any]:
        waiting.release()
        release.wait(60)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    resolver = NameLookup()
    tasks = [asyncio.create_task(resolver(f"{n}.hang.example", 80)) for n in range(100)]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(lambda: 42) == 42
    finally:
        release.set()
        faults = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in faults} <= {socket.gaierror, Unavailable}
    assert not any(isinstance(one, LadingError) and one.status < 500 for one in faults)


@pytest.mark.attack("takes all places for tests of webhooks with receivers that hang")
async def test_places_of_tests(tmp_path: Path) -> None:
    made = FakeSender()
    async with world(tmp_path, webhook_sender=made) as it:
        mallory, victim = await it.user("mallory"), await it.user("victim")
        made.hanging.add("https://hang.example/")
        uuid = (await hook(it, token=mallory, url="https://hang.example/"))["uuid"]
        theirs = (await hook(it, token=victim))["uuid"]
        tests = [
            asyncio.create_task(it.request("POST", f"webhooks/{uuid}/test", token=mallory))
            for _ in range(20)
        ]
        await made.arrivals.get()
        answer = await it.ok("POST", f"webhooks/{theirs}/test", token=victim)
        made.released.set()
        statuses = sorted([(await one).status for one in tests])
    assert (answer["outcome"], statuses) == ("delivered", [200, *[503] * 19])
