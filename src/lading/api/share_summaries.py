"""Summaries of the shares of projects, and the place of a waiting container between them."""

from __future__ import annotations

from dataclasses import dataclass

from lading.api.fair_shares import milliseconds
from lading.api.server.identifiers import ApiClock
from lading.config.site import Config
from lading.core.containers.container import Container
from lading.core.ids import is_group
from lading.core.policy import fair_share
from lading.core.policy.fair_share import (
    SharePosition,
)
from lading.core.records.record_types import GROUPS
from lading.store import fair_shares as rows
from lading.store import permission_queries, records
from lading.store.database import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSummary:
    """A share: its weight, its decayed use in VCPU milliseconds, how many times its part of all use
    that is, and its containers.
    """

    uuid: str
    weight: float
    used: float
    times: float
    waiting: int
    held_count: int


async def summaries(tx: Transaction, clock: ApiClock, config: Config) -> dict[str, ShareSummary]:
    """All shares that are known, by uuid; empty without fair share."""
    settings = config.Containers.FairShare
    if not settings.Enabled:
        return {}
    now, used, weights = milliseconds(clock.now()), dict[str, float](), dict[str, float]()
    for use in await rows.uses(tx):
        halves = max(0, now - use.changed_at) / (settings.HalfLife * 1000)
        used[use.share] = used.get(use.share, 0.0) + use.used * 2.0**-halves
        weights[use.share] = use.weight
    counts = await rows.counts(tx)
    all_used, all_weights = sum(used.values()), sum(weights.values())
    return {
        uuid: ShareSummary(
            uuid=uuid,
            weight=weights[uuid],
            used=used[uuid],
            times=fair_share.times_its_share(used[uuid], weights[uuid], all_used, all_weights),
            waiting=counts.get(uuid, (0, 0))[0],
            held_count=counts.get(uuid, (0, 0))[1],
        )
        for uuid in used
    }


async def position(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    container: Container,
    ahead: int,
    *,
    reader: str | None,
) -> SharePosition | None:
    """The place of a waiting container between shares, `ahead` of which are before it; None without
    fair share. The use of a share is for users who can read it (None: an administrator).
    """
    if not config.Containers.FairShare.Enabled:
        return None
    ticket = (await rows.tickets(tx, [container.uuid])).get(container.uuid)
    if ticket is None:
        return None
    own = await rows.ahead(tx, ticket.share, container.priority, container.created_at, most=ahead)
    # Users can read one another's records; what each has used is their own business.
    may_read = reader in (None, ticket.share) or (
        is_group(ticket.share)
        and await permission_queries.level_in(tx, str(reader), ticket.share) > 0
    )
    if not may_read:
        return SharePosition("", 0.0, ahead - own)
    found = await summaries(tx, clock, config)
    group = await records.get(tx, GROUPS, ticket.share)
    name = str(group["name"]) if group is not None else "its user"
    times = found[ticket.share].times if ticket.share in found else 0.0
    return SharePosition(name, times, ahead - own)
