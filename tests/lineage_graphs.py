"""Large graphs of provenance, written into the database of a world: steps that nobody has run."""

from __future__ import annotations

import hashlib
import random
from typing import NamedTuple

from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.record_types import COLLECTIONS
from lading.core.records.schema import JSON, Record
from lading.store import records
from lading.store.containers import lineage
from lading.store.database import Transaction
from lading.testing.world import World

_NEAR = 200
"""A step reads what two of so many earlier ones have made."""
_ENDS = 100
"""The last step reads what so many before it have made."""


class Graph(NamedTuple):
    """The last step of a graph, and what it has made."""

    request: str
    pdh: str


async def fill_graph(it: World, steps: int, *, mark: str = "b") -> Graph:
    """A graph of `steps` steps with an output each; all led to the last one. `mark`: a letter that
    tells it from others in the same world.
    """
    request = await it.submit(f"step {mark}", use_existing=False)
    made = await it.collection({"x": b"x"})
    await it.run(request["container_uuid"], output=made["portable_data_hash"])
    outputs: list[str] = []
    draw = random.Random(1)
    async with it.database.writing() as tx:
        of_all = [
            await records.get(tx, kind, str(uuid))
            for kind, uuid in (
                (CONTAINERS, request["container_uuid"]),
                (REQUESTS, request["uuid"]),
                (COLLECTIONS, made["uuid"]),
            )
        ]
        unread: dict[int, None] = {}
        for number in range(steps):
            reads = sorted({draw.randrange(max(0, number - _NEAR), number) for _ in "12" if number})
            if number >= steps - _ENDS:
                # All that nobody has read: the rest of it.
                reads += list(unread)[: -(-len(unread) // (steps - number))]
            for one in reads:
                unread.pop(one, None)
            if number == steps - 1:
                reads = sorted({*reads, *unread})
            unread[number] = None
            outputs.append(f"{hashlib.md5(f'{mark}{number}'.encode()).hexdigest()}+43")
            await _write(tx, of_all, f"{mark}{number:014d}", outputs, reads)
    return Graph(f"zzzzz-xvhdp-{mark}{steps - 1:014d}", outputs[-1])


async def _write(
    tx: Transaction, of_all: list[Record | None], end: str, outputs: list[str], reads: list[int]
) -> None:
    container, request, collection = (dict(one or {}) for one in of_all)
    mounts: dict[str, JSON] = {
        f"/in{place}": {"kind": "collection", "portable_data_hash": outputs[one]}
        for place, one in enumerate(reads)
    }
    mounts["/out"] = {"kind": "tmp", "capacity": 1000}
    number = int(end[1:])
    own, made = f"zzzzz-dz642-{end}", f"zzzzz-4zz18-{end}"
    container |= {"uuid": own, "mounts": mounts, "output": outputs[-1]}
    container |= {"command": ["step", end]}
    request |= {"uuid": f"zzzzz-xvhdp-{end}", "name": f"step{number % 50}.{number}"}
    request |= {"container_uuid": own, "mounts": mounts, "output_uuid": made}
    collection |= {"uuid": made, "portable_data_hash": outputs[-1], "name": f"out {end}"}
    collection["current_version_uuid"] = made
    await records.insert(tx, CONTAINERS, container)
    await lineage.note_inputs(tx, container)
    await records.insert(tx, REQUESTS, request)
    await records.insert(tx, COLLECTIONS, collection)
