"""Results of a container: output and log that its supervisor sends with the report of its end.

    POST containers/{uuid}/finish
        {"container": attributes as in PUT, "collections": {"output": manifest, "log": manifest},
        "blocks": [base64]}

The whole call is carried out, or nothing of it. A supervisor that stored the blocks, then two
collections, then reported the end would need half a dozen calls, each with a durable write.
`blocks` are those that the manifests name without a signature; they are stored before the record is
changed. The collections are made with the rights of the container's own token, and become `output`
and `log` of the record. Those whose content no collection of a request has are stored in the trash,
as those of `supervisor.session` are. When the call is
refused, the supervisor takes the same steps one by one, and learns which of them fails.

`save_spooled` saves the live log of a container whose supervisor is lost.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from lading.api.container_access import gateway_logs
from lading.api.container_access.log_spool import Spool
from lading.api.http import ApiCall, ApiResponse
from lading.api.logins.authentication import authenticate
from lading.api.manifests import Splicing, confirm_classes, read_content
from lading.api.resources import generic
from lading.api.resources.container_changes import (
    auth_token,
    caller_of,
    find_container,
    output_readable,
    store_change,
)
from lading.api.server.blocks import Blocks
from lading.api.transaction import UnitOfWork
from lading.client.files.collections import CollectionWriter
from lading.core.containers import lifecycle
from lading.core.containers.container import FINAL, HELD, Container, ContainerState
from lading.core.containers.writers import HOLDERS, Role, role_of
from lading.core.errors import Forbidden, Invalid, LadingError, Malformed, TooLarge, Unauthenticated
from lading.core.records import access
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import JSON, Record
from lading.process.concurrency import in_thread
from lading.process.telemetry import event
from lading.store import records

# Characters of all blocks in one call. The call is held in memory as a whole; larger results are
# stored block by block before the end is reported.
MOST_BYTES: Final = 1 << 18
_NAMES: Final = {"output": "output", "log": "logs"}
# Bytes of a block of a saved log.
_PACK: Final = 8 << 20
# Seconds for the copy of a log from another server: the end of a container does not wait longer.
_COPY_LIMIT: Final = 30.0
_logger = logging.getLogger("lading.api")


async def finish_container(call: ApiCall) -> ApiResponse:
    """Store output and log, and the final state (for the container's supervisor)."""
    services = call.services
    attributes, manifests, data = (
        call.attributes(CONTAINERS),
        _manifests(call),
        _blocks(call.params.get("blocks")),
    )
    _check_end(attributes)
    async with services.database.reading() as tx:
        container = Container.from_record(await find_container(tx, call))
    if role_of(container, caller_of(call)) not in HOLDERS:
        raise Forbidden("Forbidden: the end of a container is reported by its supervisor")
    own = await as_container(call, container)
    classes = container.output_storage_classes
    stored_locators = frozenset(
        await asyncio.gather(*(services.blocks.keep(block, classes) for block in data))
    )
    collections = {
        name: await make_collection(own, container, name, manifest_text, stored_locators)
        for name, manifest_text in manifests.items()
    }
    async with services.database.writing() as tx:
        row = await find_container(tx, call)
        unit = UnitOfWork(tx, services, user_uuid=call.caller.user_uuid)
        unit.results = tuple(collections.values())
        hashes = {name: record["portable_data_hash"] for name, record in collections.items()}
        container = Container.from_record(row)
        change = lifecycle.update(
            container,
            {**attributes, **hashes},
            caller=caller_of(call),
            now=services.clock.now(),
            # One that was made above is its user's own.
            output_readable="output" in collections
            or await output_readable(tx, call, container, attributes),
        )
        row = await store_change(tx, call, row, change, unit)
        # What the collections of requests keep needs none of its own in the trash.
        for record in unit.results:
            await generic.insert(tx, own, COLLECTIONS, record)
    return ApiResponse(body={"uuid": row["uuid"], "state": row["state"]})


def _check_end(attributes: Record) -> None:
    """Refuse a call that reports no end, or names results by hash: whether its user can read those
    would have to be looked up. Raises Invalid.
    """
    if attributes.get("state") not in FINAL:
        raise Invalid(f"state: must be one of {', '.join(sorted(FINAL))}, as this is the end")
    for name in _NAMES:
        if name in attributes:
            raise Invalid(f"{name}: send its manifest in collections")


async def as_container(call: ApiCall, container: Container) -> ApiCall:
    """The same call with the container's own token. Raises as `authenticate` and
    `access.check_scope` do.
    """
    uuid, secret = auth_token(call, container)
    principal = await authenticate(call.services, f"v2/{uuid}/{secret}/{container.uuid}")
    if principal is None:
        raise Unauthenticated
    # A supervisor on a hostile machine must not store what its user could not.
    access.check_scope(principal, "POST", "/arvados/v1/collections")
    access.check_active(principal)
    return replace(call, principal=principal)


async def make_collection(
    own: ApiCall,
    container: Container,
    name: str,
    manifest_text: str,
    stored_locators: frozenset[str],
) -> Record:
    """The record of a collection of results (`output` or `log`), made with the rights of the
    container's own token.
    """
    attributes: Record = {
        "manifest_text": manifest_text,
        "name": f"{_NAMES[name]} for {container.uuid}",
        # As the collections of the request have it: lists of the user's data leave them out.
        "properties": {"type": name, "container_uuid": container.uuid},
        # In the trash at once: the collection keeps the blocks until the request's own collections
        # name them.
        "is_trashed": True,
    }
    content = await read_content(own, attributes, None, Splicing({}), sent_locators=stored_locators)
    record = generic.new_record(own, COLLECTIONS, {**attributes, **content})
    record["current_version_uuid"] = record["uuid"]
    # As the collections of the request will ask for it: the blocks are in these classes from now.
    record["storage_classes_desired"] = list(
        container.output_storage_classes or own.services.policy.default_storage_classes
    )
    record |= await confirm_classes(own.services.clock, own.services.blocks, record)
    return record | generic.trash_times(
        own.services.clock, own.services.config, {**COLLECTIONS.defaults}, attributes
    )


def _manifests(call: ApiCall) -> Mapping[str, str]:
    sent = call.params.get("collections")
    if not isinstance(sent, dict) or not all(
        isinstance(manifest, str) for manifest in sent.values()
    ):
        raise Malformed("collections: must be an object of manifests")
    if unknown := sorted(sent.keys() - _NAMES.keys()):
        raise Malformed(f"collections.{unknown[0][:40]}: must be one of {', '.join(_NAMES)}")
    return sent


def _blocks(sent: JSON) -> list[bytes]:
    if sent is None:
        return []
    if not isinstance(sent, list) or not all(isinstance(encoded, str) for encoded in sent):
        raise Malformed("blocks: must be a list of base64 texts")
    if sum(map(len, sent)) > MOST_BYTES:
        raise TooLarge(
            f"blocks: more than {MOST_BYTES} characters; store blocks of this size by themselves"
        )
    try:
        return [base64.b64decode(encoded, validate=True) for encoded in sent]
    except binascii.Error as error:
        raise Malformed(f"blocks: not base64: {error}") from None


async def save_spooled(
    call: ApiCall, container: Container, attributes: Record, *, is_lost: bool = False
) -> tuple[ApiCall, Record] | None:
    """The collection of the live log of a container that its dispatcher cancels without a log, and
    the call to insert it with. `is_lost`: the system cancels it, as it has no dispatcher any more.

    Its blocks are stored, the record is not. None if there is no live log, or if it cannot be
    saved: the end of a container does not wait for a disk.
    """
    spool, uuid = call.services.access.spool, container.uuid
    has_log = attributes.get("log") is not None or container.log is not None
    if (
        attributes.get("state") != ContainerState.CANCELLED
        or container.state not in HELD
        or has_log
    ):
        return None
    # A dispatcher saves the log only where the supervisor cannot do it any more.
    if not is_lost and role_of(container, caller_of(call)) is not Role.HOLDER:
        return None
    await _copy_posted(call, container)
    if not spool.names(uuid):
        return None
    sink = _Sink(call.services.blocks, container.output_storage_classes, set())
    try:
        manifest_text = await _store_spool(spool, uuid, sink)
        own = await as_container(call, container)
        return own, await make_collection(
            own, container, "log", manifest_text, frozenset(sink.locators)
        )
    except (LadingError, OSError) as error:
        event(_logger, "live log not saved", container=uuid, why=error)
        return None


async def _copy_posted(call: ApiCall, container: Container) -> None:
    """Copy here what the supervisor has posted to another server; what cannot be copied is
    missing.
    """
    async with call.services.database.reading() as tx:
        rows = await records.matching(tx, REQUESTS, container_uuid=container.uuid)
    if not rows:
        return
    try:
        async with asyncio.timeout(_COPY_LIMIT):
            await gateway_logs.copy_posted(replace(call, uuid=rows[0]["uuid"]), container)
    except (LadingError, OSError, TimeoutError) as error:
        event(_logger, "live log not copied", container=container.uuid, why=error)


async def _store_spool(spool: Spool, uuid: str, sink: _Sink) -> str:
    """Store the live log of a container; its manifest. Raises OSError, and as `Blocks.keep`."""
    with ExitStack() as opened:
        async with CollectionWriter(sink, pack=_PACK) as writer:
            for name in spool.names(uuid):
                file = spool.open(uuid, name)
                if file is not None:
                    await writer.add_open_file(name, opened.enter_context(file).fileno())
            return await writer.finish()


@dataclass(frozen=True, slots=True)
class _Sink:
    """Stores the blocks of a log."""

    blocks: Blocks
    classes: Sequence[str]
    locators: set[str]

    async def put(self, data: bytes | bytearray) -> str:
        """Store a block; its locator without signature."""
        locator = await self.blocks.keep(bytes(data), self.classes)
        self.locators.add(locator)
        return locator

    async def put_part(self, descriptor: int, start: int, length: int, /) -> str:
        """Store a part of a file."""
        return await self.put(await in_thread(lambda *_: os.pread(descriptor, length, start)))


HANDLERS: Final = {"containers.finish": finish_container}
