"""The git trees that a request's mounts name, looked up before a transaction begins: nothing but
the database is waited for inside one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from lading.api.effective_user import acting_for
from lading.api.resources.repositories import address
from lading.api.services import Services
from lading.core.containers.gateway_addresses import is_local
from lading.core.containers.git_trees import Found, host_of, is_allowed
from lading.core.containers.mounts import git_references
from lading.core.containers.request import ContainerRequest
from lading.core.errors import Invalid, Unavailable
from lading.core.records.access import Principal

Trees: TypeAlias = Mapping[str, tuple[Found, ...]]
"""What was found, by target, the newest first."""
NO_TREES: Final[Trees] = MappingProxyType({})
_PATIENCE: Final = 10.0


async def look_up(
    services: Services, subject: ContainerRequest, principal: Principal, *, patience: float
) -> Trees | None:
    """The trees of a request, None while that takes longer than `patience` seconds.

    Raises Invalid when one is not there or may not be read, Unavailable when a repository cannot be
    reached.
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


async def _check_place(services: Services, url: str) -> None:
    """Whether this server may fetch from an address. Raises Invalid for one of this machine, its
    links or its cloud.

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
