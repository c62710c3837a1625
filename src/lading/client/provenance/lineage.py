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
    container_uuid = request["container_uuid"]
    container = await api.get("containers", container_uuid) if container_uuid else None
    made_of = container or request
    earlier: Record = {}
    later: Record = {}
    output = (container or {}).get("output")
    is_whole = True
    if output:
        is_whole = await _both_ways(api, output, earlier, later)
    if not earlier:
        for pdh in list(dict.fromkeys(_inputs(made_of)))[:_MOST_INPUTS]:
            is_whole &= await _follow(api, pdh, "provenance", earlier)
    start = container_uuid or request["uuid"]
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
    if container_uuid:
        await _add_steps(api, drawn, str(container_uuid))
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
    """Add the origins and the uses of a content; return whether all are there."""
    async with asyncio.TaskGroup() as group:
        before = group.create_task(_follow(api, pdh, "provenance", earlier))
        after = group.create_task(_follow(api, pdh, "used_by", later))
    return before.result() and after.result()


def _note_records(drawn: Lineage, records: Mapping[str, Any]) -> None:
    drawn.containers = {
        key: record for key, record in records.items() if _infix(key) == Infix.CONTAINER
    }
    drawn.requests = {
        record["container_uuid"]: record
        for key, record in records.items()
        if _infix(key) == Infix.REQUEST
    }


async def _follow(api: ApiClient, pdh: str, way: str, records: Record) -> bool:
    """Add the records that a content came from, or that used it; return whether all are there."""
    try:
        try:
            answer = await api.action("collections", pdh, way, method="GET", brief=True)
            records |= answer["records"]
            return bool(answer["complete"])
        # A token of limited scopes gets whole records, one by one.
        except Forbidden:
            records |= await api.action("collections", pdh, way, method="GET")
            return sum(_infix(key) == Infix.CONTAINER for key in records) < _MOST_CONTAINERS
    except LadingError as error:
        # The record may be in the trash, or not readable. A busy server is an error.
        if error.status not in (403, 404):
            raise
    return True


def _add_nodes(drawn: Lineage, records: Mapping[str, Any], chosen: Mapping[str, Record]) -> None:
    """`chosen`: the request that stands for a node, by the node's key; for others it is any."""
    requests = {
        record["container_uuid"]: record
        for key, record in records.items()
        if _infix(key) == Infix.REQUEST
    }
    requests |= chosen
    containers = {
        key: record
        for key, record in records.items()
        if key in chosen or _infix(key) == Infix.CONTAINER
    }
    producers: dict[str, str] = {}
    for key, record in containers.items():
        node = _request_node(key, requests.get(key), record)
        drawn.add(node)
        if record.get("output"):
            producers.setdefault(record["output"], node.name)
    images = {record["container_image"] for record in containers.values()}
    for key, record in records.items():
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
    own_container = container if request["container_uuid"] else None
    reused = own_container is not None and is_reused(request, own_container)
    return LineageNode(
        key=key,
        kind="request",
        # A brief request has no command; that of its container is the same.
        name=request["name"] or shown_command(container),
        state=shown_state(RequestOutcome(request, own_container)) + (REUSED if reused else ""),
        api_state=state_of(request, own_container),
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
    api: ApiClient, drawn: Lineage, request: Record, records: Mapping[str, Any]
) -> None:
    """Link the request to the requests it needs, and to the request whose container made it."""
    parent, needed_uuids = (
        request["requesting_container_uuid"],
        list(dict.fromkeys(needed(request))),
    )
    conditions = [[["uuid", "in", needed_uuids]]] if needed_uuids else []
    if parent:
        conditions.append([["container_uuid", "=", parent]])
    near: dict[str, Record] = {}
    for filters in conditions:
        listed = await api.list("container_requests", filters=filters, limit=len(needed_uuids) + 1)
        near |= {row["uuid"]: row for row in listed}
    keys = {}
    for uuid, row in near.items():
        keys[uuid] = row["container_uuid"] or uuid
        keys.setdefault(row["container_uuid"], keys[uuid])
        if keys[uuid] in records:
            continue
        container_uuid = row["container_uuid"]
        container = await api.get("containers", container_uuid) if container_uuid else row
        drawn.add(_request_node(keys[uuid], row, container))
    for uuid in (*needed_uuids, *([parent] if parent else ())):
        if keys.get(uuid, uuid) != drawn.start:
            drawn.link(keys.get(uuid, uuid), drawn.start, "request")


async def link_needs(api: ApiClient, drawn: Lineage) -> None:
    """Link the requests of a lineage to each other where a request depends on another. In a
    pipeline whose steps read no files of each other, nothing else shows the order.
    """
    keys = {str(row["uuid"]): key for key, row in drawn.requests.items() if key in drawn.nodes}
    needs: dict[str, list[str]] = {}
    fields = ("uuid", "depends_on", "mounts")
    for row in await _listed(api, sorted(keys)[:_MOST_LINKED], fields):
        needs[row["uuid"]] = list(needed(row))
    # A request that is reused stands for its container under the uuid of another request.
    others = {uuid for uuids in needs.values() for uuid in uuids} - keys.keys()
    for row in await _listed(api, sorted(others)[:_MOST_LINKED], ("uuid", "container_uuid")):
        keys[row["uuid"]] = row["container_uuid"] or row["uuid"]
    drawn_edges = set(drawn.edges)
    for uuid, needed_uuids in needs.items():
        for first in dict.fromkeys(keys.get(need, need) for need in needed_uuids):
            edge = (first, keys[uuid])
            if first in drawn.nodes and first != keys[uuid] and edge not in drawn_edges:
                drawn.link(*edge, "request")


async def _listed(api: ApiClient, uuids: list[str], fields: tuple[str, ...]) -> list[Record]:
    """These attributes of requests that the reader may see."""
    listed: list[Record] = []
    for start in range(0, len(uuids), _IN_ONE_CALL):
        page = uuids[start : start + _IN_ONE_CALL]
        filters = [["uuid", "in", page]]
        listed += await api.list(
            "container_requests", filters=filters, select=fields, limit=len(page)
        )
    return listed


async def _add_steps(api: ApiClient, drawn: Lineage, container_uuid: str) -> None:
    """Link a request to the steps that its container has made, as a workflow's runner does."""
    steps = await api.list(
        "container_requests",
        filters=[["requesting_container_uuid", "=", container_uuid]],
        order=["created_at asc"],
        limit=_MOST_STEPS + 1,
    )
    if len(steps) > _MOST_STEPS:
        drawn.is_cut = True
    uuids = [str(step["container_uuid"]) for step in steps if step["container_uuid"]]
    filters = [["uuid", "in", uuids]]
    rows = await api.list("containers", filters=filters, limit=len(uuids)) if uuids else []
    containers = {row["uuid"]: row for row in rows}
    for step in steps[:_MOST_STEPS]:
        key = step["container_uuid"] or step["uuid"]
        drawn.add(_request_node(key, step, containers.get(key, step)))
        drawn.requests.setdefault(key, step)
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
