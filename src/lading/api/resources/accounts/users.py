"""Users: changes, set-up, and the merge of two accounts.

A merge makes two accounts of one person one. An admin names both (`old_user_uuid`,
`new_user_uuid`); users merge themselves into the holder of `new_user_token`. The records of the old
user go to `new_owner_uuid`, a user or project that the new user can write, with names made unique
there. With `redirect_to_new_user` the tokens of the old user, and permissions from and to the old
user, become those of the new one, and the old user becomes inactive; without it they are deleted,
and the old user stays, without records. Each change has a log row.

Source: docs/spec/api, section Users.
"""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.logins.authentication import authenticate
from lading.api.resources import generic, links
from lading.api.resources.collections import settle_name
from lading.api.serializer import check_match, present, present_one, show
from lading.api.transaction import UnitOfWork
from lading.core import ids
from lading.core.containers.container import LIVE
from lading.core.errors import Forbidden, Invalid, Malformed, Unauthenticated
from lading.core.ids import is_user
from lading.core.records import access
from lading.core.records.access import ALL_SCOPES
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.filters import check_select
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
from lading.core.records.schema import JSON, Record, RecordType
from lading.store import permission_queries, records
from lading.store.database import Transaction
from lading.store.permission_queries import PERMISSION, links_of

# Fields that users may change of their own record.
_OWN: Final = frozenset({"first_name", "last_name", "prefs"})


async def list_users(call: ApiCall) -> ApiResponse:
    """A page of users. A query about attributes that are not public finds only the caller."""
    return await generic.list_records(call, USERS)


async def get_user(call: ApiCall) -> ApiResponse:
    """One user."""
    return await generic.get_record(call, USERS)


async def current_user(call: ApiCall) -> ApiResponse:
    """The user of the calling token."""
    call.uuid = call.caller.user_uuid
    return await generic.get_record(call, USERS)


async def system_user(call: ApiCall) -> ApiResponse:
    """The system user."""
    access.check_admin(call.caller, "see the system user")
    call.uuid = call.services.ids.system_user
    return await generic.get_record(call, USERS)


async def authenticate_user(call: ApiCall) -> ApiResponse:
    """The token that was sent as the password, if it belongs to the named user. Raises
    Unauthenticated.

    For clients that only log in with a name and a password; Lading has no passwords.
    """
    services, name, secret = call.services, call.params.get("username"), call.params.get("password")
    # One message for every reason: it must not reveal which users exist.
    refused = Unauthenticated(
        "Not logged in: there is no such user, or the password is not a token of that user "
        "('lading token create')"
    )
    principal = await authenticate(services, secret) if isinstance(secret, str) else None
    if (
        # A container's token acts for its container alone: it is no login.
        principal is None
        or principal.is_anonymous
        or principal.container_uuid
        or principal.supervises
    ):
        raise refused
    async with services.database.reading() as tx:
        user = await records.get(tx, USERS, principal.user_uuid)
        token = await records.get(tx, TOKENS, principal.token_uuid)
    if user is None or token is None or not name or name not in (user["username"], user["email"]):
        raise refused
    access.check_active(principal)
    parts = principal.token.split("/")
    return ApiResponse(
        body={**show(TOKENS, token), "api_token": parts[2] if len(parts) >= 3 else principal.token}
    )


async def create_user(call: ApiCall) -> ApiResponse:
    """A new user, made by an admin."""
    access.check_admin(call.caller, "make users")
    async with call.services.database.writing() as tx:
        record = await make_user(tx, call, generic.check_attributes(call, USERS, None))
        return ApiResponse(
            body=await present_one(tx, call.services.config, call.caller, USERS, record)
        )


async def make_user(tx: Transaction, call: ApiCall, given: Record) -> Record:
    """Store a new user, set up if active. Raises Invalid."""
    record = generic.new_record(
        call, USERS, {**_checked(given), "owner_uuid": call.services.ids.system_user}
    )
    for name in ("username", "email"):
        if record[name] is not None and await records.matching(tx, USERS, **{name: record[name]}):
            raise Invalid(f"{name}: '{record[name]}' is taken")
    await generic.insert(tx, call, USERS, record)
    if record["is_active"]:
        await links.set_up(tx, call, record["uuid"])
    return record


async def update_user(call: ApiCall) -> ApiResponse:
    """Change a user: admins all attributes, users their names and preferences."""
    select = check_select(call.params.get("select"), USERS)
    caller = call.caller
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, call.services.clock, call.services.config, USERS, call.uuid, caller
        )
        changes = generic.check_attributes(call, USERS, old)
        await authorization.check_writable(tx, USERS, old, caller)
        check_match(call, old)
        changed = sorted(
            name for name, value in changes.items() if value != old[name] and name != "owner_uuid"
        )
        if not caller.is_admin and not set(changed) <= _OWN:
            raise Forbidden(
                f"Forbidden: only admins may change {', '.join(set(changed) - _OWN)} of a user"
            )
        # Without one an installation could lose its last admin.
        if old["uuid"] == call.services.ids.system_user and {"is_admin", "is_active"} & set(
            changed
        ):
            raise Invalid(f"{changed[0]}: the system user stays an active admin")
        new = await store_user(tx, call, old, changes)
        return ApiResponse(
            body=await present_one(tx, call.services.config, caller, USERS, new, select)
        )


async def store_user(tx: Transaction, call: ApiCall, old: Record, changes: Record) -> Record:
    """Store the changed attributes of a user; a user who becomes active is set up."""
    changes = _checked({name: value for name, value in changes.items() if name != "owner_uuid"})
    new = await generic.apply(
        tx, call.services, USERS, old, changes, user_uuid=call.caller.user_uuid
    )
    if new["is_active"] and not old["is_active"]:
        await links.set_up(tx, call, new["uuid"])
    return new


async def delete_user(call: ApiCall) -> ApiResponse:
    """Delete a user and the tokens of the user; the system user and the caller cannot be
    deleted.
    """
    access.check_admin(call.caller, "delete users")
    if call.uuid in (call.services.ids.system_user, call.caller.user_uuid):
        raise Invalid("uuid: neither the system user nor yourself can be deleted")
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, call.services.clock, call.services.config, USERS, call.uuid, call.caller
        )
        check_match(call, old)
        shown = await present_one(tx, call.services.config, call.caller, USERS, old)
        await generic.remove(tx, call.services, USERS, old, user_uuid=call.caller.user_uuid)
    return ApiResponse(body=shown)


def _checked(given: Record) -> Record:
    for name in ("username", "email"):
        if name in given:
            # Empty texts are stored as null: several users may have no name, but no two the same
            # one.
            given[name] = given[name] or None
    return given


async def setup_user(call: ApiCall) -> ApiResponse:
    """Set up a user, named by `uuid`, or described by `user` and created if necessary."""
    access.check_admin(call.caller, "set up users")
    uuid = call.params.get("uuid")
    async with call.services.database.writing() as tx:
        if uuid is not None:
            user = await authorization.find_readable(
                tx, call.services.clock, call.services.config, USERS, str(uuid), call.caller
            )
            check_match(call, user)
        else:
            user = await _described(tx, call)
        await links.set_up(tx, call, user["uuid"])
        given = await _given_to(tx, user["uuid"])
        shown = await present_one(tx, call.services.config, call.caller, USERS, user)
    return ApiResponse(
        body={"kind": "arvados#HashList", "items": [shown, *(show(LINKS, one) for one in given)]}
    )


async def unsetup_user(call: ApiCall) -> ApiResponse:
    """Delete the permissions and tokens of a user, and make the user inactive."""
    access.check_admin(call.caller, "shut users out")
    services, caller = call.services, call.caller
    select = check_select(call.params.get("select"), USERS)
    async with services.database.writing() as tx:
        user = await authorization.find_readable(
            tx, services.clock, services.config, USERS, call.uuid, caller
        )
        check_match(call, user)
        if user["uuid"] in (services.ids.system_user, caller.user_uuid):
            raise Invalid("uuid: neither the system user nor yourself can be shut out")
        for kind, rows in (
            (LINKS, await _given_to(tx, user["uuid"])),
            (TOKENS, await _tokens(tx, user["uuid"])),
        ):
            for one in rows:
                await generic.remove(tx, services, kind, one, user_uuid=caller.user_uuid)
        gone = {"is_active": False, "is_admin": False, "prefs": {}}
        user = await generic.apply(tx, services, USERS, user, gone, user_uuid=caller.user_uuid)
        return ApiResponse(body=await present_one(tx, services.config, caller, USERS, user, select))


async def activate_user(call: ApiCall) -> ApiResponse:
    """Make a user active: admins any user, users themselves once they were set up."""
    services, caller = call.services, call.caller
    select = check_select(call.params.get("select"), USERS)
    async with services.database.writing() as tx:
        user = await authorization.find_readable(
            tx, services.clock, services.config, USERS, call.uuid, caller
        )
        check_match(call, user)
        if not caller.is_admin:
            everybody = ids.all_users(services.config.ClusterID)
            if user["uuid"] != caller.user_uuid or not await permission_queries.members_of(
                tx, everybody, [user["uuid"]]
            ):
                raise Forbidden(
                    "Forbidden: is_active: you were not invited; ask an admin to set you up"
                )
        user = await store_user(tx, call, user, {"is_active": True})
        return ApiResponse(body=await present_one(tx, services.config, caller, USERS, user, select))


async def update_users(call: ApiCall) -> ApiResponse:
    """Change many users, and create missing ones: `updates` is {uuid: attributes}."""
    access.check_admin(call.caller, "change users")
    updates = call.params.get("updates")
    if not isinstance(updates, dict) or not all(isinstance(one, dict) for one in updates.values()):
        raise Malformed("updates: must be an object of uuids and attributes")
    async with call.services.database.writing() as tx:
        users = [await _updated(tx, call, uuid, given) for uuid, given in updates.items()]
        items = await present(tx, call.services.config, call.caller, USERS, users, None)
    return ApiResponse(
        body={
            "kind": "arvados#userList",
            "items": items,
            "items_available": len(items),
            "included": [],
        }
    )


async def _updated(tx: Transaction, call: ApiCall, uuid: str, given: Record) -> Record:
    if not ids.is_uuid(uuid) or not is_user(uuid):
        raise Invalid(f"updates: {uuid[:60]!r} is not the uuid of a user")
    old = await records.get(tx, USERS, uuid)
    if old is None:
        return await make_user(
            tx, call, generic.check_attributes(call, USERS, None, {**given, "uuid": uuid})
        )
    return await store_user(tx, call, old, generic.check_attributes(call, USERS, old, given))


async def _described(tx: Transaction, call: ApiCall) -> Record:
    given = generic.check_attributes(call, USERS, None, _description(call.params.get("user")))
    email = given.get("email")
    if not email:
        raise Invalid("user: give a uuid, or a user with an email")
    found = await records.matching(tx, USERS, email=email)
    return found[0] if found else await make_user(tx, call, given)


def _description(given: JSON) -> Record:
    if given is not None and not isinstance(given, dict):
        raise Malformed("user: must be an object of attributes")
    return given or {}


async def _given_to(tx: Transaction, uuid: str) -> list[Record]:
    return await records.matching(tx, LINKS, tail_uuid=uuid, link_class=PERMISSION)


async def _tokens(tx: Transaction, uuid: str) -> list[Record]:
    return await records.matching(tx, TOKENS, owner_uuid=uuid)


# Records that are held in memory at a time.
_BATCH: Final = 200
_OWNED: Final = tuple(
    one for one in RECORDS if one.stored and one.owned and one not in (USERS, TOKENS, LOGS)
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
    other = await authenticate(call.services, token)
    if other is None:
        raise Unauthenticated("Not logged in: new_user_token is not valid")
    if other.scopes != ALL_SCOPES or other.container_uuid is not None:
        raise Forbidden("Forbidden: new_user_token is of limited scope")
    access.check_active(other)
    return caller.user_uuid, other.user_uuid


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
    if any(one["uuid"] != record["uuid"] for one in same):
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


HANDLERS: Final = {
    "users.list": list_users,
    "users.get": get_user,
    "users.current": current_user,
    "users.system": system_user,
    "users.authenticate": authenticate_user,
    "users.create": create_user,
    "users.update": update_user,
    "users.delete": delete_user,
    "users.setup": setup_user,
    "users.unsetup": unsetup_user,
    "users.activate": activate_user,
    "users.batch_update": update_users,
    "users.merge": merge_users,
}
