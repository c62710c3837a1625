"""Images by name: the content that `container_image` of a request means for its principal.

The links that can be read are looked up here; `core.image_names.choose_image` chooses among them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from msgspec import structs

from lading.api import authorization
from lading.api.server.identifiers import ApiClock
from lading.api.services import ApiServices
from lading.config.site import Config
from lading.core import image_names
from lading.core.errors import Invalid
from lading.core.image_names import ImageLink, Term
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.collection_rules import is_trashed
from lading.core.records.expressions import Among, Column, Compare, Either, Expression, Like
from lading.core.records.record_types import COLLECTIONS, LINKS, USERS
from lading.core.records.schema import Record, Type
from lading.store import records
from lading.store.database import Transaction


async def can_use(
    tx: Transaction, clock: ApiClock, config: Config, collection: Record, acting: Principal
) -> bool:
    """Whether a collection is outside the trash, and the principal can read it."""
    if is_trashed(collection, clock.now()):
        return False
    return await authorization.can_read(tx, clock, config, COLLECTIONS, collection, acting)


async def find(
    tx: Transaction, services: ApiServices, term: Term, acting: Principal, present: Collection[str]
) -> str:
    """The portable data hash of the image that a request names. `present`: the hashes of contents
    that the principal can read, among them that of the term. Raises Invalid.
    """
    if term.pdh is not None:
        if term.pdh not in present:
            raise Invalid(image_names.image_not_found(term.reference))
        return term.pdh
    if term.uuid is not None:
        found = await records.get(tx, COLLECTIONS, term.uuid)
        if found is None or not await can_use(tx, services.clock, services.config, found, acting):
            raise Invalid(image_names.image_not_found(term.reference))
        return str(found["portable_data_hash"])
    links = await _image_links(tx, services, term, acting)
    return image_names.choose_image(term, links, formats=services.policy.image_formats)


async def _image_links(
    tx: Transaction, services: ApiServices, term: Term, acting: Principal
) -> list[ImageLink]:
    now = services.clock.now()
    readable = access.readable(LINKS, acting, now=now)
    link_class, name = Column("link_class", Type.STRING), Column("name", Type.STRING)
    by_name: tuple[Expression, ...] = (
        Compare(link_class, "=", image_names.REPO_TAG),
        Among(name, term.names),
    )
    links = await records.find(tx, tx.dialect, LINKS, (*readable, *by_name))
    if not links and term.is_hash:
        by_hash = (
            Compare(link_class, "=", image_names.IMAGE_HASH),
            Either(tuple(Like((name,), f"{image_hash}%") for image_hash in term.hashes)),
        )
        links = await records.find(tx, tx.dialect, LINKS, (*readable, *by_hash))
    heads = [link["head_uuid"] for link in links if link["head_uuid"]]
    collections = {
        collection["uuid"]: collection
        for collection in await records.among(tx, COLLECTIONS, "uuid", heads)
    }
    makers = await records.among(
        tx, USERS, "uuid", dict.fromkeys(str(link["modified_by_user_uuid"]) for link in links)
    )
    admins = {services.ids.system_user, *(user["uuid"] for user in makers if user["is_admin"])}
    untrashed = [
        collection for collection in collections.values() if not is_trashed(collection, now)
    ]
    usable = {
        collection["uuid"]
        for collection in untrashed
        if await authorization.can_read(
            tx, services.clock, services.config, COLLECTIONS, collection, acting
        )
    }
    links = [link for link in links if link["head_uuid"] in usable]
    shared = await _shared_with(tx, services.clock, services.config, links, collections, acting)
    return [
        structs.replace(
            image_names.image_link(link, collections[link["head_uuid"]], acting.user_uuid),
            is_of_site=link["modified_by_user_uuid"] in admins,
            is_shared=link["uuid"] in shared,
        )
        for link in links
    ]


async def _shared_with(
    tx: Transaction,
    clock: ApiClock,
    config: Config,
    links: Sequence[Record],
    collections: Mapping[str, Record],
    acting: Principal,
) -> set[str]:
    """The readable links that the principal could read without being an administrator, to
    collections outside of the trash for which the same holds.
    """
    if not acting.is_admin:
        return {link["uuid"] for link in links}
    user = dataclasses.replace(acting, is_admin=False)
    return {
        link["uuid"]
        for link in links
        if await authorization.can_read(tx, clock, config, LINKS, link, user)
        and await authorization.can_read(
            tx, clock, config, COLLECTIONS, collections[link["head_uuid"]], user
        )
    }
