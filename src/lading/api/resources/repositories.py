"""Git repositories, and the trees in them that mounts name.

- Users may store addresses that the configuration lists (`Containers.GitRepositories`), admins any
  address. The content of a repository is shown to each user who can read its record. Names are
  unique in the cluster.
- Trees of mounts are looked up before a request's transaction begins, since a transaction waits for
  nothing but the database, and sent to the supervisor of the container (`get_git_tree`). A git_tree
  mount in the record of a container is the permission to read its tree: it was resolved for a user
  who may read the repository.
- Trees are sent as `git archive` writes them, so without the repository's own data; blobs as they
  are. Where no mirror of this server has the object, the repositories that the requests name are
  fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.logins.authentication import acting_for, committer
from lading.api.mounts.git_cache import GIT
from lading.api.resources import generic
from lading.api.serializer import check_match, show
from lading.api.server.features import FeatureKey
from lading.api.services import ApiServices
from lading.core.containers.mounting import git_trees
from lading.core.containers.mounting.git_trees import (
    NO_TREES,
    GitTrees,
    host_of,
    is_allowed,
)
from lading.core.containers.mounting.mounts import git_references
from lading.core.containers.request import ContainerRequest
from lading.core.containers.sessions import is_local
from lading.core.errors import Forbidden, Invalid, NotFound, Unavailable
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_select
from lading.core.records.schema import Record
from lading.core.records.service_records import REPOSITORIES
from lading.net.name_lookup import NameLookup
from lading.store import records
from lading.store.database import Transaction

# Seconds for the name service.
_PATIENCE: Final = 10.0
_TYPE: Final = {"tree": "application/x-tar", "blob": "application/octet-stream"}
_NAME_LOOKUP: Final = FeatureKey("look-up of names", NameLookup)


async def look_up(
    services: ApiServices, subject: ContainerRequest, principal: Principal, *, patience: float
) -> GitTrees | None:
    """The trees of a request, None if finding them takes longer than `patience` seconds.

    Raises Invalid when one does not exist or may not be read, Unavailable when a repository cannot
    be reached.
    """
    if not isinstance(subject.mounts, dict):
        raise Invalid("Mounts must be an object")
    references = git_references(subject.mounts)
    if not references:
        return NO_TREES
    acting = await acting_for(services, subject, principal)
    async with services.database.reading() as tx:
        addresses = [await address(tx, services, reference, acting) for reference in references]
    hosts = [await _check_place(services, url) for url in addresses]
    several = [
        services.features[GIT].find(url, reference, patience=patience, addresses=host)
        for url, reference, host in zip(addresses, references, hosts, strict=True)
    ]
    answers = await asyncio.gather(*several)
    trees = {
        reference.target: answer
        for reference, answer in zip(references, answers, strict=True)
        if answer is not None
    }
    return trees if len(trees) == len(references) else None


async def _check_place(services: ApiServices, url: str) -> Sequence[str]:
    """Check that this server may fetch from an address; the addresses of its host that were
    checked, none for one of the configuration. Raises Invalid for an address of this machine, its
    links or the metadata services of its cloud.

    Such an address, which an admin may have stored in a repository, has to be in the configuration.
    """
    host = host_of(url)
    if host is None or is_allowed(url, services.config.Containers.GitRepositories):
        return ()
    try:
        async with asyncio.timeout(_PATIENCE):
            addresses = await services.features[_NAME_LOOKUP](host, None)
    except TimeoutError:
        raise Unavailable(
            f"{url}: {host} cannot be looked up within {_PATIENCE:g} s; try again"
        ) from None
    except (OSError, UnicodeError) as error:
        # Over ssh the name may be one of its configuration, and the host's key proves it.
        if not git_trees.is_looked_up(url):
            return ()
        # Python encodes no label of over 63 characters (RFC 1035).
        if isinstance(error, UnicodeError):
            raise Invalid(f"{url[:150]}: {host[:80]} is no name of a host; correct it") from error
        # Not left to `git`: its own look-up might succeed, with an address that nobody checked.
        raise Unavailable(f"{url[:150]}: {host[:80]} cannot be looked up; try again") from error
    if any(is_local(address) for address in addresses):
        raise Invalid(
            f"{url}: {host} is an address of the server's own machine or link, or of its cloud; "
            "ask its admin to add it to Containers.GitRepositories"
        )
    return addresses


async def get_git_tree(call: ApiCall) -> ApiResponse:
    """The tree (tar) or blob with the hash `hash`, which one of the container's mounts must
    have.
    """
    if call.uuid not in (call.caller.supervises, call.caller.container_uuid):
        raise Forbidden("Forbidden: git trees are given to the container's supervisor")
    async with call.services.database.reading() as tx:
        row = await records.get(tx, CONTAINERS, call.uuid)
    object_hash = str(call.params.get("hash") or "")
    kind = git_trees.kind_of(row["mounts"] if row else {}, object_hash)
    if kind is None:
        raise NotFound(
            f"Path not found: container {call.uuid} has no git_tree mount {object_hash[:80]!r}"
        )
    git = call.services.features[GIT]
    stream = await git.archive(kind, object_hash)
    if stream is None:
        await _fetch(call)
        stream = await git.archive(kind, object_hash)
    if stream is None:
        raise NotFound(
            f"Path not found: no repository that the requests of {call.uuid} name "
            f"has {kind} {object_hash}"
        )
    return ApiResponse(stream=stream, headers={"Content-Type": _TYPE[kind]})


async def _fetch(call: ApiCall) -> None:
    services = call.services
    async with services.database.reading() as tx:
        rows = await records.matching(tx, REQUESTS, container_uuid=call.uuid)
        principals = [await committer(tx, services.ids, row) for row in rows]
    for row, principal in zip(rows, principals, strict=True):
        await look_up(
            services,
            ContainerRequest.from_record(row),
            principal,
            patience=2 * services.config.Containers.GitTimeout,
        )


async def list_repositories(call: ApiCall) -> ApiResponse:
    """A page of repositories."""
    return await generic.list_records(call, REPOSITORIES)


async def get_repository(call: ApiCall) -> ApiResponse:
    """One repository."""
    return await generic.get_record(call, REPOSITORIES)


async def create_repository(call: ApiCall) -> ApiResponse:
    """A new repository."""
    record = generic.new_record(
        call, REPOSITORIES, generic.check_attributes(call, REPOSITORIES, None)
    )
    _check(call, record)
    async with call.services.database.writing() as tx:
        await authorization.check_owner(tx, call, record["owner_uuid"])
        await generic.insert(tx, call, REPOSITORIES, record)
    return ApiResponse(body=show(REPOSITORIES, record))


async def update_repository(call: ApiCall) -> ApiResponse:
    """Change a repository."""
    select = check_select(call.params.get("select"), REPOSITORIES)
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, call.services.clock, call.services.config, REPOSITORIES, call.uuid, call.caller
        )
        await authorization.check_writable(tx, REPOSITORIES, old, call.caller)
        check_match(call, old)
        given = generic.check_attributes(call, REPOSITORIES, old)
        new = {**old, **given}
        if any(new[name] != old[name] for name in ("name", "fetch_url")):
            _check(call, new)
        if new["owner_uuid"] != old["owner_uuid"]:
            await authorization.check_owner(tx, call, new["owner_uuid"], old=old["owner_uuid"])
        new = await generic.apply(
            tx, call.services, REPOSITORIES, old, new, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body=show(REPOSITORIES, new, select))


async def delete_repository(call: ApiCall) -> ApiResponse:
    """Delete a repository; trees of earlier containers stay in the mirrors."""
    return await generic.delete_record(call, REPOSITORIES)


async def address(
    tx: Transaction, services: ApiServices, reference: git_trees.GitReference, acting: Principal
) -> str:
    """The address of the repository of a mount. Raises Invalid when it is not allowed or the record
    cannot be read, Forbidden when the scopes of the token do not include a GET of the repository.
    """
    where = f"Mounts [{reference.target}][{reference.source}]"
    if reference.source == "git_url":
        if not git_trees.is_allowed(reference.name, services.config.Containers.GitRepositories):
            raise Invalid(
                f"{where}: {reference.name} is not among the repositories that this server may "
                "fetch from; ask its admin to add it to Containers.GitRepositories"
            )
        return reference.name
    uuid = reference.name
    if reference.source == "repository_name":
        rows = await records.matching(tx, REPOSITORIES, name=reference.name)
        uuid = rows[0]["uuid"] if rows else ""
    try:
        record = await authorization.find_readable(
            tx, services.clock, services.config, REPOSITORIES, uuid, acting
        )
    except NotFound:
        raise Invalid(f"{where}: repository {reference.name!r} not found") from None
    access.check_scope(acting, "GET", f"/arvados/v1/repositories/{record['uuid']}")
    return str(record["fetch_url"])


def _check(call: ApiCall, record: Record) -> None:
    git_trees.check_name("name", record["name"] or "")
    git_trees.check_url("fetch_url", record["fetch_url"] or "")
    listed = git_trees.is_allowed(
        record["fetch_url"], call.services.config.Containers.GitRepositories
    )
    if not listed and not call.caller.is_admin:
        raise Forbidden(
            f"Forbidden: fetch_url: {record['fetch_url']} is not in Containers.GitRepositories; "
            "only admins may add it"
        )


HANDLERS: Final = {
    "containers.git_tree": get_git_tree,
    "repositories.list": list_repositories,
    "repositories.get": get_repository,
    "repositories.create": create_repository,
    "repositories.update": update_repository,
    "repositories.delete": delete_repository,
}
