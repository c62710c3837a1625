"""The servers of URLs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lading.client.api import ApiClient
from lading.core.errors import Forbidden, Invalid, LadingError
from lading.core.tes.file_roots import FileRoot
from lading.net.outside_way import OutsideNetwork
from lading.tes.transfers.credential_book import CredentialBook
from lading.tes.transfers.drs_server import DrsSource
from lading.tes.transfers.ftp_server import FtpSource, FtpTarget
from lading.tes.transfers.http_server import HttpSource, HttpTarget
from lading.tes.transfers.outside_http import OutsideAnswer, OutsideHttp
from lading.tes.transfers.s3_bucket import S3Source, S3Target
from lading.tes.transfers.servers import Servers
from lading.testing.asgi import AsgiTransport
from tests.tes.site import TaskWorld, make_rules


@pytest.fixture
def servers(it: TaskWorld) -> Servers:
    root = ApiClient(AsgiTransport(it.world.app), it.world.config.SystemRootToken)

    @asynccontextmanager
    async def acting() -> AsyncGenerator[ApiClient]:
        yield ApiClient(AsgiTransport(it.world.app), it.world.admin)

    return Servers(
        http=OutsideHttp(OutsideNetwork()),
        roots=(FileRoot(prefix="/read", directory="/tmp"),),
        names=("ann",),
        credentials=CredentialBook(root, acting, user="u", clock=it.world.clock),
        rules=make_rules(),
        clock=it.world.clock,
    )


async def test_the_name_of_a_file(servers: Servers) -> None:
    for url, name in (("http://h/a/b%20c", "b c"), ("http://h/", "file"), ("http://h/%2e", "file"),
                      ("http://h/a%2Fb", "b"), ("http://h/a%0Ab", "file")):  # fmt: skip
        found = await servers.find_source(url, is_directory=False)
        assert isinstance(found.content, HttpSource)
        assert found.name in (name, "a\nb")


@pytest.mark.parametrize(
    ("url", "error"),
    [("http://h/", Invalid), ("x://h/", Invalid), ("file:///etc", Forbidden)],
)
async def test_directories_that_cannot_be_fetched(
    servers: Servers, url: str, error: type[LadingError]
) -> None:
    with pytest.raises(error):
        await servers.find_source(url, is_directory=True)


async def test_targets(servers: Servers) -> None:
    assert isinstance(await servers.find_target("https://h/a"), HttpTarget)
    with pytest.raises(Forbidden, match="for inputs only"):
        await servers.find_target("/read/a")
    with pytest.raises(Invalid):
        await servers.find_target("drs://h/a")


async def test_servers_of_other_schemes(servers: Servers) -> None:
    for url, kind in (("ftp://h/a", FtpSource), ("s3://b/a", S3Source)):
        found = await servers.find_source(url, is_directory=False)
        assert isinstance(found.content, kind)
    assert isinstance(await servers.find_target("ftp://h/a"), FtpTarget)
    assert isinstance(await servers.find_target("s3://b/a"), S3Target)
    with pytest.raises(Invalid, match="keep is not offered"):
        await servers.find_source("keep:x", is_directory=False)


@pytest.mark.parametrize("url", ["s3://b/k", "ftp://h/k", "http://h/k"])
async def test_where_the_bytes_of_a_drs_object_are(servers: Servers, url: str) -> None:
    """The server is another test's (test_drs_server); here its answer is given."""

    class Answering(OutsideHttp):
        @asynccontextmanager
        async def exchange(self, *_: object, **__: object) -> AsyncGenerator[OutsideAnswer]:
            way = {"type": url.partition(":")[0], "access_url": {"url": url}}

            async def pieces() -> AsyncGenerator[bytes]:
                yield json.dumps({"name": "n", "access_methods": [way]}).encode()

            yield OutsideAnswer(status=200, headers={}, pieces=pieces())

    told = replace(servers, http=Answering(OutsideNetwork()))
    found = await told.find_source("drs://h/x", is_directory=False)
    assert (found.name, isinstance(found.content, DrsSource)) == ("n", True)
