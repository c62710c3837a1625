"""Merges of two accounts: the records of one go to the other, and it may act for it."""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.logins.authentication import authenticate
from lading.api.resources import generic, links
from lading.api.resources.collections import settle_name
from lading.api.serializer import present_one
from lading.api.transaction import UnitOfWork
from lading.core.containers.container import LIVE
from lading.core.errors import Forbidden, Invalid, Unauthenticated
from lading.core.records import access
from lading.core.records.access import ALL_SCOPES
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.permissions import LEVELS, Level, check_acyclic
from lading.core.records.record_types import (
    COLLECTIONS,
    GROUPS,
    LINKS,
    LOGS,
    RECORDS,
    TOKENS,
    USERS,
)
from lading.core.records.schema import Record, RecordType
from lading.store import permission_queries, records
from lading.store.database import Transaction
from lading.store.permission_queries import PERMISSION, links_of

# Records that are held in memory at a time.
_BATCH: Final = 200

_OWNED: Final = tuple(
    kind for kind in RECORDS if kind.stored and kind.owned and kind not in (USERS, TOKENS, LOGS)
)


async def merge_users(call: ApiCall) -> ApiResponse:
    """Merge a user into another; the old user after the merge."""
    redirect = bool(call.params.get("redirect_to_new_user"))
    old_uuid, new_uuid = await _named(call)
    services, user = call.services, call.caller.user_uuid
    owner = call.params.get("new_owner_uuid")
    async with services.database.writing() as tx:
        old, new = (
            await _user(tx, "old_user_uuid", old_uuid),
            await _user(tx, "new_user_uuid", new_uuid),
        )
        await _check(tx, call, old, new, owner)
        for kind in _OWNED:
            await _give(tx, call, kind, old["uuid"], str(owner))
        await _move_permissions(tx, call, old["uuid"], new["uuid"] if redirect else None)
        for token in await records.matching(tx, TOKENS, owner_uuid=old["uuid"]):
            if redirect:
                await generic.apply(
                    tx, services, TOKENS, token, {"owner_uuid": new["uuid"]}, user_uuid=user
                )
            else:
                await generic.remove(tx, services, TOKENS, token, user_uuid=user)
        if redirect:
            await _act_for(tx, call, old["uuid"], new["uuid"])
            gone = {
                "is_active": False,
                "is_admin": False,
                "username": None,
                "email": None,
            }
            old = await generic.apply(
                tx,
                services,
                USERS,
                old,
                {**gone, "redirect_to_user_uuid": new["uuid"]},
                user_uuid=user,
            )
        return ApiResponse(body=await present_one(tx, services.config, call.caller, USERS, old))


async def _named(call: ApiCall) -> tuple[str, str]:
    """The old and the new user. Raises Forbidden, Unauthenticated, Invalid."""
    caller, params = call.caller, call.params
    if params.get("old_user_uuid") or params.get("new_user_uuid"):
        access.check_admin(caller, "name the users that are merged (old_user_uuid, new_user_uuid)")
        if not params.get("old_user_uuid") or not params.get("new_user_uuid"):
            raise Invalid("old_user_uuid and new_user_uuid: must be given both")
        return str(params["old_user_uuid"]), str(params["new_user_uuid"])
    if caller.scopes != ALL_SCOPES or caller.container_uuid is not None:
        raise Forbidden("Forbidden: a token of limited scope cannot merge users")
    token = params.get("new_user_token")
    if not isinstance(token, str):
        raise Invalid("new_user_token: must be a token of the user that you are merged into")
    new_user = await authenticate(call.services, token)
    if new_user is None:
        raise Unauthenticated("Not logged in: new_user_token is not valid")
    if new_user.scopes != ALL_SCOPES or new_user.container_uuid is not None:
        raise Forbidden("Forbidden: new_user_token is of limited scope")
    access.check_active(new_user)
    return caller.user_uuid, new_user.user_uuid


async def _user(tx: Transaction, name: str, uuid: str) -> Record:
    found = await records.get(tx, USERS, uuid)
    if found is None:
        raise Invalid(f"{name}: {uuid[:60]!r} not found")
    if found["redirect_to_user_uuid"] is not None:
        raise Invalid(f"{name}: {uuid} was merged into {found['redirect_to_user_uuid']} already")
    return found


async def _check(tx: Transaction, call: ApiCall, old: Record, new: Record, owner: object) -> None:
    """Check that the users may be merged in this way. Raises Invalid, Forbidden."""
    system = call.services.ids.system_user
    if old["uuid"] == new["uuid"]:
        raise Invalid("new_user_uuid: a user cannot be merged into itself")
    if system in (old["uuid"], new["uuid"]) or old["uuid"][6:] == "tpzed-anonymouspublic":
        raise Invalid("old_user_uuid: the users of the system cannot be merged")
    if not isinstance(owner, str) or not owner:
        raise Invalid(
            "new_owner_uuid: must be the user or project that gets the records of the old user"
        )
    if old["is_admin"] and not new["is_admin"]:
        raise Invalid(
            "new_user_uuid: an admin is merged into an admin only; make the new user one first"
        )
    new_user = access.Principal(
        user_uuid=new["uuid"],
        token_uuid="",
        token="",
        is_admin=new["is_admin"],
        is_active=new["is_active"],
    )
    if owner == old["uuid"]:
        raise Invalid("new_owner_uuid: cannot be the user that is merged")
    await authorization.check_owner_for(
        tx, call.services.clock, call.services.config, new_user, owner
    )
    check_acyclic(old["uuid"], await permission_queries.owners_above(tx, owner))


async def _give(
    tx: Transaction, call: ApiCall, kind: RecordType, old_owner: str, new_owner: str
) -> None:
    """Give all records of a type to the new owner, in batches."""
    dialect, user = call.services.database.dialect, call.caller.user_uuid
    unit = UnitOfWork(tx, call.services, user_uuid=user)
    where = (records.equals(kind, "owner_uuid", old_owner),)
    while batch := await records.find(tx, dialect, kind, where, limit=_BATCH):
        for old in batch:
            new = {**old, "owner_uuid": new_owner}
            if kind is COLLECTIONS:
                await settle_name(tx, new, ensure=True)
            elif kind is GROUPS or ("owner_uuid", "name") in kind.unique:
                await _settle(tx, kind, new)
            await generic.apply(tx, call.services, kind, old, new, user_uuid=user)
            if kind is REQUESTS and old["container_uuid"]:
                unit.stale([old["container_uuid"]])
    await unit.settle()


async def _settle(tx: Transaction, kind: RecordType, record: Record) -> None:
    """Make the name distinct if the owner has a record of that name."""
    same = await records.matching(tx, kind, owner_uuid=record["owner_uuid"], name=record["name"])
    if any(row["uuid"] != record["uuid"] for row in same):
        record["name"] = f"{record['name'][:237]} ({record['uuid'][-15:]})"


async def _move_permissions(tx: Transaction, call: ApiCall, old: str, new: str | None) -> None:
    """Delete the permission links of the old user; with `redirect_to_new_user` create them for the
    new one.
    """
    for link in await links_of(tx, USERS, old):
        await generic.remove(tx, call.services, LINKS, link, user_uuid=call.caller.user_uuid)
        ends = {
            name: new if link[name] == old else link[name] for name in ("tail_uuid", "head_uuid")
        }
        if new is not None and ends["tail_uuid"] != ends["head_uuid"]:
            level = LEVELS.get(link["name"], Level.READ)
            again = {**ends, "link_class": PERMISSION, "name": link["name"]}
            await links.grant(tx, call, generic.new_record(call, LINKS, again), level)


async def _act_for(tx: Transaction, call: ApiCall, old: str, new: str) -> None:
    """Let the requests and containers of the old user that have not ended act for the new one."""
    services, user = call.services, call.caller.user_uuid
    for state in LIVE:
        for row in await records.matching(tx, CONTAINERS, state=state, runtime_user_uuid=old):
            await generic.apply(
                tx, services, CONTAINERS, row, {"runtime_user_uuid": new}, user_uuid=user
            )
    for row in await records.matching(tx, REQUESTS, state="Committed", committed_by_uuid=old):
        await generic.apply(tx, services, REQUESTS, row, {"committed_by_uuid": new}, user_uuid=user)


HANDLERS: Final = {"users.merge": merge_users}
