"""Objects of DRS servers, whose bytes are elsewhere."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from lading.core.errors import Forbidden, Invalid
from lading.core.tes.locations import parse_location
from lading.net.certificates import load_identity, make_certificate
from lading.net.outside_way import OutsideNetwork
from lading.tes.transfers.drs_server import DrsSource, describe
from lading.tes.transfers.fetching import ObjectFetch
from lading.tes.transfers.http_server import HttpSource
from lading.tes.transfers.outside_http import OutsideHttp
from tests.tes.outside import MeanServer, mean_server
from tests.tes.site import make_rules
from tests.tes.transfers.test_fetching import Blocks

NETWORK = OutsideNetwork(allowed=("127.0.0.0/8",))
OBJECT = "/ga4gh/drs/v1/objects/x"


class Secure:
    """A certificate for 127.0.0.1, the server's context, and one that trusts it."""

    def __init__(self) -> None:
        certificate, key = make_certificate("server", now=datetime.now(UTC), hosts=["127.0.0.1"])
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_identity(self.server, certificate, key)
        self.certificate = certificate

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.certificate)


SECURE = Secure()


@pytest.fixture
async def drs() -> AsyncIterator[MeanServer]:
    async with mean_server(SECURE.server) as made:
        yield made


@pytest.fixture
async def http() -> AsyncIterator[OutsideHttp]:
    async with OutsideHttp(NETWORK, trust=SECURE.trust, timeout=5) as made:
        yield made


def place(drs: MeanServer) -> Any:
    return parse_location(drs.url.replace("https:", "drs:") + "/x")


def add(drs: MeanServer, url: str, **more: Any) -> None:
    way = {"type": "https", "access_url": {"url": url, "headers": ["X-Pass: 1"]}}
    found = {"id": "x", "access_methods": [way], **more}
    drs.add(OBJECT, json.dumps(found).encode())


async def test_the_bytes_of_an_object(drs: MeanServer, http: OutsideHttp) -> None:
    digest = hashlib.sha256(b"abc").hexdigest()
    sums = [{"type": "sha-256", "checksum": digest}]
    add(drs, drs.add("/bytes", b"abc", etag=""), checksums=sums)
    found = await describe(http, place(drs), {"authorization": "Bearer t"})
    assert drs.seen[0][2]["authorization"] == "Bearer t"
    bytes_at = parse_location(found.access.url)
    inner = HttpSource(http, bytes_at, found.access.url, dict(found.access.headers))
    source = DrsSource(found, inner, "drs://host/x")
    received = await ObjectFetch(source, Blocks(), make_rules()).run()
    assert (received.content, received.facts.validator) == (b"abc", f"drs sha256 {digest}")
    assert drs.seen[1][2]["x-pass"] == "1"


async def test_a_way_that_has_to_be_asked_for(drs: MeanServer, http: OutsideHttp) -> None:
    drs.add(OBJECT, b'{"access_methods": [{"type": "s3", "access_id": "one"}]}')
    drs.add(f"{OBJECT}/access/one", b'{"url": "s3://bucket/key"}')
    assert (await describe(http, place(drs), {})).access.url == "s3://bucket/key"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 9000, b'{"access_methods": []}'])
async def test_answers_that_are_no_object(drs: MeanServer, http: OutsideHttp, body: bytes) -> None:
    drs.add(OBJECT, body)
    with pytest.raises(Invalid):
        await describe(http, place(drs), {})


async def test_objects_that_lead_inside(drs: MeanServer, http: OutsideHttp) -> None:
    add(drs, "http://169.254.169.254/latest/meta-data")
    found = await describe(http, place(drs), {})
    source = HttpSource(http, parse_location(found.access.url), found.access.url)
    with pytest.raises(Forbidden):
        async with source.open(0, None):
            pass
