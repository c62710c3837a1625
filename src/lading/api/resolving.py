"""From a request to a container: the facts that `core` decides on, and its decision carried out (api-contract 1.6).

The decision and its reasons are kept as a log row of type "resolve" about the request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lading.api import audit
from lading.api.authentication import authenticate
from lading.api.collections import find_content, is_trashed
from lading.api.ledger import Ledger
from lading.api.services import Services
from lading.core import access, explain, images, manifest, mounts, priority, recipe, request, reuse
from lading.core.access import Principal
from lading.core.container import FINAL, Container
from lading.core.effects import Adopt, Resolve
from lading.core.errors import Invalid, NotFound, Unauthenticated
from lading.core.filters import Column, Compare, Expression, Like
from lading.core.ids import Infix
from lading.core.images import ImageLink, Term
from lading.core.recipe import Facts, Recipe
from lading.core.records import COLLECTIONS, CONTAINERS, LINKS, REQUESTS
from lading.core.request import ContainerRequest
from lading.core.reuse import Candidate, Choice, Reuse
from lading.core.schema import JSON, Record, Type
from lading.store import containers, contents, records
from lading.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice with the recipe that it was made for."""

    recipe: Recipe
    choice: Choice


async def commit(ledger: Ledger, change: request.Change, principal: Principal) -> request.Change:
    """The change with a container assigned, and the end of the request if that container has ended already.

    Does what the effects of the change ask for. Raises Invalid when the image or an input cannot be read.
    """
    for effect in change.effects:
        match effect:
            case Resolve():
                change = await _resolve(ledger, change, principal)
            case Adopt(uuid):
                change = await _adopt(ledger, change, principal, uuid)
            case _:
                ledger.note(change)
    return change


async def decide(tx: Transaction, services: Services, subject: ContainerRequest, principal: Principal) -> Decision:
    """What would be used for a request now. Raises Invalid."""
    acting = await _acting(services, subject, principal)
    facts = await _facts(tx, services, subject, acting)
    made_of = recipe.resolve(subject, facts, policy=services.policy)
    known = await _candidates(tx, services, made_of) if subject.use_existing else []
    choice = reuse.choose(
        made_of,
        known,
        policy=services.policy,
        use_existing=subject.use_existing,
        waiting=await _waiting(tx, subject.requesting_container_uuid),
    )
    return Decision(made_of, choice)


async def find_nearest(tx: Transaction, ours: Recipe, created_at: str) -> explain.Nearest | None:
    """The earlier container that is most like a recipe."""
    rows = await containers.earlier(tx, created_at, ours.container_image)
    return explain.nearest(ours, [Container.from_record(row) for row in rows])


async def _resolve(ledger: Ledger, change: request.Change, principal: Principal) -> request.Change:
    services, subject = ledger.services, change.request
    decision = await decide(ledger.tx, services, subject, principal)
    if isinstance(decision.choice, Reuse):
        container = decision.choice.container
        change = _merged(change, request.assign(subject, container.uuid))
        if container.state in FINAL:
            change = _merged(change, await ledger.finalise(change.request, container, reused=True))
        ledger.note(change)
    else:
        uuid = services.new_uuid(Infix.CONTAINER)
        change = _merged(change, request.assign(subject, uuid))
        container = recipe.new_container(decision.recipe, uuid=uuid, now=ledger.now)
        parents = await ledger.parent_priorities(change.request)
        worth = priority.container_priority([change.request], parents)
        await ledger.add_container(replace(container, priority=worth))
        earlier = [uuid for uuid in change.request.attempted_container_uuids if uuid]
        ledger.stale(earlier)
    await _remember(ledger, change.request, explain.explain(decision.choice, container_uuid=container.uuid))
    return change


async def _adopt(ledger: Ledger, change: request.Change, principal: Principal, uuid: str) -> request.Change:
    services, subject = ledger.services, change.request
    row = await ledger.container(uuid)
    if row is None or not await _may_read(ledger, principal, uuid):
        raise Invalid(f"container_uuid: '{uuid}' not found")
    container = Container.from_record(row)
    acting = await _acting(services, subject, principal)
    facts = await _facts(ledger.tx, services, subject, acting)
    recipe.check_adoption(recipe.resolve(subject, facts, policy=services.policy), container, policy=services.policy)
    change = _merged(change, request.assign(subject, uuid))
    if container.state in FINAL:
        change = _merged(change, await ledger.finalise(change.request, container, reused=True))
    ledger.note(change)
    chosen: Record = {"decision": "reuse", "reason": "the request names this container", "container_uuid": uuid}
    await _remember(ledger, change.request, {**chosen, "candidates": [], "nearest": None})
    return change


async def _may_read(ledger: Ledger, principal: Principal, uuid: str) -> bool:
    condition = (*access.readable(CONTAINERS, principal), records.equals(CONTAINERS, "uuid", uuid))
    dialect = ledger.services.database.dialect
    return bool(await records.find(ledger.tx, dialect, CONTAINERS, condition, limit=1))


async def _remember(ledger: Ledger, subject: ContainerRequest, explanation: Record) -> None:
    about = {"uuid": subject.uuid, "owner_uuid": subject.owner_uuid}
    summary = f"{explanation['decision']} {explanation['container_uuid']}: {explanation['reason']}"
    await audit.note(ledger.tx, ledger.services, about, "resolve", summary, explanation)


def _merged(first: request.Change, second: request.Change) -> request.Change:
    return request.Change(
        request=second.request,
        changed={**first.changed, **second.changed},
        expected=first.expected,
        effects=second.effects,
    )


async def _acting(services: Services, subject: ContainerRequest, principal: Principal) -> Principal:
    if subject.runtime_token is None:
        return principal
    try:
        found = await authenticate(services, subject.runtime_token)
    except Unauthenticated:
        found = None
    if found is None:
        raise Invalid("Runtime token failed validation")
    return found


async def _facts(tx: Transaction, services: Services, subject: ContainerRequest, acting: Principal) -> Facts:
    return Facts(
        image_pdh=await _image(tx, services, subject.container_image or "", acting),
        hashes={one.name: await _hash(tx, services, one, acting) for one in mounts.references(subject.mounts)},
        user_uuid=acting.user_uuid,
        scopes=acting.scopes if subject.runtime_token else access.ALL_SCOPES,
    )


async def _hash(tx: Transaction, services: Services, reference: mounts.Reference, acting: Principal) -> str | None:
    if reference.is_pdh:
        try:
            found: Record | None = await find_content(tx, services, acting, reference.name)
        except NotFound:
            found = None
    else:
        found = await records.get(tx, COLLECTIONS, reference.name)
        if found is not None and not _usable(found, services, acting):
            found = None
    return str(found["portable_data_hash"]) if found else None


def _usable(collection: Record, services: Services, acting: Principal) -> bool:
    mine = acting.is_admin or collection["owner_uuid"] == acting.user_uuid
    return mine and not is_trashed(collection, services.now())


async def _image(tx: Transaction, services: Services, text: str, acting: Principal) -> str:
    term = images.parse(text)
    if term.pdh is not None:
        try:
            return str((await find_content(tx, services, acting, term.pdh))["portable_data_hash"])
        except NotFound:
            raise Invalid(images.not_found(text)) from None
    links = await _image_links(tx, services, term, acting)
    return images.choose(term, links, formats=services.policy.image_formats)


async def _image_links(tx: Transaction, services: Services, term: Term, acting: Principal) -> list[ImageLink]:
    readable = access.readable(LINKS, acting)
    link_class, name = Column("link_class", Type.STRING), Column("name", Type.STRING)
    by_name: tuple[Expression, ...] = (
        Compare(link_class, "=", images.REPO_TAG),
        Compare(name, "=", term.name),
    )
    links = await records.find(tx, services.database.dialect, LINKS, (*readable, *by_name))
    if not links:
        by_hash = (Compare(link_class, "=", images.IMAGE_HASH), Like((name,), f"{_escaped(term.text)}%"))
        links = await records.find(tx, services.database.dialect, LINKS, (*readable, *by_hash))
    heads = [link["head_uuid"] for link in links if link["head_uuid"]]
    collections = {one["uuid"]: one for one in await records.among(tx, COLLECTIONS, "uuid", heads)}
    return [
        _image_link(link, collections[link["head_uuid"]])
        for link in links
        if link["head_uuid"] in collections and _usable(collections[link["head_uuid"]], services, acting)
    ]


def _image_link(link: Record, collection: Record) -> ImageLink:
    stamp = link["properties"].get("image_timestamp")
    streams = manifest.parse(collection["manifest_text"]).streams
    return ImageLink(
        collection_uuid=collection["uuid"],
        pdh=collection["portable_data_hash"],
        files=tuple(dict.fromkeys(file.name for stream in streams for file in stream.files)),
        created_at=link["created_at"],
        image_timestamp=stamp if isinstance(stamp, str) else None,
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


async def _candidates(tx: Transaction, services: Services, made_of: Recipe) -> list[Candidate]:
    now = services.now()
    found = []
    for row in await containers.candidates(tx, recipe.key(made_of)):
        log = output = False
        if row["state"] == "Complete" and row["exit_code"] == 0:
            log = await contents.has_content(tx, row["log"], now, owner_uuid=None, trashed=False)
            output = await contents.has_content(tx, row["output"], now, owner_uuid=None, trashed=False)
        found.append(Candidate(Container.from_record(row), log, output))
    return found


async def _waiting(tx: Transaction, uuid: str | None) -> set[str]:
    """The containers that wait for what a request asks for: the one that made it, and those that wait for that one."""
    seen: set[str] = set()
    frontier = [uuid] if uuid else []
    while frontier:
        seen.update(frontier)
        rows = await records.among(tx, REQUESTS, "container_uuid", frontier)
        above: list[JSON] = [row["requesting_container_uuid"] for row in rows]
        frontier = [one for one in dict.fromkeys(above) if one and one not in seen]
    return seen
