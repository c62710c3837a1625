"""Workflow definitions, stored for workflow engines (docs/spec/api, section Other records).

A definition is YAML or JSON with a mapping at its top. It is only read event by event, never
constructed, so that a small text cannot become a large value. A name or description that is blank,
or equal to the one in the old definition, is taken from the new definition, unless the same call
sets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import yaml

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import check_match, show
from lading.core.errors import Invalid
from lading.core.records.record_types import WORKFLOWS
from lading.core.records.schema import JSON, Record
from lading.core.values import MAX_DEPTH

# Characters from which a definition is read in a thread.
LARGE: Final = 1 << 16
_FOLLOWS: Final = ("name", "description")
_NO_MAPPING: Final = "definition: must be one YAML or JSON document with a mapping at its top"
_TEXT: Final = "tag:yaml.org,2002:str"


async def list_workflows(call: ApiCall) -> ApiResponse:
    """A page of workflows."""
    return await generic.list_records(call, WORKFLOWS)


async def get_workflow(call: ApiCall) -> ApiResponse:
    """One workflow."""
    return await generic.get_record(call, WORKFLOWS)


async def create_workflow(call: ApiCall) -> ApiResponse:
    """A new workflow."""
    given = generic.check_attributes(call, WORKFLOWS, None)
    record = generic.new_record(call, WORKFLOWS, given)
    record |= await _follow(WORKFLOWS.defaults, given)
    async with call.services.database.writing() as tx:
        await authorization.check_owner(tx, call, record["owner_uuid"])
        await generic.insert(tx, call, WORKFLOWS, record)
    return ApiResponse(body=show(WORKFLOWS, record))


async def update_workflow(call: ApiCall) -> ApiResponse:
    """Change a workflow."""
    services = call.services
    async with services.database.reading() as tx:
        seen = await authorization.find_readable(
            tx, services.clock, services.config, WORKFLOWS, call.uuid, call.caller
        )
    given = generic.check_attributes(call, WORKFLOWS, seen)
    changes = {**given, **await _follow(seen, given)}
    async with services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, services.clock, services.config, WORKFLOWS, call.uuid, call.caller
        )
        await authorization.check_writable(tx, WORKFLOWS, old, call.caller)
        check_match(call, old)
        if changes.get("owner_uuid", old["owner_uuid"]) != old["owner_uuid"]:
            await authorization.check_owner(tx, call, changes["owner_uuid"], old=old["owner_uuid"])
        new = await generic.apply(
            tx, services, WORKFLOWS, old, changes, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body=show(WORKFLOWS, new))


async def delete_workflow(call: ApiCall) -> ApiResponse:
    """Remove a workflow."""
    return await generic.delete_record(call, WORKFLOWS)


async def _follow(old: Record, attributes: Record) -> Record:
    """Name and description, taken from the definition where they follow it. Raises Invalid when the
    definition is not a mapping.
    """
    if attributes.get("collection_uuid") is not None:
        raise Invalid("Collection uuid must be null")
    if "definition" not in attributes:
        return {}
    before = await _headings(old["definition"], strict=False)
    after = await _headings(attributes["definition"], strict=True)
    return {
        name: after.get(name)
        for name in _FOLLOWS
        if attributes.get(name, old[name]) == old[name]
        and (not old[name] or old[name] == before.get(name))
    }


async def _headings(definition: JSON, *, strict: bool) -> Record:
    if not definition:
        return {}
    try:
        if len(definition) > LARGE:
            return await asyncio.to_thread(_read, definition)
        return _read(definition)
    except Invalid:
        if strict:
            raise
        return {}


def _read(definition: str) -> Record:
    """The texts at the top of a definition. Raises Invalid."""
    try:
        return _top(yaml.parse(definition, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError) as error:
        raise Invalid(f"definition: not YAML: {' '.join(str(error).split())[:200]}") from None


def _top(events: Iterator[yaml.Event]) -> Record:
    # Keys and values in turns: each text, and None for anything else.
    texts = [_text(event) for event in _members(events)]
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return {key: value for key, value in pairs if key is not None and value is not None}


def _members(events: Iterator[yaml.Event]) -> Iterator[yaml.NodeEvent]:
    """The beginnings of keys and values of the mapping at the top of the only document. Raises
    Invalid for anything else, and for a document that is nested too deep.
    """
    depth = documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            if depth == 0 and not isinstance(event, yaml.MappingStartEvent):
                raise Invalid(_NO_MAPPING)
            if depth == 1:
                yield event
            depth += isinstance(event, yaml.CollectionStartEvent)
            # An event is small, a tree is not: deep definitions end here, before one is built.
            if depth > MAX_DEPTH:
                raise Invalid(f"definition: more than {MAX_DEPTH} mappings and lists in each other")
    if documents != 1:
        raise Invalid(_NO_MAPPING)


def _text(event: yaml.NodeEvent) -> str | None:
    """The value of a scalar if it is a text, and neither a number nor a date."""
    if not isinstance(event, yaml.ScalarEvent):
        return None
    resolver = yaml.resolver.Resolver()
    tag = event.tag or resolver.resolve(  # type: ignore[no-untyped-call]
        yaml.ScalarNode,
        event.value,
        event.implicit,
    )
    return str(event.value) if tag == _TEXT else None


HANDLERS: Final = {
    "workflows.list": list_workflows,
    "workflows.get": get_workflow,
    "workflows.create": create_workflow,
    "workflows.update": update_workflow,
    "workflows.delete": delete_workflow,
}
