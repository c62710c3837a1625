"""The content of git_tree mounts, for the supervisor of the container that has them.

That the mount is in the container's record is the permission: it was resolved for somebody who may
read the repository. Trees go as `git archive` makes them, so without the repository's own data;
blobs as they are. Where no mirror of this server has the object any more, or not yet, the
repositories are fetched that the requests name.
"""

from __future__ import annotations

from typing import Final

from lading.api.effective_user import committer
from lading.api.git.git_mounts import look_up
from lading.api.http import Answer, Call
from lading.core.containers import git_trees
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Forbidden, NotFound
from lading.core.records.record_types import CONTAINERS, REQUESTS
from lading.store import records

_TYPE: Final = {"tree": "application/x-tar", "blob": "application/octet-stream"}


async def get_git_tree(call: Call) -> Answer:
    """The tree (tar) or blob with the hash `hash`, which must be that of one of the container's
    mounts.
    """
    if call.uuid not in (call.caller.supervises, call.caller.container_uuid):
        raise Forbidden("Forbidden: git trees are given to the container's supervisor")
    async with call.services.database.reading() as tx:
        row = await records.get(tx, CONTAINERS, call.uuid)
    wanted = str(call.params.get("hash") or "")
    kind = git_trees.kind_of(row["mounts"] if row else {}, wanted)
    if kind is None:
        raise NotFound(
            f"Path not found: container {call.uuid} has no git_tree mount {wanted[:80]!r}"
        )
    git = call.services.git
    stream = await git.archive(kind, wanted)
    if stream is None:
        await _fetch(call)
        stream = await git.archive(kind, wanted)
    if stream is None:
        raise NotFound(
            f"Path not found: no repository that the requests of {call.uuid} name "
            f"has {kind} {wanted}"
        )
    return Answer(stream=stream, headers={"Content-Type": _TYPE[kind]})


async def _fetch(call: Call) -> None:
    services = call.services
    async with services.database.reading() as tx:
        rows = await records.matching(tx, REQUESTS, container_uuid=call.uuid)
        principals = [await committer(tx, services, row) for row in rows]
    for row, principal in zip(rows, principals, strict=True):
        await look_up(
            services,
            ContainerRequest.from_record(row),
            principal,
            patience=2 * services.config.Containers.GitTimeout,
        )


HANDLERS: Final = {"containers.git_tree": get_git_tree}
