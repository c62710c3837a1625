"""One real server on SQLite with what an attacker meets it with: HTTPS, tokens, hostile
listeners.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from lading.client.api import ApiClient
from lading.client.retry import RetryPolicy
from lading.client.transport import HttpTransport
from lading.core.records.schema import Record
from lading.wiring.directory import DataDirectory, Secrets, ensure_certificate
from lading.wiring.process import READY
from tests.system.cluster import free_address

EMPTY = "d41d8cd98f00b204e9800998ecf8427e+0"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer; header names are in lower case, each with all its values."""

    status: int
    headers: Mapping[str, list[str]]
    text: str


@dataclass(kw_only=True)
class Site:
    """The server, and ways to call it."""

    directory: DataDirectory
    secrets: Secrets
    address: str
    http: aiohttp.ClientSession
    admin: ApiClient
    tokens: dict[str, str] = field(default_factory=dict)

    async def call(
        self,
        method: str,
        path: str,
        *,
        token: str = "",
        data: Any = None,
        json: Any = None,
        **headers: str,
    ) -> Reply:
        """One request over HTTPS; `_` in a header's name stands for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        url = f"https://{self.address}{path}"
        async with self.http.request(
            method, url, headers=sent, data=data, json=json, ssl=False, allow_redirects=False
        ) as answer:
            fields: dict[str, list[str]] = {}
            for name, value in answer.headers.items():
                fields.setdefault(name.lower(), []).append(value)
            return Reply(
                status=answer.status, headers=fields, text=await answer.text(errors="replace")
            )

    async def user(self, name: str) -> str:
        """The token of a user, who is made if need be."""
        if name not in self.tokens:
            given = {"username": name, "email": f"{name}@example.org"}
            user = await self.admin.create("users", given)
            made = await self.admin.create(
                "api_client_authorizations", {"owner_uuid": user["uuid"]}
            )
            self.tokens[name] = f"v2/{made['uuid']}/{made['api_token']}"
        return self.tokens[name]

    async def request(self, token: str, **more: Any) -> Record:
        """A committed request of a user."""
        image = await self.call(
            "POST",
            "/arvados/v1/collections",
            token=token,
            json={"manifest_text": f". {EMPTY} 0:0:sha256:{'0' * 64}.tar\n"},
        )
        spec = {
            "container_image": yaml.safe_load(image.text)["portable_data_hash"],
            "output_path": "/out", "mounts": {"/out": {"kind": "tmp", "capacity": 1}},
            "runtime_constraints": {"vcpus": 1, "ram": 1 << 26}, "priority": 1,
            "state": "Committed", "command": ["true"], "use_existing": False, **more,
        }  # fmt: skip
        made = await self.call("POST", "/arvados/v1/container_requests", token=token, json=spec)
        assert made.status == 200, made.text
        found: Record = yaml.safe_load(made.text)
        return found

    async def lock(self, uuid: str) -> str:
        """Lock a container; the token of its supervisor."""
        return str((await self.admin.action("containers", uuid, "lock"))["supervisor_token"])

    async def write(self, uuid: str, token: str, **changes: Any) -> Reply:
        """Write to a container as its supervisor does from another machine: over TCP."""
        return await self.call("PUT", f"/arvados/v1/containers/{uuid}", token=token, json=changes)


@asynccontextmanager
async def serving(root: Path, **settings: Any) -> AsyncIterator[Site]:
    """A server with these settings, on a directory of its own."""
    directory = DataDirectory(root)
    directory.prepare()
    secrets = directory.secrets(entropy=os.urandom(400))
    ensure_certificate(
        directory.certificate, directory.key, host="127.0.0.1", now=datetime.now(UTC)
    )
    (root / "config.yml").write_text(yaml.safe_dump(settings))
    address = free_address()
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lading.wiring.server", "--data", str(root), "--listen", address,
        "--parent", str(os.getpid()), "--ready-fd", str(writing), pass_fds=[writing],
    )  # fmt: skip
    os.close(writing)
    try:
        assert await asyncio.to_thread(os.read, reading, 4096) == READY
        async with AsyncExitStack() as stack:
            transport = await stack.enter_async_context(HttpTransport(unix_socket=directory.socket))
            jar = aiohttp.DummyCookieJar()
            http = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
            admin = ApiClient(transport, secrets.admin_token, retry=RetryPolicy(attempts=1))
            yield Site(
                directory=directory, secrets=secrets, address=address, http=http, admin=admin
            )
    finally:
        os.close(reading)
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def trap(certificate: Path, key: Path) -> AsyncIterator[tuple[int, bytearray]]:
    """A hostile TLS listener that keeps every byte it is told: its port and those bytes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(0.4):
                while data := await reader.read(65536):
                    heard.extend(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
