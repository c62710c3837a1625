"""Git trees that mounts name: looked up before a request's transaction begins, since a transaction
waits for nothing but the database, and sent to the supervisor of the container (`get_git_tree`).

A git_tree mount in the record of a container is the permission to read its tree: it was resolved
for a user who may read the repository. Trees are sent as `git archive` writes them, so without the
repository's own data; blobs as they are. Where no mirror of this server has the object, the
repositories that the requests name are fetched.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from lading.api.authentication import acting_for, committer
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources.repositories import address
from lading.api.services import ApiServices
from lading.core.containers import git_trees
from lading.core.containers.git_trees import ResolvedGitTree, host_of, is_allowed
from lading.core.containers.mounts import git_references
from lading.core.containers.request import ContainerRequest
from lading.core.containers.sessions import is_local
from lading.core.errors import Forbidden, Invalid, NotFound, Unavailable
from lading.core.records.access import Principal
from lading.core.records.record_types import CONTAINERS, REQUESTS
from lading.store import records

Trees: TypeAlias = Mapping[str, tuple[ResolvedGitTree, ...]]
"""What was found, by target, the newest first."""
NO_TREES: Final[Trees] = MappingProxyType({})
# Seconds for the name service.
_PATIENCE: Final = 10.0


async def look_up(
    services: ApiServices, subject: ContainerRequest, principal: Principal, *, patience: float
) -> Trees | None:
    """The trees of a request, None if finding them takes longer than `patience` seconds.

    Raises Invalid when one does not exist or may not be read, Unavailable when a repository cannot
    be reached.
    """
    if not isinstance(subject.mounts, dict):
        raise Invalid("Mounts must be an object")
    wanted = git_references(subject.mounts)
    if not wanted:
        return NO_TREES
    acting = await acting_for(services, subject, principal)
    async with services.database.reading() as tx:
        addresses = [await address(tx, services, one, acting) for one in wanted]
    for url in addresses:
        await _check_place(services, url)
    several = [
        services.git.find(url, one, patience=patience)
        for url, one in zip(addresses, wanted, strict=True)
    ]
    found = await asyncio.gather(*several)
    trees = {
        one.target: answer for one, answer in zip(wanted, found, strict=True) if answer is not None
    }
    return trees if len(trees) == len(wanted) else None


async def _check_place(services: ApiServices, url: str) -> None:
    """Check that this server may fetch from an address. Raises Invalid for an address of this
    machine, its links or its cloud.

    Such an address, which an admin may have stored in a repository, has to be in the configuration.
    """
    host = host_of(url)
    if host is None or is_allowed(url, services.config.Containers.GitRepositories):
        return
    try:
        async with asyncio.timeout(_PATIENCE):
            found = await asyncio.get_running_loop().getaddrinfo(
                host, None, type=socket.SOCK_STREAM
            )
    except TimeoutError:
        raise Unavailable(
            f"{url}: {host} cannot be looked up within {_PATIENCE:g} s; try again"
        ) from None
    except OSError:
        # `git` says what is wrong with the name.
        return
    if any(is_local(str(address[0])) for *_, address in found):
        raise Invalid(
            f"{url}: {host} is an address of the server's own machine or link; "
            "ask its admin to add it to Containers.GitRepositories"
        )


_TYPE: Final = {"tree": "application/x-tar", "blob": "application/octet-stream"}


async def get_git_tree(call: ApiCall) -> ApiResponse:
    """The tree (tar) or blob with the hash `hash`, which one of the container's mounts must
    have.
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
    return ApiResponse(stream=stream, headers={"Content-Type": _TYPE[kind]})


async def _fetch(call: ApiCall) -> None:
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
