"""A whole server in this process: the API, blocks, files, TES, WES and the page as one application,
as `wiring.server` combines them, and those who call it.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lading.api.container_access.port_addresses import make_sites
from lading.blobs.app import make_app as make_blocks
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.transport import Response
from lading.core.records.access import DISPATCHER_SCOPES
from lading.core.records.schema import JSON, Record
from lading.fileserving.services import make_file_services
from lading.testing.asgi import AsgiTransport
from lading.testing.blocks import MemoryVolume
from lading.testing.world import WITH_API, World, world
from lading.web.app import make_app as make_page
from lading.webdav.app import make_app as make_files
from lading.wiring.applications.ga4gh import make_ga4gh
from lading.wiring.server import combine
from tests.api.webhooks.fake_sender import FakeSender
from tests.security.sweep.canaries import Canaries
from tests.web.browsing import Browser

ANONYMOUS: Final = "n" * 50
SETTINGS: Final[Mapping[str, Any]] = {
    "Users": {"AnonymousUserToken": ANONYMOUS},
    "Containers": {"FairShare": {"Enabled": True}, "GitRepositories": ["https://git.example/*"]},
    "Services": {"ContainerWebServices": {"ExternalURL": "https://*.containers.example/"}},
    "API": {"MaxPollHold": 0.0},
}
CALLERS: Final = (
    "stranger", "inactive", "nobody", "anonymous", "scoped", "container", "container with API",
    "supervisor", "dispatcher",
)  # fmt: skip
"""Those who call, but for the victim."""
# Columns that change whenever a token is used.
_VOLATILE: Final = frozenset({"last_used_at", "last_used_by_ip_address"})


@dataclass(frozen=True, slots=True)
class Caller:
    """One who calls; without a token if it is ""."""

    name: str
    token: str


@dataclass(slots=True, kw_only=True)
class SweepSite:
    """The server. `whole` is its application; `canaries` are what the victim has hidden."""

    world: World
    whole: Any
    transport: AsgiTransport
    volume: MemoryVolume
    canaries: Canaries = field(default_factory=Canaries)
    browsers: dict[str, Browser] = field(default_factory=dict)
    form_tokens: dict[str, str] = field(default_factory=dict)

    async def call(
        self, method: str, path: str, token: str, headers: Mapping[str, str], body: bytes
    ) -> Response:
        """One exchange with the server."""
        sent = {"authorization": f"Bearer {token}"} if token else {}
        return await self.transport.request(method, path, headers={**sent, **headers}, body=body)

    async def browser(self, caller: Caller) -> Browser:
        """The browser of a caller, logged in if the page lets the caller in."""
        if caller.name not in self.browsers:
            made = self.browsers[caller.name] = Browser(app=self.whole)
            await made.post("/ui/login", {"token": caller.token})
            self.form_tokens[caller.name] = await made.form_token()
        return self.browsers[caller.name]

    async def store(self, data: bytes) -> str:
        """A block; its locator without signature."""
        locator = self.world.blocks.put(data)
        await self.volume.put(locator[:32], data)
        return locator

    async def collection(self, token: str, files: Mapping[str, bytes], **more: JSON) -> Record:
        """A collection of the holder of a token."""
        for data in files.values():
            await self.store(data)
        return await self.world.collection(files, token=token, **more)


@dataclass(slots=True)
class Watch:
    """The rows of the database that name a hidden thing, compared with those before."""

    canaries: Canaries
    connection: sqlite3.Connection
    version: int = -1
    rows: Counter[tuple[object, ...]] = field(default_factory=Counter)

    def changes(self) -> list[tuple[object, ...]]:
        """The rows that came, went or changed since the last call."""
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        if version == self.version:
            return []
        before, self.version = self.rows, version
        self.rows = Counter(self._rows())
        # In both directions: a row that is changed goes and comes.
        return [*(before - self.rows), *(self.rows - before)]

    def _rows(self) -> list[tuple[object, ...]]:
        tables = self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        found: list[tuple[object, ...]] = []
        for (table,) in tables.fetchall():
            cursor = self.connection.execute(f'SELECT * FROM "{table}"')
            kept = [n for n, one in enumerate(cursor.description) if one[0] not in _VOLATILE]
            for row in cursor:
                values = (table, *(row[n] for n in kept))
                if self.canaries.within(values):
                    found.append(values)
        return found


@asynccontextmanager
async def sweep_site(root: Path) -> AsyncIterator[SweepSite]:
    """A server below an empty directory."""
    async with world(root, webhook_sender=FakeSender(), **SETTINGS) as it:
        volume = MemoryVolume()
        mounts = VolumeSet([VolumeMount(uuid=f"{it.cluster}-nyw5e-{0:015}", volume=volume)])
        blocks = make_blocks(
            mounts, it.config, clock=lambda: it.clock().timestamp(), check_token=it.app.check_token
        )
        sites = make_sites(it.config)
        inner = AsgiTransport(combine(it.app, blocks, blocks, sites))
        services = make_file_services(
            inner, cache=root / "cache", cache_bytes=1 << 20, anonymous=ANONYMOUS
        )
        files = make_files(services, anonymous=ANONYMOUS)
        below = AsgiTransport(combine(it.app, blocks, files, sites))
        page = make_page(
            below,
            directory=root / "page",
            clock=it.clock,
            entropy=random.Random(5).randbytes,  # a fake: seeded on purpose
        )
        ga4gh = make_ga4gh(below, it.config, it.database)
        whole = combine(it.app, blocks, files, sites, ga4gh.app, page)
        transport = AsgiTransport(whole)
        yield SweepSite(world=it, whole=whole, transport=transport, volume=volume)
        await transport.close()


def watch(site: SweepSite) -> Watch:
    """A watch of the database, from now on."""
    found = Watch(site.canaries, sqlite3.connect(site.world.root / "db.sqlite"))
    found.changes()
    return found


async def make_callers(site: SweepSite, scoped: str) -> dict[str, Caller]:
    """`CALLERS` by their names. `scoped`: a token of the victim with few scopes."""
    it = site.world
    stranger = await it.user("stranger")
    inactive = await it.user("inactive")
    who = await it.ok("GET", "users/current", token=inactive)
    plain = await it.submit("sleep", "1", token=stranger)
    with_api = await it.submit("sleep", "2", token=stranger, runtime_constraints=WITH_API)
    other = await it.ok(
        "POST", "api_client_authorizations/create_system_auth", {"scopes": [*DISPATCHER_SCOPES]}
    )
    dispatcher = f"v2/{other['uuid']}/{other['api_token']}"
    own: dict[str, str] = {}
    for name, request in (("plain", plain), ("API", with_api)):
        uuid = request["container_uuid"]
        locked = await it.ok("POST", f"containers/{uuid}/lock", token=dispatcher)
        own[f"supervisor {name}"] = str(locked["supervisor_token"])
        await it.ok(
            "PUT", f"containers/{uuid}", {"state": "Running"}, token=own[f"supervisor {name}"]
        )
        auth = await it.ok("GET", f"containers/{uuid}/auth", token=dispatcher)
        own[f"container {name}"] = f"v2/{auth['uuid']}/{auth['api_token']}"
    await it.ok("PUT", f"users/{who['uuid']}", {"is_active": False})
    tokens = (
        stranger, inactive, "", ANONYMOUS, scoped, own["container plain"], own["container API"],
        own["supervisor plain"], dispatcher,
    )  # fmt: skip
    return {name: Caller(name, token) for name, token in zip(CALLERS, tokens, strict=True)}
