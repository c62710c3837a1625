"""The end of a container in one call: its output, its log and the final state, all of it or
nothing.

    POST containers/{uuid}/finish
        {"container": attributes as in PUT, "collections": {"output": manifest, "log": manifest},
        "blocks": [base64]}

Small results come with the call: a supervisor that stored the blocks, then two collections, then
reported the end would make half a dozen round trips, each with a write that has to be durable.
`blocks` are those that the manifests name without a signature; they are kept before anything is
written to the record. The collections are made as the container's own token would make them, in the
trash as those of `supervisor.session`, and become `output` and `log` of the record. Whatever is
wrong refuses the whole call: the supervisor then does it step by step, and learns what it was.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lading.api.authentication import authenticate
from lading.api.http import Answer, Call
from lading.api.manifests import Splicing, read_content
from lading.api.resources import generic
from lading.api.resources.collections import trash_times
from lading.api.resources.containers import auth_token, caller_of, carry_out, find_container
from lading.core.containers import lifecycle, write_permissions
from lading.core.containers.container import FINAL, Container
from lading.core.errors import Forbidden, Invalid, Malformed, TooLarge, Unauthenticated
from lading.core.records import access
from lading.core.records.record_types import COLLECTIONS, CONTAINERS
from lading.core.records.schema import JSON, Record

MOST_BYTES: Final = 1 << 18
_NAMES: Final = {"output": "output", "log": "logs"}


async def finish_container(call: Call) -> Answer:
    """Keep output and log, and take the report of the end (supervisor)."""
    services = call.services
    given, manifests, data = (
        call.attributes(CONTAINERS),
        _manifests(call),
        _blocks(call.params.get("blocks")),
    )
    _check_end(given)
    async with services.database.reading() as tx:
        container = Container.from_record(await find_container(tx, call))
    if write_permissions.role_of(container, caller_of(call)) not in (
        write_permissions.Role.SUPERVISOR,
        write_permissions.Role.HOLDER,
    ):
        raise Forbidden("Forbidden: the end of a container is reported by its supervisor")
    own = await as_container(call, container)
    kept = frozenset(await asyncio.gather(*map(services.blocks.keep, data)))
    made = {
        name: await make_collection(own, container, name, text, kept)
        for name, text in manifests.items()
    }
    async with services.database.writing() as tx:
        row = await find_container(tx, call)
        for record in made.values():
            await generic.insert(tx, own, COLLECTIONS, record)
        hashes = {name: record["portable_data_hash"] for name, record in made.items()}
        change = lifecycle.update(
            Container.from_record(row),
            {**given, **hashes},
            caller=caller_of(call),
            now=services.now(),
        )
        row = await carry_out(tx, call, row, change)
    return Answer(body={"uuid": row["uuid"], "state": row["state"]})


def _check_end(given: Record) -> None:
    """Refuse all but an end, and results that did not come with the call: whose they are would have
    to be asked.
    """
    if given.get("state") not in FINAL:
        raise Invalid(f"state: must be one of {', '.join(sorted(FINAL))}, as this is the end")
    for name in _NAMES:
        if name in given:
            raise Invalid(f"{name}: send its manifest in collections")


async def as_container(call: Call, container: Container) -> Call:
    """The call as the container's own token would make it. Raises what that would raise."""
    uuid, secret = auth_token(call, container)
    principal = await authenticate(call.services, f"v2/{uuid}/{secret}/{container.uuid}")
    if principal is None:
        raise Unauthenticated
    access.check_scope(principal, "POST", "/arvados/v1/collections")
    access.check_active(principal)
    return replace(call, principal=principal)


async def make_collection(
    own: Call, container: Container, name: str, text: str, kept: frozenset[str]
) -> Record:
    """The record of a collection of results (`output` or `log`), made as the container's own token
    would.
    """
    given: Record = {
        "manifest_text": text,
        "name": f"{_NAMES[name]} for {container.uuid}",
        "is_trashed": True,
    }
    content = await read_content(own, given, None, Splicing({}), kept=kept)
    record = generic.new_record(own, COLLECTIONS, {**given, **content})
    record["current_version_uuid"] = record["uuid"]
    record["storage_classes_desired"] = list(own.services.policy.default_storage_classes)
    return record | trash_times(own.services, {**COLLECTIONS.defaults}, given)


def _manifests(call: Call) -> Mapping[str, str]:
    given = call.params.get("collections")
    if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
        raise Malformed("collections: must be an object of manifests")
    if unknown := sorted(given.keys() - _NAMES.keys()):
        raise Malformed(f"collections.{unknown[0][:40]}: must be one of {', '.join(_NAMES)}")
    return given


def _blocks(given: JSON) -> list[bytes]:
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise Malformed("blocks: must be a list of base64 texts")
    if sum(map(len, given)) > MOST_BYTES:
        raise TooLarge(
            f"blocks: more than {MOST_BYTES} characters; store blocks of this size by themselves"
        )
    try:
        return [base64.b64decode(one, validate=True) for one in given]
    except binascii.Error as error:
        raise Malformed(f"blocks: not base64: {error}") from None


HANDLERS: Final = {"containers.finish": finish_container}
