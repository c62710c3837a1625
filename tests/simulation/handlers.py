"""The real API application in the simulation, on a database in memory and on simulated time.

Calls go through the ASGI application: routing, authentication, scopes, handlers, transactions and
events are those of the product. Uuids are counted for each record type, as in the model server.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from lading.api.app import Application
from lading.api.assembly import make_app
from lading.api.bootstrap import FirstTokens
from lading.api.events.event_bus import EventBus
from lading.api.events.listeners import LogEvent
from lading.api.server.identifiers import ApiClock, Identifiers
from lading.api.services import Events
from lading.core.errors import from_status
from lading.core.quantities import format_time
from lading.store import schema
from lading.store.database import Row
from lading.testing.world import MemoryBlocks, call_asgi, make_seal
from tests.simulation.memory_database import MemoryDatabase
from tests.simulation.server import CONFIG, IMAGE_MANIFEST, START, Fields
from tests.simulation.tables import ADMIN_TOKEN, ADMIN_USER, DISPATCHER_TOKENS, PROJECT, token_text

_SECRET: Final = "x" * 50
_LOGS: Final = Path("no-such-directory")


class NumberedIdentifiers(Identifiers):
    """Uuids that are counted for each record type."""

    def __init__(self, clock: ApiClock, entropy: Callable[[int], bytes]) -> None:
        super().__init__(clock, entropy, cluster="zzzzz", root_token=CONFIG.SystemRootToken)
        self._counts: Counter[str] = Counter()

    def new_uuid(self, infix: str) -> str:
        """The next uuid of a record type."""
        self._counts[infix] += 1
        return f"zzzzz-{infix}-{self._counts[infix]:015d}"


class ToldBus(EventBus):
    """A bus that passes each event about a container to `tell` too."""

    def __init__(self, tell: Callable[[LogEvent], None]) -> None:
        super().__init__()
        self._tell = tell

    def publish(self, event: LogEvent) -> None:
        """Tell everybody."""
        super().publish(event)
        if event.object_kind == "arvados#container":
            self._tell(event)


class HandlerServer:
    """The application. `complete` runs a coroutine to its end; `clock` is seconds since START."""

    def __init__(
        self,
        clock: Callable[[], float],
        complete: Callable[[Coroutine[Any, Any, Any]], Any],
        tell: Callable[[LogEvent], None],
    ) -> None:
        self._complete = complete
        self.database = MemoryDatabase(seal=make_seal(), image=_prepared())
        made = make_app(
            self.database,
            CONFIG,
            clock=lambda: START + timedelta(seconds=clock()),
            entropy=Random(7).randbytes,  # a fake: seeded on purpose
            blocks=MemoryBlocks(),
            live=_LOGS,
        )
        services = made.services
        self._app = Application(
            dataclasses.replace(
                services,
                ids=NumberedIdentifiers(services.clock, services.ids.entropy),
                events=Events(ToldBus(tell)),
            )
        )

    def call(
        self,
        token: str,
        method: str,
        path: str,
        body: Fields | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON of an answer. Raises the error of its status."""
        reply = self._complete(
            call_asgi(
                self._app,
                method,
                f"/arvados/v1/{path}",
                query=urlencode(params) if params else "",
                headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
                body=b"" if body is None else msgspec.json.encode(body),
            )
        )
        if reply.status >= 300:
            raise from_status(reply.status, reply.error)
        return reply.json

    def text_of(self, token_uuid: str) -> str:
        """A token of a container as its holder sends it."""
        return f"v2/{token_uuid}/{self._app.services.ids.container_secret(token_uuid)}"

    def rows(self, sql: str) -> list[Row]:
        """What is stored."""
        return self.database.rows(sql)

    def close(self) -> None:
        """Drop the database."""
        self._complete(self.database.close())


@cache
def _prepared() -> bytes:
    """Image of a database with first records, both dispatchers' tokens and a container image."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_prepare())
    finally:
        loop.close()


async def _prepare() -> bytes:
    database = MemoryDatabase(seal=make_seal())
    await schema.prepare(database, now=format_time(START))
    app = make_app(
        database,
        CONFIG,
        clock=lambda: START,
        entropy=Random(11).randbytes,  # a fake: seeded on purpose
        blocks=MemoryBlocks(),
        live=_LOGS,
    )
    for token in DISPATCHER_TOKENS:
        first = FirstTokens(
            admin_uuid=ADMIN_USER,
            admin_token_uuid=ADMIN_TOKEN,
            admin_secret=_SECRET,
            dispatch_token_uuid=token,
            dispatch_secret=_SECRET,
        )
        await app.bootstrap(first)
    image = {"collection": {"manifest_text": IMAGE_MANIFEST}}
    project = {"group": {"uuid": PROJECT, "group_class": "project", "name": "project"}}
    headers = {
        "authorization": f"Bearer {token_text(ADMIN_TOKEN)}",
        "content-type": "application/json",
    }
    for plural, body in (("collections", image), ("groups", project)):
        path, sent = f"/arvados/v1/{plural}", msgspec.json.encode(body)
        reply = await call_asgi(app, "POST", path, headers=headers, body=sent)
        assert reply.status == 200, reply.body
    found = database.dump()
    await database.close()
    return found
