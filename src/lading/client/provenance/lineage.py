"""Origins of a request and uses of its result: requests, collections and images, as far as the
reader may see them. A record that the reader may not see is a node without a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.request_tree import needed
from lading.client.request_states import REUSED, is_reused, shown_command, shown_state, state_of
from lading.core.drawing.folding import LineageNode
from lading.core.errors import Forbidden, LadingError
from lading.core.ids import Infix, infix_of, is_pdh, is_uuid

_MOST_INPUTS: Final = 20
"""Inputs that are followed when there is no output."""
_MOST_CONTAINERS: Final = 1000
"""Containers that the server follows each way for a token of limited scopes."""
_MOST_STEPS: Final = 500
"""Steps of a workflow that are shown beside what they used and made."""
_MOST_LINKED: Final = 2000
"""Requests whose needs are looked up for a drawing."""
_IN_ONE_CALL: Final = 500
_SEALED: Final = "not readable"


# No repr: asyncio writes that of a task's result when it takes its handler of Ctrl-C away.
@dataclass(slots=True, kw_only=True, repr=False)
class Lineage:
    """Nodes by key, and edges from each used node to its user."""

    start: str
    is_cut: bool = False
    """The server followed as many containers as it does in one call, or a workflow has more steps
    than are shown; there are more.
    """
    nodes: dict[str, LineageNode] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    containers: dict[str, Record] = field(default_factory=dict)
    """The containers that were found, by the keys of their nodes."""
    requests: dict[str, Record] = field(default_factory=dict)
    """A request of each, by the same keys."""

    def add(self, node: LineageNode) -> None:
        """Add a node, unless it is there."""
        self.nodes.setdefault(node.key, node)

    def link(self, first: str, second: str, kind: str) -> None:
        """Add an edge; an end that is not there is sealed."""
        for key in (first, second):
            self.add(LineageNode(key=key, kind=kind, name=_SEALED, sealed=True))
        self.edges.append((first, second))


async def find_lineage(api: ApiClient, request: Record) -> Lineage:
    """The lineage of a request and of its result."""
    held = request["container_uuid"]
    container = await api.get("containers", held) if held else None
    made_of = container or request
    earlier: Record = {}
    later: Record = {}
    output = (container or {}).get("output")
    is_whole = True
    if output:
        is_whole = await _both_ways(api, output, earlier, later)
    if not earlier:
        for one in list(dict.fromkeys(_inputs(made_of)))[:_MOST_INPUTS]:
            is_whole &= await _follow(api, one, "provenance", earlier)
    start = held or request["uuid"]
    earlier |= {request["uuid"]: request, start: made_of}
    drawn = Lineage(start=start, is_cut=not is_whole)
    everything = {**later, **earlier}
    _add_nodes(drawn, everything, {start: request})
    for key, record in everything.items():
        if key == start or _infix(key) == Infix.CONTAINER:
            _add_edges(drawn, key, record, sees_inputs=key in earlier)
    _note_records(drawn, everything)
    drawn.requests[start] = request
    await _add_requests(api, drawn, request, everything)
    if held:
        await _add_steps(api, drawn, str(held))
    return drawn


async def find_content_lineage(api: ApiClient, collection: Record) -> Lineage:
    """The lineage of the content of a collection: of its portable data hash."""
    pdh = collection["portable_data_hash"]
    earlier: Record = {}
    later: Record = {}
    is_whole = await _both_ways(api, pdh, earlier, later)
    drawn = Lineage(start=pdh, is_cut=not is_whole)
    everything = {**later, **earlier, pdh: collection}
    _add_nodes(drawn, everything, {})
    for key, record in everything.items():
        if _infix(key) == Infix.CONTAINER:
            _add_edges(drawn, key, record, sees_inputs=key in earlier)
    _note_records(drawn, everything)
    return drawn


async def _both_ways(api: ApiClient, pdh: str, earlier: Record, later: Record) -> bool:
    """Add what a content came from and what used it; whether that is all."""
    async with asyncio.TaskGroup() as group:
        before = group.create_task(_follow(api, pdh, "provenance", earlier))
        after = group.create_task(_follow(api, pdh, "used_by", later))
    return before.result() and after.result()


def _note_records(drawn: Lineage, found: Mapping[str, Any]) -> None:
    drawn.containers = {key: one for key, one in found.items() if _infix(key) == Infix.CONTAINER}
    drawn.requests = {
        one["container_uuid"]: one for key, one in found.items() if _infix(key) == Infix.REQUEST
    }


async def _follow(api: ApiClient, pdh: str, way: str, found: Record) -> bool:
    """Add the records that a content came from, or that used it; whether these are all."""
    try:
        try:
            answer = await api.action("collections", pdh, way, method="GET", brief=True)
            found |= answer["records"]
            return bool(answer["complete"])
        # A token of limited scopes gets whole records, one by one.
        except Forbidden:
            found |= await api.action("collections", pdh, way, method="GET")
            return sum(_infix(key) == Infix.CONTAINER for key in found) < _MOST_CONTAINERS
    except LadingError as error:
        # The record may be in the trash, or not readable. A busy server is an error.
        if error.status not in (403, 404):
            raise
    return True


def _add_nodes(drawn: Lineage, found: Mapping[str, Any], chosen: Mapping[str, Record]) -> None:
    """`chosen`: the request that stands for a node, by the node's key; for others it is any."""
    requests = {
        one["container_uuid"]: one for key, one in found.items() if _infix(key) == Infix.REQUEST
    }
    requests |= chosen
    containers = {
        key: record
        for key, record in found.items()
        if key in chosen or _infix(key) == Infix.CONTAINER
    }
    producers: dict[str, str] = {}
    for key, record in containers.items():
        node = _request_node(key, requests.get(key), record)
        drawn.add(node)
        if record.get("output"):
            producers.setdefault(record["output"], node.name)
    images = {record["container_image"] for record in containers.values()}
    for key, record in found.items():
        if is_pdh(key):
            drawn.add(_content_node(key, record, producers.get(key), is_image=key in images))


def _content_node(pdh: str, record: Record, producer: str | None, *, is_image: bool) -> LineageNode:
    made = f"output of {producer}" if producer is not None else ""
    return LineageNode(
        key=pdh,
        kind="image" if is_image else "collection",
        name=made or record.get("name") or pdh[:12],
    )


def _request_node(key: str, request: Record | None, container: Record) -> LineageNode:
    if request is None:
        return LineageNode(key=key, kind="request", name=shown_command(container))
    held = container if request["container_uuid"] else None
    reused = held is not None and is_reused(request, held)
    return LineageNode(
        key=key,
        kind="request",
        # A brief request has no command; that of its container is the same.
        name=request["name"] or shown_command(container),
        state=shown_state(RequestOutcome(request, held)) + (REUSED if reused else ""),
        api_state=state_of(request, held),
        request_uuid=request["uuid"],
    )


def _add_edges(drawn: Lineage, key: str, record: Record, *, sees_inputs: bool) -> None:
    """`sees_inputs`: all inputs of the container were looked for."""
    image = record["container_image"]
    for pdh in dict.fromkeys(_inputs(record)):
        if sees_inputs or pdh in drawn.nodes:
            drawn.link(pdh, key, "image" if pdh == image else "collection")
    if record.get("output") in drawn.nodes:
        drawn.link(key, record["output"], "collection")


async def _add_requests(
    api: ApiClient, drawn: Lineage, request: Record, found: Mapping[str, Any]
) -> None:
    """Link the request to those that it needs, and to the request whose container made it."""
    parent, wanted = request["requesting_container_uuid"], list(dict.fromkeys(needed(request)))
    conditions = [[["uuid", "in", wanted]]] if wanted else []
    if parent:
        conditions.append([["container_uuid", "=", parent]])
    near: dict[str, Record] = {}
    for filters in conditions:
        listed = await api.list("container_requests", filters=filters, limit=len(wanted) + 1)
        near |= {one["uuid"]: one for one in listed}
    keys = {}
    for uuid, one in near.items():
        keys[uuid] = one["container_uuid"] or uuid
        keys.setdefault(one["container_uuid"], keys[uuid])
        if keys[uuid] in found:
            continue
        held = one["container_uuid"]
        container = await api.get("containers", held) if held else one
        drawn.add(_request_node(keys[uuid], one, container))
    for uuid in (*wanted, *([parent] if parent else ())):
        if keys.get(uuid, uuid) != drawn.start:
            drawn.link(keys.get(uuid, uuid), drawn.start, "request")


async def link_needs(api: ApiClient, drawn: Lineage) -> None:
    """Link the requests of a lineage to each other where one depends on another one: in a pipeline
    of steps whose files are not inputs of each other, nothing else shows their order.
    """
    keys = {str(one["uuid"]): key for key, one in drawn.requests.items() if key in drawn.nodes}
    needs: dict[str, list[str]] = {}
    fields = ("uuid", "depends_on", "mounts")
    for one in await _listed(api, sorted(keys)[:_MOST_LINKED], fields):
        needs[one["uuid"]] = list(needed(one))
    # One that is reused stands for its container under the uuid of another request.
    others = {uuid for one in needs.values() for uuid in one} - keys.keys()
    for one in await _listed(api, sorted(others)[:_MOST_LINKED], ("uuid", "container_uuid")):
        keys[one["uuid"]] = one["container_uuid"] or one["uuid"]
    known = set(drawn.edges)
    for uuid, wanted in needs.items():
        for first in dict.fromkeys(keys.get(need, need) for need in wanted):
            edge = (first, keys[uuid])
            if first in drawn.nodes and first != keys[uuid] and edge not in known:
                drawn.link(*edge, "request")


async def _listed(api: ApiClient, uuids: list[str], fields: tuple[str, ...]) -> list[Record]:
    """These attributes of requests that the reader may see."""
    found: list[Record] = []
    for start in range(0, len(uuids), _IN_ONE_CALL):
        part = uuids[start : start + _IN_ONE_CALL]
        filters = [["uuid", "in", part]]
        found += await api.list(
            "container_requests", filters=filters, select=fields, limit=len(part)
        )
    return found


async def _add_steps(api: ApiClient, drawn: Lineage, held: str) -> None:
    """Link a request to those that its container has made, as a workflow's runner makes steps."""
    steps = await api.list(
        "container_requests",
        filters=[["requesting_container_uuid", "=", held]],
        order=["created_at asc"],
        limit=_MOST_STEPS + 1,
    )
    if len(steps) > _MOST_STEPS:
        drawn.is_cut = True
    uuids = [str(one["container_uuid"]) for one in steps if one["container_uuid"]]
    filters = [["uuid", "in", uuids]]
    rows = await api.list("containers", filters=filters, limit=len(uuids)) if uuids else []
    containers = {one["uuid"]: one for one in rows}
    for one in steps[:_MOST_STEPS]:
        key = one["container_uuid"] or one["uuid"]
        drawn.add(_request_node(key, one, containers.get(key, one)))
        drawn.requests.setdefault(key, one)
        drawn.link(drawn.start, key, "request")


def _inputs(record: Record) -> Iterator[str]:
    if is_pdh(record["container_image"] or ""):
        yield record["container_image"]
    for mount in (record["mounts"] or {}).values():
        pdh = mount.get("portable_data_hash")
        if mount.get("kind") == "collection" and pdh and is_pdh(pdh):
            yield pdh


def _infix(key: str) -> str:
    return infix_of(key) if is_uuid(key) else ""
