"""The git trees that a request's mounts name, looked up before a transaction begins: nothing but the database is waited
for inside one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from lading.api.acting import acting_for
from lading.api.repositories import address
from lading.api.services import Services
from lading.core.access import Principal
from lading.core.errors import Invalid
from lading.core.gittree import Found
from lading.core.mounts import git_references
from lading.core.request import ContainerRequest

Trees: TypeAlias = Mapping[str, tuple[Found, ...]]
"""What was found, by target, the newest first."""
NO_TREES: Final[Trees] = MappingProxyType({})


async def look_up(
    services: Services, subject: ContainerRequest, principal: Principal, *, patience: float
) -> Trees | None:
    """The trees of a request, None while that takes longer than `patience` seconds.

    Raises Invalid when one is not there or may not be read, Unavailable when a repository cannot be reached.
    """
    if not isinstance(subject.mounts, dict):
        raise Invalid("Mounts must be an object")
    wanted = git_references(subject.mounts)
    if not wanted:
        return NO_TREES
    acting = await acting_for(services, subject, principal)
    async with services.database.reading() as tx:
        addresses = [await address(tx, services, one, acting) for one in wanted]
    several = [services.git.find(url, one, patience=patience) for url, one in zip(addresses, wanted, strict=True)]
    found = await asyncio.gather(*several)
    trees = {one.target: answer for one, answer in zip(wanted, found, strict=True) if answer is not None}
    return trees if len(trees) == len(wanted) else None
