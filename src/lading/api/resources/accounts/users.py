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
from lading.api.serializer import check_match, present, present_one, show
from lading.core import ids
from lading.core.errors import Forbidden, Invalid, Malformed, Unauthenticated
from lading.core.ids import is_user
from lading.core.records import access
from lading.core.records.filters import check_select
from lading.core.records.record_types import (
    LINKS,
    TOKENS,
    USERS,
)
from lading.core.records.schema import JSON, Record
from lading.store import permission_queries, records
from lading.store.database import Transaction
from lading.store.permission_queries import PERMISSION

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


async def make_user(tx: Transaction, call: ApiCall, attributes: Record) -> Record:
    """Store a new user, set up if active. Raises Invalid."""
    record = generic.new_record(
        call, USERS, {**_checked(attributes), "owner_uuid": call.services.ids.system_user}
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


def _checked(attributes: Record) -> Record:
    for name in ("username", "email"):
        if name in attributes:
            # Empty texts are stored as null: several users may have no name, but no two the same
            # one.
            attributes[name] = attributes[name] or None
    return attributes


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
        granted = await _given_to(tx, user["uuid"])
        shown = await present_one(tx, call.services.config, call.caller, USERS, user)
    return ApiResponse(
        body={
            "kind": "arvados#HashList",
            "items": [shown, *(show(LINKS, link) for link in granted)],
        }
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
            for row in rows:
                await generic.remove(tx, services, kind, row, user_uuid=caller.user_uuid)
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
    if not isinstance(updates, dict) or not all(
        isinstance(attributes, dict) for attributes in updates.values()
    ):
        raise Malformed("updates: must be an object of uuids and attributes")
    async with call.services.database.writing() as tx:
        users = [await _updated(tx, call, uuid, attributes) for uuid, attributes in updates.items()]
        items = await present(tx, call.services.config, call.caller, USERS, users, None)
    return ApiResponse(
        body={
            "kind": "arvados#userList",
            "items": items,
            "items_available": len(items),
            "included": [],
        }
    )


async def _updated(tx: Transaction, call: ApiCall, uuid: str, attributes: Record) -> Record:
    if not ids.is_uuid(uuid) or not is_user(uuid):
        raise Invalid(f"updates: {uuid[:60]!r} is not the uuid of a user")
    old = await records.get(tx, USERS, uuid)
    if old is None:
        return await make_user(
            tx, call, generic.check_attributes(call, USERS, None, {**attributes, "uuid": uuid})
        )
    return await store_user(tx, call, old, generic.check_attributes(call, USERS, old, attributes))


async def _described(tx: Transaction, call: ApiCall) -> Record:
    given = generic.check_attributes(call, USERS, None, _description(call.params.get("user")))
    email = given.get("email")
    if not email:
        raise Invalid("user: give a uuid, or a user with an email")
    found = await records.matching(tx, USERS, email=email)
    return found[0] if found else await make_user(tx, call, given)


def _description(description: JSON) -> Record:
    if description is not None and not isinstance(description, dict):
        raise Malformed("user: must be an object of attributes")
    return description or {}


async def _given_to(tx: Transaction, uuid: str) -> list[Record]:
    return await records.matching(tx, LINKS, tail_uuid=uuid, link_class=PERMISSION)


async def _tokens(tx: Transaction, uuid: str) -> list[Record]:
    return await records.matching(tx, TOKENS, owner_uuid=uuid)


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
}
