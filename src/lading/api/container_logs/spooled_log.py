"""The log of a container whose supervisor is lost: what its live log had, saved when its dispatcher
ends the record.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from dataclasses import dataclass

from lading.api.completion import as_container, make_collection
from lading.api.http import Call
from lading.api.resources.containers import caller_of
from lading.api.services import Blocks
from lading.client.collections import CollectionWriter
from lading.core.containers.container import HELD, Container, State
from lading.core.containers.write_permissions import Role, role_of
from lading.core.errors import LadingError
from lading.core.records.schema import Record
from lading.telemetry import event
from lading.threads import in_thread

_logger = logging.getLogger("lading.api")
_PACK = 8 << 20


@dataclass(frozen=True, slots=True)
class _Sink:
    """Where the blocks of the log go."""

    blocks: Blocks
    kept: set[str]

    async def put(self, data: bytes | bytearray) -> str:
        """Keep a block; its locator without signature."""
        locator = await self.blocks.keep(bytes(data))
        self.kept.add(locator)
        return locator

    async def put_part(self, descriptor: int, start: int, length: int, /) -> str:
        """Keep a part of a file."""
        return await self.put(await in_thread(lambda *_: os.pread(descriptor, length, start)))


async def save_spooled(
    call: Call, container: Container, given: Record
) -> tuple[Call, Record] | None:
    """The collection of the live log of a container that its dispatcher cancels without a log, and
    who makes it.

    Its blocks are kept; it is still to be stored. None where there is nothing to save, or it cannot
    be saved: the end of the container does not wait for a disk.
    """
    spool, uuid = call.services.spool, container.uuid
    has_log = given.get("log") is not None or container.log is not None
    if given.get("state") != State.CANCELLED or container.state not in HELD or has_log:
        return None
    if role_of(container, caller_of(call)) is not Role.HOLDER or not spool.names(uuid):
        return None
    sink = _Sink(call.services.blocks, set())
    try:
        with ExitStack() as opened:
            async with CollectionWriter(sink, pack=_PACK) as writer:
                for name in spool.names(uuid):
                    file = spool.open(uuid, name)
                    if file is not None:
                        await writer.add_open_file(name, opened.enter_context(file).fileno())
                text = await writer.finish()
        own = await as_container(call, container)
        return own, await make_collection(own, container, "log", text, frozenset(sink.kept))
    except (LadingError, OSError) as error:
        event(_logger, "live log not saved", container=uuid, why=error)
        return None
