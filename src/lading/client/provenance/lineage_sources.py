"""Nodes of a lineage beside collections: git trees, workflows, users and withdrawn results; and the
containers that could read one file of a collection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.provenance.lineage import Lineage
from lading.core.drawing.folding import LineageNode
from lading.core.drawing.outline import neighbours_of, within
from lading.core.ids import Infix, is_uuid

_PAGE: Final = 100
WITHDRAWN: Final = ", withdrawn"
FROM_WITHDRAWN: Final = ", from withdrawn"


async def add_sources(api: ApiClient, drawn: Lineage, *, with_users: bool) -> None:
    """Add the git trees that containers read and the workflows that requests are runs of; with
    `with_users` also who asked for them. A record that the caller may not read is named by its
    uuid.
    """
    _add_git_trees(drawn)
    workflows = {
        key: str(request["properties"]["template_uuid"])
        for key, request in drawn.requests.items()
        if is_uuid(str((request.get("properties") or {}).get("template_uuid")), Infix.WORKFLOW)
    }
    names = await _names(api, "workflows", workflows.values(), "name")
    for key, uuid in workflows.items():
        drawn.add(LineageNode(key=uuid, kind="workflow", name=names.get(uuid) or uuid))
        drawn.link(uuid, key, "workflow")
    if not with_users:
        return
    users = {
        key: str(request.get("committed_by_uuid") or request["owner_uuid"])
        for key, request in drawn.requests.items()
    }
    names = await _names(api, "users", users.values(), "full_name")
    for key, uuid in users.items():
        drawn.add(LineageNode(key=uuid, kind="user", name=names.get(uuid) or uuid))
        drawn.link(uuid, key, "user")


def mark_withdrawn(drawn: Lineage) -> None:
    """Add to the states of requests whether their result was withdrawn, or was made from one that
    was, and that no other container has made too.
    """
    withdrawn = {
        key for key, container in drawn.containers.items() if container.get("withdrawn_at")
    }
    if not withdrawn:
        return
    makers: dict[str, list[str]] = {}
    for key, container in drawn.containers.items():
        if container.get("output"):
            makers.setdefault(str(container["output"]), []).append(key)
    bad = [pdh for pdh, some in makers.items() if withdrawn.issuperset(some)]
    _, after = neighbours_of(drawn.edges)
    below = {key for pdh in bad for key in within(pdh, after, len(drawn.nodes))}
    for key in withdrawn | below:
        node = drawn.nodes.get(key)
        if node is not None and node.kind == "request" and not node.sealed:
            mark = WITHDRAWN if key in withdrawn else FROM_WITHDRAWN
            drawn.nodes[key] = replace(node, state=f"{node.state}{mark}")


def keep_readers(drawn: Lineage, path: str) -> None:
    """Leave out the containers that could not read the file at `path` of the content at which the
    lineage starts, because they mount other parts of it alone.
    """
    blind = {
        key
        for key, container in drawn.containers.items()
        if (paths := list(_mounted(container, drawn.start)))
        and not any(_shows(p, path) for p in paths)
    }
    drawn.edges = [edge for edge in drawn.edges if edge[0] != drawn.start or edge[1] not in blind]


def _mounted(container: Record, pdh: str) -> Iterator[str]:
    """The paths of a content that a container mounts."""
    for mount in (container["mounts"] or {}).values():
        if mount.get("kind") == "collection" and mount.get("portable_data_hash") == pdh:
            yield str(mount.get("path") or "").strip("/")


def _shows(mounted: str, path: str) -> bool:
    return (
        not mounted
        or mounted == path
        or f"{path}/".startswith(f"{mounted}/")
        or (f"{mounted}/".startswith(f"{path}/"))
    )


def _add_git_trees(drawn: Lineage) -> None:
    for key, container in drawn.containers.items():
        for mount in (container["mounts"] or {}).values():
            if mount.get("kind") != "git_tree":
                continue
            source = str(mount.get("git_url") or mount.get("repository_name") or mount.get("uuid"))
            commit = str(mount.get("commit") or "")
            node = f"git {source} {commit} {mount.get('path') or ''}".rstrip()
            name = f"{source} {commit[:12]}".rstrip()
            drawn.add(LineageNode(key=node, kind="git tree", name=name))
            drawn.link(node, key, "git tree")


async def _names(
    api: ApiClient, plural: str, uuids: Iterable[str], field: str
) -> Mapping[str, str]:
    distinct, names = list(dict.fromkeys(uuids)), dict[str, str]()
    for start in range(0, len(distinct), _PAGE):
        filters: list[Any] = [["uuid", "in", distinct[start : start + _PAGE]]]
        async with aclosing(api.pages(plural, filters=filters)) as pages:
            async for rows in pages:
                names |= {row["uuid"]: str(row.get(field) or "") for row in rows}
    return names
