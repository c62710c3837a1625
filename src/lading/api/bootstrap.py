"""Creates the first records: the system user, an admin, and the tokens of the installation.

The dispatcher's token may do what `access.DISPATCHER_SCOPES` lists and nothing else; the token of a
data directory made by an earlier release is corrected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lading.api.events import audit
from lading.api.resources import generic
from lading.api.server.identifiers import hash_secret
from lading.api.services import ApiServices
from lading.core import ids
from lading.core.records import access
from lading.core.records.permissions import NAMES, GroupClass, Level
from lading.core.records.record_types import COLLECTIONS, GROUPS, LINKS, TOKENS, USERS
from lading.core.records.schema import Record, RecordType
from lading.store import permission_queries, permissions, records
from lading.store.database import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokens:
    """Uuids and secrets of the admin's and the dispatcher's token."""

    admin_uuid: str
    admin_token_uuid: str
    admin_secret: str = field(repr=False)
    dispatch_token_uuid: str
    dispatch_secret: str = field(repr=False)


async def bootstrap(services: ApiServices, tokens: FirstTokens) -> None:
    """Create missing records; existing ones are not changed, but for the scopes of the dispatcher's
    token.
    """
    system = services.ids.system_user
    async with services.database.writing() as tx:
        await _ensure(
            tx,
            services,
            USERS,
            {"uuid": system, "username": "root", "first_name": "root", "is_admin": True},
        )
        admin = {
            "uuid": tokens.admin_uuid,
            "username": "admin",
            "first_name": "admin",
            "is_admin": True,
        }
        await _ensure(tx, services, USERS, admin)
        await _ensure(
            tx,
            services,
            TOKENS,
            {
                "uuid": tokens.admin_token_uuid,
                "owner_uuid": tokens.admin_uuid,
                "secret_hash": hash_secret(tokens.admin_secret),
            },
        )
        await _ensure(
            tx,
            services,
            TOKENS,
            {
                "uuid": tokens.dispatch_token_uuid,
                "secret_hash": hash_secret(tokens.dispatch_secret),
                "scopes": list(access.DISPATCHER_SCOPES),
            },
        )
        await _principals(tx, services)
        await _restrict(tx, services, tokens.dispatch_token_uuid)


async def _principals(tx: Transaction, services: ApiServices) -> None:
    """Create the users and groups that each installation has, their permissions, and the empty
    collection.

    Records that were created once are left alone, so that an admin can take permissions away for
    good.
    """
    cluster = services.config.ClusterID
    outside = await permissions.users_outside(tx)
    for uuid in outside:
        await permissions.add_user(tx, uuid)
    everybody, users = ids.all_users(cluster), outside
    if await records.get(tx, GROUPS, everybody) is None:
        await _seed(tx, services, everybody)
        # The first admin is a user as others are: a member of the role of all users, and visible to
        # its members.
        users = [
            user["uuid"]
            for user in await records.matching(tx, USERS, owner_uuid=services.ids.system_user)
        ]
    for user in await records.among(tx, USERS, "uuid", users):
        if user["is_active"] and user["uuid"] != services.ids.system_user:
            await _share(tx, services, user["uuid"], everybody, Level.WRITE)
            if services.config.Users.ActivatedUsersAreVisibleToOthers:
                await _share(tx, services, everybody, user["uuid"], Level.READ)


async def _seed(tx: Transaction, services: ApiServices, everybody: str) -> None:
    cluster = services.config.ClusterID
    nobody: Record = {
        "uuid": ids.anonymous_user(cluster),
        "first_name": "Anonymous",
        "is_active": False,
    }
    await _ensure(tx, services, USERS, nobody)
    world, stars = ids.anonymous_group(cluster), ids.public_favorites(cluster)
    for uuid, name, group_class in (
        (ids.system_group(cluster), "System group", GroupClass.ROLE),
        (everybody, "All users", GroupClass.ROLE),
        (world, "Anonymous users", GroupClass.ROLE),
        (stars, "Public favorites", GroupClass.PROJECT),
    ):
        await _ensure(
            tx, services, GROUPS, {"uuid": uuid, "name": name, "group_class": group_class}
        )
    empty = ids.empty_collection(cluster)
    content: Record = {
        "uuid": empty,
        "current_version_uuid": empty,
        "portable_data_hash": ids.EMPTY_PDH,
    }
    await _ensure(
        tx, services, COLLECTIONS, {**content, "name": "empty collection", "file_count": 0}
    )
    for tail, head in (
        (nobody["uuid"], world),
        (everybody, world),
        (everybody, stars),
        (world, empty),
    ):
        await _share(tx, services, tail, head, Level.READ)


async def _share(
    tx: Transaction, services: ApiServices, tail: str, head: str, level: Level
) -> None:
    link: Record = {
        "tail_uuid": tail,
        "head_uuid": head,
        "link_class": permission_queries.PERMISSION,
        "name": NAMES[level],
    }
    await _ensure(tx, services, LINKS, {**link, "uuid": services.ids.new_uuid(ids.Infix.LINK)})


async def _restrict(tx: Transaction, services: ApiServices, uuid: str) -> None:
    old = await records.get(tx, TOKENS, uuid)
    if old is not None:
        changes: Record = {"scopes": list(access.DISPATCHER_SCOPES)}
        await generic.apply(tx, services, TOKENS, old, changes, user_uuid=services.ids.system_user)


async def _ensure(
    tx: Transaction, services: ApiServices, kind: RecordType, attributes: Record
) -> None:
    if await records.get(tx, kind, attributes["uuid"]) is not None:
        return
    now, system = services.clock.now(), services.ids.system_user
    record = {
        **kind.defaults,
        "owner_uuid": system,
        "created_at": now,
        "modified_at": now,
        "modified_by_user_uuid": system,
        **attributes,
    }
    await records.insert(tx, kind, record)
    await permission_queries.follow_insert(tx, kind, record)
    await audit.created(tx, services, kind, record, user_uuid=system)
