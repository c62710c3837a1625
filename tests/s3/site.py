"""The API, the blocks and the servers of files as one application in this process, with signed
calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lading.api.container_access.port_addresses import PortAddresses
from lading.api.logins.s3_keys import find_s3_secret
from lading.client.transport import Response, Transport
from lading.core.s3.xml_documents import XmlElement, parse_document
from lading.core.tes.locations import Location, LocationScheme
from lading.core.tes.s3_requests import AccessKey, sign
from lading.fileserving.services import make_file_services
from lading.s3.app import make_app
from lading.s3.hosts import BucketHosts
from lading.store.database import Database
from lading.testing.asgi import AsgiTransport
from lading.wiring.applications.file_servers import OwnedCalls
from lading.wiring.server import combine
from tests.webdav import site as files_site

HOST = "testserver"
Query = Sequence[tuple[str, str]]


@dataclass(slots=True, kw_only=True)
class S3Site:
    """A site with a key of its admin."""

    files: files_site.Site
    transport: Transport
    key: AccessKey

    async def call(
        self,
        method: str,
        path: str,
        query: Query = (),
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        key: AccessKey | None = None,
    ) -> Response:
        """One signed exchange below /s3."""
        pairs = "&".join(f"{quote(name, '')}={quote(value, '')}" for name, value in sorted(query))
        location = Location(
            scheme=LocationScheme.HTTPS,
            host=HOST,
            port=443,
            path="/s3" + quote(path, "/~"),
            query=f"?{pairs}" if pairs else "",
        )
        signed = sign(
            method,
            location,
            {**(headers or {}), "content-length": str(len(body))},
            key=key or self.key,
            region="us-east-1",
            moment=f"{self.files.world.clock():%Y%m%dT%H%M%SZ}",
            payload=hashlib.sha256(body).hexdigest(),
        )
        return await self.send(method, location.path + location.query, signed, body)

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        """One exchange as it is given."""
        sent = {"host": HOST, **headers}
        async with self.transport.stream(method, target, headers=sent, body=body) as answer:
            return Response(answer.status, answer.headers, await answer.read())

    async def new_key(self, token: str | None = None, **attributes: Any) -> AccessKey:
        """A key of S3 of a token's user."""
        made = await self.files.world.ok(
            "POST",
            "api_client_authorizations",
            {"is_s3_key": True, **attributes},
            token=token or self.files.world.admin,
        )
        return AccessKey(key_id=made["uuid"], secret=made["api_token"])


def texts(element: XmlElement, *path: str) -> list[str]:
    """The texts of all elements at a path below an element."""
    if not path:
        return [element.content]
    return [
        text
        for child in element.children
        if child.name == path[0]
        for text in texts(child, *path[1:])
    ]


def parsed(answer: Response, root: str) -> XmlElement:
    """The document of an answer."""
    assert answer.status == 200, answer.body
    return parse_document(answer.body, root)


def code(answer: Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status, parse_document(answer.body, "Error").value("Code")


@asynccontextmanager
async def s3_site(
    root: Path, *, anonymous: str = "", host: str = "", database: Database | None = None
) -> AsyncIterator[S3Site]:
    """A site below an empty directory; `anonymous` is the secret of those who do not sign. Without
    a `database` it is SQLite.
    """
    async with files_site.site(root, anonymous=anonymous, database=database) as files:
        world = files.world
        services = make_file_services(
            files.transport, cache=root / "s3", cache_bytes=1 << 20, anonymous=anonymous
        )
        hosts = BucketHosts(host)
        app = make_app(
            services,
            hosts=hosts,
            find_secret=partial(find_s3_secret, world.app.services),
            clock=world.clock,
            anonymous=anonymous,
        )
        whole = combine(
            world.app, world.app, files.gateway, PortAddresses(), s3=OwnedCalls(app, hosts.owns)
        )
        made = S3Site(
            files=files, transport=AsgiTransport(whole), key=AccessKey(key_id="", secret="")
        )
        made.key = await made.new_key()
        yield made
