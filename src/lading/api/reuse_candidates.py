"""Candidates for the reuse of a container, as far as the user of a request can read them.

This module reads the facts; `core.containers.reuse` judges them. Source: docs/spec/containers,
section Reuse.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from lading.api import authorization
from lading.api.server.identifiers import ApiClock
from lading.api.services import ApiServices
from lading.core.containers import recipe, reuse
from lading.core.containers.container import Container
from lading.core.containers.mounting import mount_resolution
from lading.core.containers.recipe import Recipe
from lading.core.containers.reuse import Candidate
from lading.core.containers.reuse_rights import has_foreign_secrets
from lading.core.records.access import Principal
from lading.core.records.container_types import REQUESTS
from lading.core.records.expressions import Among, Column, Expression
from lading.core.records.record_types import LINKS
from lading.core.records.schema import JSON, Record, Type
from lading.store import records
from lading.store.containers import reusable
from lading.store.containers.reusable import StoredContainer
from lading.store.database import Transaction

WITHDRAWAL: Final = "withdrawal"
"""Class of links by which a user withdraws the result of a container for their own requests: the
user is the owner, the container the head.
"""


async def find(
    tx: Transaction,
    services: ApiServices,
    made_of: Recipe,
    filters: tuple[Expression, ...],
    acting: Principal,
) -> list[Candidate]:
    """The candidates for the reuse of a recipe, for a principal; those that it can read and that do
    not meet the filters are among them.
    """
    look = partial(
        reusable.candidates,
        tx,
        tx.dialect,
        recipe.keys(made_of),
        reader=authorization.reader_of(acting),
        now=services.clock.now(),
    )
    candidates = await look(filters)
    passing = {candidate.record["uuid"] for candidate in candidates}
    if filters:
        # Candidates that the filters exclude are judged too: the explanation names them.
        candidates += [
            candidate for candidate in await look() if candidate.record["uuid"] not in passing
        ]
    if not acting.is_admin:
        candidates = [
            candidate
            for candidate in candidates
            if not has_foreign_secrets(Container.from_record(candidate.record), acting.user_uuid)
        ]
    return await _judgeable(tx, services.clock, made_of, candidates, acting, passing=passing)


async def check_rights(
    tx: Transaction, clock: ApiClock, made_of: Recipe, uuid: str, acting: Principal
) -> None:
    """Check that a container may stand for a request of this principal. Raises Invalid."""
    reader = authorization.reader_of(acting)
    stored = await reusable.candidate(tx, tx.dialect, uuid, reader=reader, now=clock.now())
    if stored is not None:
        (candidate,) = await _judgeable(tx, clock, made_of, [stored], acting)
        reuse.check_rights(made_of, candidate, is_admin=acting.is_admin)


async def waiting(tx: Transaction, uuid: str) -> set[str]:
    """The containers above a request: the container that made it, and all containers above that
    one.
    """
    seen_uuids: set[str] = set()
    frontier = [uuid]
    while frontier:
        seen_uuids.update(frontier)
        rows = await records.among(tx, REQUESTS, "container_uuid", frontier)
        above: list[JSON] = [row["requesting_container_uuid"] for row in rows]
        frontier = [
            parent_uuid
            for parent_uuid in dict.fromkeys(above)
            if parent_uuid and parent_uuid not in seen_uuids
        ]
    return seen_uuids


async def own_withdrawals(
    tx: Transaction, container_uuids: Sequence[str], user_uuid: str
) -> list[Record]:
    """The links by which a user has withdrawn results of these containers for own requests."""
    where = (
        Among(Column("head_uuid", Type.STRING), tuple(container_uuids)),
        records.equals(LINKS, "link_class", WITHDRAWAL),
        records.equals(LINKS, "owner_uuid", user_uuid),
    )
    return await records.find(tx, tx.dialect, LINKS, where)


async def _judgeable(
    tx: Transaction,
    clock: ApiClock,
    made_of: Recipe,
    stored: Sequence[StoredContainer],
    acting: Principal,
    *,
    passing: Collection[str] | None = None,
) -> list[Candidate]:
    """The containers with what the principal can read of them; `passing` are the uuids of those
    that meet the filters, None if all do.
    """
    inputs = {
        str(container.record["uuid"]): {*mount_resolution.named_hashes(container.record["mounts"])}
        for container in stored
    }
    # The request's own inputs are known to be readable; often there are no others.
    own = {*mount_resolution.named_hashes(made_of.mounts)}
    uuids = [str(container.record["uuid"]) for container in stored]
    links = await own_withdrawals(tx, uuids, acting.user_uuid) if uuids else []
    withdrawn = {link["head_uuid"] for link in links}
    present = own | await authorization.present(
        tx, clock, set().union(*inputs.values()) - own, acting
    )
    return [
        Candidate(
            Container.from_record(container.record),
            container.log_present,
            container.output_present,
            passing is not None and container.record["uuid"] not in passing,
            shown=container.shown,
            inputs_readable=inputs[str(container.record["uuid"])] <= present,
            withdrawn_for_user=container.record["uuid"] in withdrawn,
        )
        for container in stored
    ]
