"""Git repositories that git_tree mounts name by uuid or name.

Users may store addresses that the configuration lists (`Containers.GitRepositories`), admins any
address. The content of a repository is shown to each user who can read its record. Names are unique
in the cluster.
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import show
from lading.api.services import ApiServices
from lading.core.containers import git_trees
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.filters import check_select
from lading.core.records.schema import Record
from lading.core.records.service_records import REPOSITORIES
from lading.store import records
from lading.store.database import Transaction


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
            tx, call.services, REPOSITORIES, call.uuid, call.caller
        )
        await authorization.check_writable(tx, REPOSITORIES, old, call.caller)
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
    tx: Transaction, services: ApiServices, wanted: git_trees.GitReference, acting: Principal
) -> str:
    """The address of the repository of a mount. Raises Invalid when it is not allowed or the record
    cannot be read, Forbidden when the scopes of the token do not include a GET of the repository.
    """
    where = f"Mounts [{wanted.target}][{wanted.source}]"
    if wanted.source == "git_url":
        if not git_trees.is_allowed(wanted.name, services.config.Containers.GitRepositories):
            raise Invalid(
                f"{where}: {wanted.name} is not among the repositories that this server may "
                "fetch from; ask its admin to add it to Containers.GitRepositories"
            )
        return wanted.name
    uuid = wanted.name
    if wanted.source == "repository_name":
        found = await records.matching(tx, REPOSITORIES, name=wanted.name)
        uuid = found[0]["uuid"] if found else ""
    try:
        record = await authorization.find_readable(tx, services, REPOSITORIES, uuid, acting)
    except NotFound:
        raise Invalid(f"{where}: repository {wanted.name!r} not found") from None
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
    "repositories.list": list_repositories,
    "repositories.get": get_repository,
    "repositories.create": create_repository,
    "repositories.update": update_repository,
    "repositories.delete": delete_repository,
}
