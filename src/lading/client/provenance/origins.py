"""All requests that led to a result: by what they were told to need, and by what they read."""

from __future__ import annotations

from lading.client.api import ApiClient
from lading.client.provenance.lineage import find_lineage
from lading.client.provenance.request_tree import find_tree
from lading.core.drawing.outline import neighbours_of, within
from lading.core.errors import Conflict


async def find_origins(api: ApiClient, uuid: str) -> list[str]:
    """The uuids of the requests that led to one, as far as the caller may read them, itself first.

    These are its tree, and those whose outputs it and they have read; a container that several
    requests share stands for one of them. Raises NotFound, Conflict for more than can be listed.
    """
    tree = await find_tree(api, uuid)
    request = await api.get("container_requests", uuid)
    lineage = await find_lineage(api, request)
    if tree.is_cut or lineage.is_cut:
        raise Conflict(f"{uuid}: more requests led to it than can be listed; take parts of it")
    before, _ = neighbours_of(lineage.edges)
    near = within(lineage.start, before, len(lineage.nodes))
    found = [str(one.request["uuid"]) for one in tree.outcomes]
    held = {one.request["container_uuid"] for one in tree.outcomes}
    for key, node in lineage.nodes.items():
        if key in near and key not in held and node.request_uuid:
            found.append(node.request_uuid)
    return list(dict.fromkeys(found))
